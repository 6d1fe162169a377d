"""The parts of one term of ownership, wired to each other.

A term begins when the lease is held. Nothing of it outlives it: what the next owner needs to know is in the database.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from apscheduler.job import Job

from scheduler_worker.catch_up import CatchUpRules
from scheduler_worker.clock import Clock
from scheduler_worker.database.lease import Lease
from scheduler_worker.database.notifications import Notifications
from scheduler_worker.database.settlement_store import SettlementStore
from scheduler_worker.database.trigger_checks import TriggerChecks
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.database.unfired_store import UnfiredStore
from scheduler_worker.errors import DatabaseUnavailableError
from scheduler_worker.fire_dispatcher import DispatchLimits, FireDispatcher
from scheduler_worker.fire_queue import FireQueue
from scheduler_worker.last_look import LastLook
from scheduler_worker.progress_writer import ProgressWriter
from scheduler_worker.reachability import Reachability
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.schedule_syncer import ScheduleSyncer
from scheduler_worker.scheduling.scheduler import RunScheduler
from scheduler_worker.scheduling.triggers import LIVE_WINDOW
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.trigger_executor import CallRules, TriggerExecutor
from scheduler_worker.trigger_scheduler import TriggerScheduler

BACKWARD_STEP_WORTH_A_WARNING = timedelta(seconds=1)
"""A wall clock that went back further than this is reported. Nothing fires twice; times repeat on the clock only."""

WATCH_INTERVAL_SECONDS = 0.25
"""How often the event loop's lateness is measured."""

LAST_WRITE_TIMEOUT_SECONDS = 5.0
"""How long the end of a term waits for its last progress to be written. Without it fires are sent again, and found."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """What a worker stands on. Opened and closed by whoever made them."""

    lease: Lease
    notifications: Notifications | None
    triggers: TriggerStore
    checks: TriggerChecks
    unfired: UnfiredStore
    settlements: SettlementStore
    run_service: RunServiceClient


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves; see the settings of the same names."""

    org: str
    resync_interval: timedelta
    unfired_retention: timedelta
    shutdown_grace: timedelta
    max_queued_fires: int
    fire_without_database: bool
    rules: CatchUpRules
    limits: DispatchLimits
    calls: CallRules


class Term:
    """The parts of one term of ownership, wired to each other.

    Attributes:
        last_pass: when the scheduler last looked for due fires, by the event loop's clock, in seconds.
    """

    def __init__(self, adapters: Adapters, options: WorkerOptions, *, clock: Clock, metrics: Metrics) -> None:
        self._adapters = adapters
        self._clock = clock
        self._metrics = metrics
        self._last_pass_at: datetime | None = None
        self.last_pass = asyncio.get_running_loop().time()
        self.progress = ProgressWriter(adapters.settlements, metrics=metrics)
        self.queue = FireQueue(capacity=options.max_queued_fires)
        self.executor = TriggerExecutor(
            client=adapters.run_service,
            queue=self.queue,
            progress=self.progress,
            reachability=Reachability(on_change=self._reachability_changed),
            rules=options.calls,
            clock=clock,
            metrics=metrics,
            org=options.org,
        )
        self.dispatcher = FireDispatcher(
            queue=self.queue,
            executor=self.executor,
            progress=self.progress,
            limits=options.limits,
            metrics=metrics,
        )
        metrics.run_service_reachable.set(1)
        metrics.watch_queue(
            live=lambda: self.queue.live, late=lambda: self.queue.late, retry=lambda: self.queue.waiting
        )
        metrics.watch_calls_in_flight(lambda: self.dispatcher.calls_in_flight)
        self.scheduler = RunScheduler(clock=clock, on_pass=self._pass_began, on_job_failed=self._job_failed)
        self.triggers = TriggerScheduler(
            scheduler=self.scheduler,
            reader=adapters.triggers,
            dispatcher=self.dispatcher,
            progress=self.progress,
            rules=options.rules,
            clock=clock,
            metrics=metrics,
        )
        self.last_look = LastLook(adapters.checks, reload=self.triggers.reload)
        self.syncer = ScheduleSyncer(
            adapters.triggers,
            adapters.unfired,
            self.triggers,
            interval=options.resync_interval,
            unfired_retention=options.unfired_retention,
            clock=clock,
            metrics=metrics,
        )

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Start handing out fires, and return what has to run beside it until the term ends."""
        self.scheduler.start()
        loops = [self.syncer.run(), self.dispatcher.run(self.last_look), self.progress.run(), self._watch()]
        if self._adapters.notifications is not None:
            loops.append(self._adapters.notifications.run(self.syncer.ask, on_fault=self._notifications_lost))
        return loops

    async def finish(self, grace: timedelta) -> None:
        """Hand out nothing more, and wait for the calls in flight up to `grace`."""
        await self.scheduler.close()
        left = await self.dispatcher.drain(grace)
        if left:
            log.warning("calls_cut_off", calls=left)

    async def write_last_progress(self) -> None:
        """Write what is settled and not written yet, if the database lets us."""
        try:
            async with asyncio.timeout(LAST_WRITE_TIMEOUT_SECONDS):
                await self.progress.try_to_write()
        except TimeoutError:
            log.warning("progress_write_failed", pending=self.progress.pending)

    async def abandon(self) -> None:
        """Hand out nothing more and forget the rest: another worker may be the owner already."""
        await self.scheduler.close()
        self.queue.close()

    async def _watch(self) -> None:
        """Measure how late the event loop takes its turns, and how much progress waits to be written."""
        loop = asyncio.get_running_loop()
        while True:
            planned = loop.time() + WATCH_INTERVAL_SECONDS
            await asyncio.sleep(WATCH_INTERVAL_SECONDS)
            self._metrics.loop_stalled(loop.time() - planned)
            self._metrics.progress_pending.set(self.progress.pending)

    def _pass_began(self, now: datetime) -> None:
        self.last_pass = asyncio.get_running_loop().time()
        before, self._last_pass_at = self._last_pass_at, now
        if before is None:
            return
        if now - before > LIVE_WINDOW:
            # The process slept, or the clock was put forward: the times between were missed, and catch-up decides.
            log.warning("clock_jump", seconds=(now - before).total_seconds())
            self.triggers.times_were_missed(now)
            self.syncer.ask()
        elif before - now > BACKWARD_STEP_WORTH_A_WARNING:
            log.warning("clock_jump", seconds=(now - before).total_seconds())

    def _reachability_changed(self, reachable: bool) -> None:  # noqa: FBT001 - a callback with one plain value
        self._metrics.run_service_reachable.set(reachable)
        self.dispatcher.look_again()
        log.warning("run_service_back" if reachable else "run_service_unreachable", queued=len(self.queue))

    def _notifications_lost(self, error: DatabaseUnavailableError) -> None:
        log.warning("notifications_lost", error=str(error))

    def _job_failed(self, job: Job, error: Exception) -> None:
        self._metrics.pass_failures.inc()
        log.error("pass_failed", trigger_id=job.id, error=repr(error), exc_info=error)
