"""Progress on its way to Postgres: gathered in memory, written in batches about once a second.

Settling is immediate in the ledger and durable with the next write. A crash between the two leaves fires owed that have
their run already; the run's name makes sending them again harmless. Fires that will not become runs are written in the
same transaction as the progress that moves over them, so none of them can vanish.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

import structlog

from scheduler_worker.database.progress_store import ProgressUpdate
from scheduler_worker.database.unfired_store import UnfiredFire
from scheduler_worker.domain.fire import ArmedTrigger, Fire, FireKind
from scheduler_worker.domain.outcomes import Outcome, UnfiredReason
from scheduler_worker.domain.run_name import run_name
from scheduler_worker.errors import DatabaseUnavailableError, RunServiceError
from scheduler_worker.telemetry.metrics import Metrics

WRITE_INTERVAL_SECONDS = 1.0
"""How much settled work a crash may forget. Forgotten work is sent again and found to be done."""

ROWS_PER_WRITE = 1_000
"""Rows of one transaction: some ten milliseconds in the database, and half of it on the event loop at one go."""

UNFIRED_ROWS_HELD = 20_000
"""Unfired rows that may wait for a database that is away. Past it fires stay in the queue instead of being given up."""

log = structlog.get_logger(__name__)


class SettlementStore(Protocol):
    """Where progress goes, all of one write in one transaction."""

    async def write(
        self,
        progress: Sequence[ProgressUpdate],
        unfired: Sequence[UnfiredFire],
        resolved: Sequence[tuple[int, datetime]],
    ) -> None:
        """Write progress, record unfired fires, delete the (trigger id, fire time) that have a run now."""


class ProgressWriter:
    """Takes in what became of fires, settles it in the ledgers and writes it down.

    Attributes:
        first_marks_wait: True at first: what settled is written, and triggers that have no mark yet wait.
    """

    def __init__(self, store: SettlementStore, *, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._moved: dict[int, ArmedTrigger] = {}
        self._without_mark: list[ArmedTrigger] = []
        self._last_runs: dict[int, tuple[datetime, str, Outcome, timedelta]] = {}
        self._unfired: list[UnfiredFire] = []
        self._resolved: list[tuple[int, datetime]] = []
        self._writing = asyncio.Lock()
        self._in_write: frozenset[int] = frozenset()
        self._is_failing = False
        self.first_marks_wait = True

    # -- taking in -------------------------------------------------------------------------------------------------

    def moved(self, armed: ArmedTrigger) -> None:
        """Note that the trigger's `confirmed_through` is worth writing down."""
        self._moved[armed.trigger.id] = armed

    def has_no_mark(self, armed: ArmedTrigger) -> None:
        """Note a trigger of which nothing is written yet, for a first mark once there is time for it.

        Without one a restart would have to guess from ``triggered_at``, which any run moves.
        """
        self._without_mark.append(armed)

    def settled(self, fire: Fire, *, run_name: str, outcome: Outcome, lateness: timedelta) -> None:
        """Settle a fire that has its run."""
        fire.is_done = True
        trigger_id = fire.armed.trigger.id
        if fire.kind is FireKind.UNFIRED:
            self._resolved.append((trigger_id, fire.time))
            return
        fire.armed.ledger.settle(fire.time)
        self._moved[trigger_id] = fire.armed
        last = self._last_runs.get(trigger_id)
        if last is None or last[0] <= fire.time:
            self._last_runs[trigger_id] = (fire.time, run_name, outcome, lateness)

    def unfired(self, fire: Fire, *, reason: UnfiredReason, error: RunServiceError | None = None) -> bool:
        """Settle a fire that will not become a run, or say False when no more can be held: the fire stays open."""
        fire.is_done = self.will_not_run(
            fire.armed,
            fire.time,
            reason=reason,
            error=error,
            attempts=fire.attempts,
            settle=fire.kind is not FireKind.UNFIRED,
        )
        return fire.is_done

    def will_not_run(
        self,
        armed: ArmedTrigger,
        time: datetime,
        *,
        reason: UnfiredReason,
        error: RunServiceError | None = None,
        attempts: int = 0,
        settle: bool = True,
    ) -> bool:
        """Settle one fire time as unfired, or say False when no more can be held: the time stays owed."""
        if len(self._unfired) >= UNFIRED_ROWS_HELD:
            return False
        trigger = armed.trigger
        self._unfired.append(
            UnfiredFire(
                trigger_id=trigger.id,
                key=trigger.key,
                fire_time=time,
                run_name=run_name(trigger.key, time),
                reason=reason,
                code=error.code if error else None,
                message=error.details if error else None,
                attempts=attempts,
            )
        )
        if settle:
            armed.ledger.settle(time)
            self._moved[trigger.id] = armed
        self._metrics.fire_unfired(reason)
        if error is not None:
            log.warning(
                "fire_given_up",
                trigger=str(trigger.key),
                fire_time=time.isoformat(),
                reason=reason,
                code=error.code,
                details=error.details,
                attempts=attempts,
            )
        else:
            log.debug("fire_skipped", trigger=str(trigger.key), fire_time=time.isoformat(), reason=reason)
        return True

    def is_pending(self, trigger_id: int) -> bool:
        """Say whether progress of the trigger is not written yet."""
        return trigger_id in self._moved or trigger_id in self._in_write

    @property
    def pending(self) -> int:
        """Number of rows not written yet."""
        return len(self._moved) + len(self._without_mark) + len(self._unfired) + len(self._resolved)

    @property
    def _has_work(self) -> bool:
        first_marks = () if self.first_marks_wait else self._without_mark
        return any((self._moved, first_marks, self._unfired, self._resolved))

    # -- writing ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write about once a second until cancelled. A database that is away costs a line of log, not the progress."""
        while True:
            await asyncio.sleep(WRITE_INTERVAL_SECONDS)
            await self.try_to_write()

    async def try_to_write(self) -> bool:
        """Write everything there is, and say whether that worked."""
        try:
            await self.write()
        except DatabaseUnavailableError as error:
            if not self._is_failing:
                log.warning("progress_write_failed", error=str(error), pending=self.pending)
            self._is_failing = True
            self._metrics.progress_write_failures.inc()
            return False
        except Exception:
            log.exception("progress_write_failed", pending=self.pending)
            self._is_failing = True
            self._metrics.progress_write_failures.inc()
            return False
        if self._is_failing:
            log.info("progress_written_again")
        self._is_failing = False
        return True

    async def write(self) -> None:
        """Write everything there is. What could not be written is kept for the next time."""
        async with self._writing:
            while self._has_work:
                await self._write_some()

    async def _write_some(self) -> None:
        """Write one transaction's worth.

        Unfired rows go first: the progress of their triggers is read after they were taken, and is written with them
        or later, never before.
        """
        unfired, self._unfired = self._unfired[:ROWS_PER_WRITE], self._unfired[ROWS_PER_WRITE:]
        resolved, self._resolved = self._resolved[:ROWS_PER_WRITE], self._resolved[ROWS_PER_WRITE:]
        held_back = {row.trigger_id for row in self._unfired}
        free = (armed for armed in self._moved.values() if armed.trigger.id not in held_back)
        moved = {armed.trigger.id: armed for armed in islice(free, ROWS_PER_WRITE)}
        while self._without_mark and not self.first_marks_wait and len(moved) < ROWS_PER_WRITE:
            armed = self._without_mark.pop()
            if armed.trigger.id not in self._moved:  # else its turn comes with those that moved
                moved[armed.trigger.id] = armed
        progress = [self._update(armed) for armed in moved.values()]
        for trigger_id in moved:
            self._moved.pop(trigger_id, None)
        self._in_write = frozenset(moved)
        try:
            await self._store.write(progress, unfired, resolved)
        except BaseException:
            self._unfired[:0] = unfired
            self._resolved[:0] = resolved
            for armed, update in zip(moved.values(), progress, strict=True):
                self._moved.setdefault(armed.trigger.id, armed)
                self._keep_last_run(update)
            raise
        finally:
            self._in_write = frozenset()

    def _update(self, armed: ArmedTrigger) -> ProgressUpdate:
        last = self._last_runs.pop(armed.trigger.id, None)
        return ProgressUpdate(
            trigger_id=armed.trigger.id,
            confirmed_through=armed.ledger.confirmed_through,
            revision=armed.trigger.revision,
            last_fire_time=last[0] if last else None,
            last_run_name=last[1] if last else None,
            last_outcome=last[2] if last else None,
            last_lateness_ms=last[3] / timedelta(milliseconds=1) if last else None,
        )

    def _keep_last_run(self, update: ProgressUpdate) -> None:
        if update.last_fire_time is None or update.last_run_name is None or update.last_outcome is None:
            return
        lateness = timedelta(milliseconds=update.last_lateness_ms or 0.0)
        last = (update.last_fire_time, update.last_run_name, Outcome(update.last_outcome), lateness)
        self._last_runs.setdefault(update.trigger_id, last)
