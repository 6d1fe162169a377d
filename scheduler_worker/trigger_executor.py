"""From a fire to its run: order, rate limit, one CreateRun per fire time, and what its answer means.

One dispatcher takes fires in order (live before late), waits for a free call and for the rate limiter, has the triggers
brought up to date and passes on what is still owed; a fixed number of callers make the calls. A fire leaves this module
settled, recorded as unfired, or not at all: then it is still owed.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from aiolimiter import AsyncLimiter

from scheduler_worker.domain.fire import ArmedTrigger, Fire, FireKind
from scheduler_worker.domain.outcomes import (
    Failure,
    Outcome,
    UnfiredReason,
    backoff,
    failure_of,
    may_have_created_a_run,
)
from scheduler_worker.domain.run_name import run_name
from scheduler_worker.domain.trigger import Trigger
from scheduler_worker.errors import RunServiceError
from scheduler_worker.fire_queue import FireQueue
from scheduler_worker.progress_writer import ProgressWriter
from scheduler_worker.reachability import Reachability
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.run_service.requests import create_run_request
from scheduler_worker.telemetry.metrics import Metrics

LATE_SHARE = 0.75
"""Part of the calls in flight that late fires may take. The rest stays free for live ones, so that slow or hanging late
calls never hold a live fire back."""

_BATCH_PAUSE_SECONDS = 0.002
"""While more fires wait than calls are free, freed calls are gathered this long: one check of the triggers for many."""

_WORTHWHILE_BATCH = 32

log = structlog.get_logger(__name__)


class Guard(Protocol):
    """Whoever knows the triggers, asked just before calls are made."""

    async def bring_up_to_date(self, armed: Collection[ArmedTrigger]) -> None:
        """Take in what changed in the database for these triggers; keep the last known state if it is away."""


@dataclass(frozen=True, kw_only=True)
class ExecutionLimits:
    """What bounds the executor.

    Attributes:
        qps: calls per second in the long run, or None for no limit.
        burst: calls that may be made at once after a quiet time.
        call_deadline: how long one call may take.
        give_up_after: how long a doubtful failure is tried again, counted from the first try.
        calls_in_flight: calls at the same time.
    """

    qps: float | None
    burst: int
    call_deadline: timedelta
    give_up_after: timedelta
    calls_in_flight: int


class TriggerExecutor:
    """Makes the calls of all fires that `offer` takes in. `run` works until it is cancelled."""

    def __init__(
        self,
        *,
        client: RunServiceClient,
        progress: ProgressWriter,
        limits: ExecutionLimits,
        queue: FireQueue,
        clock: Callable[[], datetime],
        metrics: Metrics,
        org: str = "",
    ) -> None:
        self._client = client
        self._progress = progress
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._org = org
        self._limiter = (
            None if limits.qps is None else AsyncLimiter(limits.burst, time_period=limits.burst / limits.qps)
        )
        self.queue = queue
        queue.on_change = self._changed_now
        self.reachability = Reachability(on_change=self._reachability_changed)
        self._changed = asyncio.Event()
        self._ready: asyncio.Queue[Fire] = asyncio.Queue()
        self._taken: set[Fire] = set()
        self._late_taken = 0
        self._late_limit = max(1, int(limits.calls_in_flight * LATE_SHARE))
        self._accepts = True
        self._is_held = False
        self._idle = asyncio.Event()
        self._idle.set()
        metrics.run_service_reachable.set(1)

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
        self._changed_now()
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
        self._changed_now()

    # -- the dispatcher --------------------------------------------------------------------------------------------

    async def run(self, guard: Guard) -> None:
        """Work until cancelled. Fires that are in hand then stay owed."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._limits.calls_in_flight):
                tasks.create_task(self._call_for_ever())
            tasks.create_task(self._dispatch(guard))

    async def _dispatch(self, guard: Guard) -> None:
        while True:
            await self._wait_for_work()
            if not self.reachability.is_reachable:
                await self._probe(guard)
                continue
            if self._sendable() < min(_WORTHWHILE_BATCH, len(self.queue)):
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
        """Take as many fires as there are tokens at this moment, at least one.

        The token comes before the choice, so that a live fire which falls due during the wait goes first.
        """
        batch: list[Fire] = []
        limiter = self._limiter
        while self._sendable() and (limiter is None or not batch or limiter.has_capacity()):
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
        await asyncio.sleep(self.reachability.probe_wait(now=asyncio.get_running_loop().time()))
        if self.reachability.is_reachable or not self._sendable():
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
            if self.reachability.is_reachable and not self._is_held:
                await self._call(fire)
            else:
                self._leave(fire)
                self.queue.put_back(fire)

    async def _call(self, fire: Fire) -> None:
        try:
            await self.execute(fire)
        finally:
            self._leave(fire)

    async def execute(self, fire: Fire) -> None:
        """Make the run of one fire: ask for it first if it may exist already, then CreateRun; note what came of it."""
        trigger = fire.armed.trigger
        name = run_name(trigger.key, fire.time)
        if fire.first_tried_at is None:
            fire.first_tried_at = asyncio.get_running_loop().time()
        try:
            if fire.ask_first and await self._run_exists(trigger, name):
                outcome = Outcome.FOUND
            else:
                outcome = await self._create_run(trigger, fire.time, name)
        except RunServiceError as error:
            self._failed(fire, name, error)
        else:
            self.reachability.answered()
            self._settled(fire, name, outcome)

    async def _run_exists(self, trigger: Trigger, name: str) -> bool:
        key, deadline = trigger.key, self._limits.call_deadline.total_seconds()
        return await self._client.run_exists(self._org, key.project, key.domain, name, timeout_seconds=deadline)

    async def _create_run(self, trigger: Trigger, fire_time: datetime, name: str) -> Outcome:
        loop = asyncio.get_running_loop()
        started = loop.time()
        request = create_run_request(trigger, fire_time, org=self._org, name=name)
        try:
            answer = await self._client.create_run(request, timeout_seconds=self._limits.call_deadline.total_seconds())
        finally:
            self._metrics.call_ended(loop.time() - started)
        return Outcome(answer.value)

    def _settled(self, fire: Fire, name: str, outcome: Outcome) -> None:
        # A crash from here until the next write of progress leaves the fire owed; the run's name settles that.
        lateness = self._clock() - fire.time
        self._metrics.fire_settled(outcome, lateness.total_seconds())
        self._progress.settled(fire, run_name=name, outcome=outcome, lateness=lateness)
        log.debug(
            "run_created",
            trigger=str(fire.armed.trigger.key),
            revision=fire.armed.trigger.revision,
            fire_time=fire.time.isoformat(),
            run_name=name,
            outcome=outcome,
            lateness_seconds=lateness.total_seconds(),
        )

    def _failed(self, fire: Fire, name: str, error: RunServiceError) -> None:
        loop_time = asyncio.get_running_loop().time()
        fire.attempts += 1
        fire.ask_first = fire.ask_first or may_have_created_a_run(error.code)
        self.reachability.failed(error.code, now=loop_time)
        self._metrics.call_failed(error.code)
        reason = self._giving_up(fire, error, loop_time)
        if reason is not None and self._progress.unfired(fire, reason=reason, error=error):
            return
        wait = backoff(fire.attempts, jitter=random.random()).total_seconds()  # noqa: S311 - spreads retries, no secret
        if self.reachability.is_reachable:
            self.queue.put_back_later(fire, seconds=wait)
        else:
            self.queue.put_back(fire)  # the probe sets the pace for all
        log.info(
            "fire_retrying",
            trigger=str(fire.armed.trigger.key),
            fire_time=fire.time.isoformat(),
            run_name=name,
            code=error.code,
            details=error.details,
            attempts=fire.attempts,
        )

    def _giving_up(self, fire: Fire, error: RunServiceError, loop_time: float) -> UnfiredReason | None:
        failure = failure_of(error.code)
        if failure is Failure.PERMANENT:
            return UnfiredReason.PERMANENT_ERROR
        tried_for = loop_time - (loop_time if fire.first_tried_at is None else fire.first_tried_at)
        if failure is Failure.DOUBTFUL and tried_for >= self._limits.give_up_after.total_seconds():
            return UnfiredReason.GAVE_UP
        return None

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

    def _changed_now(self) -> None:
        self._changed.set()

    def _reachability_changed(self, reachable: bool) -> None:  # noqa: FBT001 - a callback with one plain value
        self._metrics.run_service_reachable.set(reachable)
        self._changed_now()
        log.warning("run_service_back" if reachable else "run_service_unreachable", queued=len(self.queue))
