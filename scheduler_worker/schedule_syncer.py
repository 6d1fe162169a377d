"""The sync loop: what changed in the database goes to the trigger scheduler, and owed times go on their way.

Decides when to look and what to read; must never decide what a row means. A pass that fails is logged, counted and
followed by the next one: armed triggers go on firing without it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog

from scheduler_worker import garbage
from scheduler_worker.database.trigger_store import TriggerRow
from scheduler_worker.database.unfired_store import UnfiredFire
from scheduler_worker.domain.reconcile import Reconciliation
from scheduler_worker.errors import DatabaseUnavailableError
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.trigger_scheduler import TriggerScheduler

SKEW_WORTH_A_WARNING = timedelta(seconds=2)
"""Difference between our clock and the database's from which fires are visibly early or late."""

ENDED_OVERLAP = timedelta(minutes=1)
"""How far before the last sync to look for triggers that ended since: a commit is later than the times it wrote."""

IDS_PER_READ = 2_000
"""Changed rows read at a time."""

FIRST_LOAD_RETRY_SECONDS = 1.0
"""Wait after a first load that failed: until it succeeds nothing is armed, so it does not wait for the interval."""

PRUNE_INTERVAL = timedelta(hours=1)
"""Wait between two looks for unfired fires that are past their retention."""

log = structlog.get_logger(__name__)


class TriggerSource(Protocol):
    """What a sync reads of the triggers."""

    async def clock(self) -> datetime:
        """Return the database's time."""

    async def revisions(self, take: Callable[[Iterable[tuple[int, int]]], None]) -> None:
        """Give `take` the (id, latest revision) of all active schedule triggers, in parts."""

    def active_rows(self) -> AsyncIterator[Sequence[TriggerRow]]:
        """Yield pages of all active schedule triggers, whole."""

    async def ended(self, since: datetime | None) -> Sequence[TriggerRow]:
        """Return triggers that were paused or deleted and may have left fire times open."""


class UnfiredSource(Protocol):
    """What a sync does with unfired fires."""

    async def take_retries(self, limit: int) -> Sequence[UnfiredFire]:
        """Return unfired fires that a person asked to send again."""

    async def prune(self, older_than: datetime) -> int:
        """Delete unfired fires recorded earlier than that, and return how many."""


class ScheduleSyncer:
    """Syncs at once on start, at every interval, and when asked to.

    Attributes:
        last_success: when the last full sync ended well; None before the first.
        loaded: set once the first full sync is through.
    """

    def __init__(
        self,
        triggers: TriggerSource,
        unfired: UnfiredSource,
        scheduler: TriggerScheduler,
        *,
        interval: timedelta,
        unfired_retention: timedelta,
        clock: Callable[[], datetime],
        metrics: Metrics,
    ) -> None:
        self._triggers = triggers
        self._unfired = unfired
        self._scheduler = scheduler
        self._interval = interval
        self._unfired_retention = unfired_retention
        self._clock = clock
        self._metrics = metrics
        self._ids_asked_for: set[int] = set()
        self._everything_asked_for = False
        self._asked = asyncio.Event()
        self._database_time: datetime | None = None
        self._next_prune: datetime | None = None
        self._skew_is_reported = False
        self._is_failing = False
        self.last_success: datetime | None = None
        self.loaded = asyncio.Event()

    # -- the loop --------------------------------------------------------------------------------------------------

    def ask(self, ids: frozenset[int] | None = None) -> None:
        """Ask for a sync soon: of some triggers, or of all when `ids` is None."""
        if ids is None:
            self._everything_asked_for = True
        else:
            self._ids_asked_for |= ids
        self._asked.set()

    async def run(self) -> None:
        """Sync until cancelled."""
        loop = asyncio.get_running_loop()
        next_full = loop.time()
        while True:
            self._asked.clear()
            is_due = loop.time() >= next_full
            if is_due:
                next_full = loop.time() + self._interval.total_seconds()
            ids, everything = frozenset(self._ids_asked_for), is_due or self._everything_asked_for
            self._ids_asked_for, self._everything_asked_for = set(), False
            if everything:
                await self._attempt(self.sync(refill=is_due))
            elif ids:
                await self._attempt(self.sync_some(ids))
            if not self.loaded.is_set():
                next_full = min(next_full, loop.time() + FIRST_LOAD_RETRY_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next_full):
                    await self._asked.wait()

    async def _attempt(self, sync: Coroutine[Any, Any, None]) -> None:
        """Run one sync; what goes wrong is logged and counted, and what was asked for waits for the next interval."""
        started = asyncio.get_running_loop().time()
        try:
            await sync
        except DatabaseUnavailableError as error:
            self._metrics.sync_ended("database_away", asyncio.get_running_loop().time() - started)
            if not self._is_failing:
                log.warning("sync_failed", error=str(error))
            self._is_failing = True
        except Exception:
            self._metrics.sync_ended("error", asyncio.get_running_loop().time() - started)
            log.exception("sync_failed")
            self._is_failing = True
        else:
            self._metrics.sync_ended("ok", asyncio.get_running_loop().time() - started)
            log.debug("sync_done", triggers=len(self._scheduler.known))
            if self._is_failing:
                log.info("sync_works_again")
            self._is_failing = False

    # -- one sync --------------------------------------------------------------------------------------------------

    async def sync(self, *, refill: bool = True) -> None:
        """Bring every trigger up to date, then hand out owed times: a new sync's worth if `refill`, else what is left.

        Raises:
            DatabaseUnavailableError: the database is away. What was read until then was taken in.
        """
        started = await self._read_clock()
        if self.loaded.is_set():
            await self._take_in_changes()
        else:
            await self._load()
        since = None if self._database_time is None else self._database_time - ENDED_OVERLAP
        await self._scheduler.update_schedules(await self._triggers.ended(since), seen_since=since)
        self._database_time = started
        self._scheduler.rearm_lost_jobs()
        self._scheduler.retry_unfired(await self._unfired.take_retries(IDS_PER_READ))
        await self._scheduler.catchup_all(self._clock(), refill=refill)
        await self._prune()
        self.last_success = self._clock()
        self._metrics.sync_succeeded_at(self.last_success)
        self.loaded.set()

    async def sync_some(self, ids: frozenset[int]) -> None:
        """Bring these triggers up to date, then hand out what this interval's sync has left over.

        Raises:
            DatabaseUnavailableError: the database is away.
        """
        await self._reload(sorted(ids))
        await self._scheduler.catchup_all(self._clock(), refill=False)

    async def _load(self) -> None:
        began = asyncio.get_running_loop().time()
        with garbage.collected_later():
            async for rows in self._triggers.active_rows():
                await self._scheduler.update_schedules(rows)
                garbage.keep_what_there_is()
        self._scheduler.end_load()
        bad = len(self._scheduler.bad_rows)
        seconds = round(asyncio.get_running_loop().time() - began, 3)
        log.info("triggers_loaded", triggers=len(self._scheduler.known), bad=bad, seconds=seconds)

    async def _take_in_changes(self) -> None:
        comparison = Reconciliation(self._scheduler.known)
        await self._triggers.revisions(comparison.feed)
        await self._reload(sorted(comparison.changed))
        await self._reload(comparison.missing)

    async def _reload(self, ids: Sequence[int]) -> None:
        for start in range(0, len(ids), IDS_PER_READ):
            await self._scheduler.reload(ids[start : start + IDS_PER_READ])

    async def _read_clock(self) -> datetime:
        """Read the database's clock and compare it with ours: fires follow ours, activations the database's."""
        before = self._clock()
        database_time = await self._triggers.clock()
        skew = database_time - before - (self._clock() - before) / 2
        self._metrics.database_clock_skew.set(skew.total_seconds())
        is_large = abs(skew) >= SKEW_WORTH_A_WARNING
        if is_large and not self._skew_is_reported:
            log.warning("clock_skew", database_ahead_seconds=skew.total_seconds())
        self._skew_is_reported = is_large
        return database_time

    async def _prune(self) -> None:
        now = self._clock()
        if self._next_prune is None or now >= self._next_prune:
            self._next_prune = now + PRUNE_INTERVAL
            pruned = await self._unfired.prune(now - self._unfired_retention)
            if pruned:
                log.info("unfired_pruned", count=pruned)
