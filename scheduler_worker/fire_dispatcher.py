"""Which fire goes next: order, rate limit, calls at the same time, and a last look at the trigger.

One dispatcher takes fires in order (live before late), waits for a free call and for the rate limiter, has the triggers
brought up to date and passes on what is still owed; a fixed number of callers make the calls.
"""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import structlog
from aiolimiter import AsyncLimiter

from scheduler_worker.domain.fire import ArmedTrigger, Fire, FireKind
from scheduler_worker.domain.outcomes import UnfiredReason
from scheduler_worker.fire_queue import FireQueue
from scheduler_worker.progress_writer import ProgressWriter
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.trigger_executor import TriggerExecutor

LATE_SHARE = 0.75
"""Part of the calls in flight that late fires may take. The rest stays free for live ones, so that slow or hanging late
calls never hold a live fire back."""

_BATCH = 25
"""Fires that are checked and sent together: one check of the triggers for many, and little enough work for one turn of
the event loop."""

_BATCH_PAUSE_SECONDS = 0.004
"""While more fires wait than calls are free, freed calls are gathered this long to fill a batch."""

log = structlog.get_logger(__name__)


class Guard(Protocol):
    """Whoever looks at triggers just before calls are made; see `last_look`."""

    async def bring_up_to_date(self, armed: Collection[ArmedTrigger]) -> None:
        """Take in what changed in the database for these triggers; keep the last known state if it is away."""


@dataclass(frozen=True, kw_only=True)
class DispatchLimits:
    """What bounds the dispatcher.

    Attributes:
        qps: calls per second in the long run, or None for no limit.
        burst: calls that may be made at once after a quiet time.
        calls_in_flight: calls at the same time.
    """

    qps: float | None
    burst: int
    calls_in_flight: int


class FireDispatcher:
    """Passes on all fires that `offer` takes in. `run` works until it is cancelled.

    Attributes:
        queue: the fires that wait.
    """

    def __init__(
        self,
        *,
        queue: FireQueue,
        executor: TriggerExecutor,
        progress: ProgressWriter,
        limits: DispatchLimits,
        metrics: Metrics,
    ) -> None:
        self.queue = queue
        self._executor = executor
        self._reachability = executor.reachability
        self._progress = progress
        self._limits = limits
        self._metrics = metrics
        self._limiter = (
            None if limits.qps is None else AsyncLimiter(limits.burst, time_period=limits.burst / limits.qps)
        )
        self._changed = asyncio.Event()
        self._ready: asyncio.Queue[Fire] = asyncio.Queue()
        self._taken: set[Fire] = set()
        self._late_taken = 0
        self._late_limit = max(1, int(limits.calls_in_flight * LATE_SHARE))
        self._accepts = True
        self._is_held = False
        self._idle = asyncio.Event()
        self._idle.set()
        queue.on_change = self.look_again

    def look_again(self) -> None:
        """Note that something changed which calls may have waited for."""
        self._changed.set()

    # -- taking fires in -------------------------------------------------------------------------------------------

    def offer(self, fire: Fire) -> bool:
        """Queue a fire whose time its ledger has handed out, or say False: the queue is full, or work is ending."""
        return self._accepts and self.queue.offer(fire)

    @property
    def calls_in_flight(self) -> int:
        """Number of fires between the queue and the answer of their call."""
        return len(self._taken)

    async def drain(self, grace: timedelta) -> int:
        """Take in and start no more fires, wait for the calls in flight, and return how many are left after `grace`."""
        self._accepts = False
        self.look_again()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace.total_seconds()):
                await self._idle.wait()
        return len(self._taken)

    def hold(self) -> None:
        """Start no calls until `go_on`. Calls in flight may end."""
        self._is_held = True

    def go_on(self) -> None:
        """Start calls again."""
        self._is_held = False
        self.look_again()

    # -- the dispatcher --------------------------------------------------------------------------------------------

    async def run(self, guard: Guard) -> None:
        """Work until cancelled. Fires that are in hand then stay owed."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._limits.calls_in_flight):
                tasks.create_task(self._call_for_ever())
            tasks.create_task(self._dispatch(guard))

    async def _dispatch(self, guard: Guard) -> None:
        await guard.bring_up_to_date(())  # opens what it asks over, so that the first fire need not wait for that
        while True:
            await self._wait_for_work()
            if not self._reachability.is_reachable:
                await self._probe(guard)
                continue
            if self._sendable() < min(_BATCH, len(self.queue)):
                await asyncio.sleep(_BATCH_PAUSE_SECONDS)
            for fire in await self._still_owed(await self._take_batch(), guard):
                self._ready.put_nowait(fire)

    async def _wait_for_work(self) -> None:
        while not self._sendable():
            self._changed.clear()
            await self._changed.wait()

    def _sendable(self) -> int:
        """Return how many fires could be called now."""
        if not self._accepts or self._is_held:
            return 0
        free = self._limits.calls_in_flight - len(self._taken)
        late = min(self.queue.late, self._late_limit - self._late_taken)
        return min(free, self.queue.live + max(0, late))

    async def _take_batch(self) -> list[Fire]:
        """Take a batch of fires, or as many as there are tokens at this moment, but at least one.

        The token comes before the choice, so that a live fire which falls due during the wait goes first.
        """
        batch: list[Fire] = []
        limiter = self._limiter
        while len(batch) < _BATCH and self._sendable() and (limiter is None or not batch or limiter.has_capacity()):
            if limiter is not None:
                await limiter.acquire()
            if not self._sendable():  # told to stop while the token was on its way
                break
            fire = self.queue.pop(late_allowed=self._late_taken < self._late_limit)
            if fire is None:
                break
            self._take(fire)
            batch.append(fire)
        return batch

    async def _still_owed(self, batch: Sequence[Fire], guard: Guard) -> list[Fire]:
        """Return the fires that are still owed after the guard's look, and deal with the others."""
        await guard.bring_up_to_date({fire.armed for fire in batch})
        owed = []
        for fire in batch:
            if self._is_owed(fire):
                owed.append(fire)
            else:
                self._leave(fire)
        return owed

    def _is_owed(self, fire: Fire) -> bool:
        ledger = fire.armed.ledger
        if fire.kind is FireKind.UNFIRED:
            if fire.armed.trigger.schedule is not None:
                return True
            fire.is_done = True  # its record and the wish to send it stay until the trigger is active again
            return False
        if fire.spans is ledger.spans:
            return True
        fire.spans = ledger.spans
        span = ledger.span_of(fire.time)
        if span is None:
            ledger.release(fire.time)
            self._metrics.fires_dropped.inc()
            log.info("fire_dropped", trigger=str(fire.armed.trigger.key), fire_time=fire.time.isoformat())
            return False
        if span.forfeit is not None:
            self._progress.unfired(fire, reason=UnfiredReason(span.forfeit))
            return False
        return True

    async def _probe(self, guard: Guard) -> None:
        """While the service is unreachable: wait for the probe's turn, then try one fire alone."""
        await asyncio.sleep(self._reachability.probe_wait(now=asyncio.get_running_loop().time()))
        if self._reachability.is_reachable or not self._sendable():
            return
        fire = self.queue.pop(late_allowed=True)
        if fire is None:
            return
        self._take(fire)
        for owed in await self._still_owed([fire], guard):
            await self._call(owed)

    # -- the callers -----------------------------------------------------------------------------------------------

    async def _call_for_ever(self) -> None:
        while True:
            fire = await self._ready.get()
            if self._reachability.is_reachable and not self._is_held:
                await self._call(fire)
            else:
                self._leave(fire)
                self.queue.put_back(fire)

    async def _call(self, fire: Fire) -> None:
        try:
            await self._executor.execute(fire)
        finally:
            self._leave(fire)

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    def _take(self, fire: Fire) -> None:
        self._taken.add(fire)
        self._late_taken += fire.kind is not FireKind.LIVE
        self._idle.clear()

    def _leave(self, fire: Fire) -> None:
        self._taken.discard(fire)
        self._late_taken -= fire.kind is not FireKind.LIVE
        if not self._taken:
            self._idle.set()
        self._changed.set()
