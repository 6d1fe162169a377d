"""Start order and stop order: one owner at a time, everything else built anew for each term of ownership.

A term begins when the lease is held and ends when it is lost, when the worker is told to stop, or when a part fails.
Nothing of a term outlives it: what the next owner needs to know is in the database.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog
from apscheduler.job import Job

from scheduler_worker import garbage
from scheduler_worker.catch_up import CatchUpRules
from scheduler_worker.clock import Clock
from scheduler_worker.database.lease import Lease
from scheduler_worker.database.notifications import Notifications
from scheduler_worker.database.settlement_store import SettlementStore
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.database.unfired_store import UnfiredStore
from scheduler_worker.errors import DatabaseUnavailableError
from scheduler_worker.fire_queue import FireQueue
from scheduler_worker.progress_writer import ProgressWriter
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.schedule_syncer import ScheduleSyncer
from scheduler_worker.scheduling.scheduler import RunScheduler
from scheduler_worker.scheduling.triggers import LIVE_WINDOW
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.trigger_executor import ExecutionLimits, TriggerExecutor
from scheduler_worker.trigger_scheduler import TriggerScheduler

BACKWARD_STEP_WORTH_A_WARNING = timedelta(seconds=1)
"""A wall clock that went back further than this is reported. Nothing fires twice; times repeat on the clock only."""

WATCH_INTERVAL_SECONDS = 0.25
"""How often the event loop's lateness is measured."""

LEASE_RETRY_SECONDS = 0.5
"""Wait between two tries to get a lost lease back: a little less than a standby's, which has to reload everything."""

LAST_WRITE_TIMEOUT_SECONDS = 5.0
"""How long the end of a term waits for its last progress to be written. Without it fires are sent again, and found."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """What a worker stands on. Opened and closed by whoever made them."""

    lease: Lease
    notifications: Notifications | None
    triggers: TriggerStore
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
    limits: ExecutionLimits


class Role(StrEnum):
    """What a worker is doing."""

    STARTING = "starting"
    STANDBY = "standby"
    OWNER = "owner"
    STOPPING = "stopping"


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
            progress=self.progress,
            limits=options.limits,
            queue=self.queue,
            clock=clock,
            metrics=metrics,
            org=options.org,
        )
        metrics.watch_queue(
            live=lambda: self.queue.live, late=lambda: self.queue.late, retry=lambda: self.queue.waiting
        )
        metrics.watch_calls_in_flight(lambda: self.executor.calls_in_flight)
        self.scheduler = RunScheduler(clock=clock, on_pass=self._pass_began, on_job_failed=self._job_failed)
        self.triggers = TriggerScheduler(
            scheduler=self.scheduler,
            reader=adapters.triggers,
            executor=self.executor,
            progress=self.progress,
            rules=options.rules,
            clock=clock,
            metrics=metrics,
        )
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
        loops = [self.syncer.run(), self.executor.run(self.triggers), self.progress.run(), self._watch()]
        if self._adapters.notifications is not None:
            loops.append(self._adapters.notifications.run(self.syncer.ask, on_fault=self._notifications_lost))
        return loops

    async def finish(self, grace: timedelta) -> None:
        """Hand out nothing more, and wait for the calls in flight up to `grace`."""
        await self.scheduler.close()
        left = await self.executor.drain(grace)
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

    def _notifications_lost(self, error: DatabaseUnavailableError) -> None:
        log.warning("notifications_lost", error=str(error))

    def _job_failed(self, job: Job, error: Exception) -> None:
        self._metrics.pass_failures.inc()
        log.error("pass_failed", trigger_id=job.id, error=repr(error), exc_info=error)


class Worker:
    """Waits for the lease, works while it is held, and starts over when it is lost.

    Attributes:
        role: what it is doing now.
        term: the parts at work; None while it is not the owner.
    """

    def __init__(self, adapters: Adapters, options: WorkerOptions, *, clock: Clock, metrics: Metrics) -> None:
        self._adapters = adapters
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self.role = Role.STARTING
        self.term: Term | None = None

    @property
    def is_sure_of_lease(self) -> bool:
        """Whether the lease is held, as far as can be known here."""
        return self._adapters.lease.is_held

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. A part that fails ends the worker with its error: starting anew is the cure."""
        lease = self._adapters.lease
        try:
            while not stop.is_set() and await self._become_owner(stop):
                self._metrics.is_owner.set(1)
                try:
                    await self._own(stop)
                finally:
                    self._metrics.is_owner.set(0)
                    self.term = None
                    garbage.let_go()  # the parts of a term know each other: only the collector can free them
        finally:
            self.role = Role.STOPPING
            await lease.release()

    async def _become_owner(self, stop: asyncio.Event) -> bool:
        """Wait for the lease; say False when told to stop first."""
        self.role = Role.STANDBY
        log.info("lease_waiting")
        acquiring = asyncio.create_task(self._adapters.lease.acquire())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                return False
            await acquiring
        finally:
            await _cancel({acquiring, stopping})
        self.role = Role.OWNER
        log.info("lease_acquired")
        return True

    async def _own(self, stop: asyncio.Event) -> None:
        term = self.term = Term(self._adapters, self._options, clock=self._clock, metrics=self._metrics)
        tasks = {asyncio.create_task(loop) for loop in term.work()}
        lease_gone = asyncio.create_task(self._keep_lease(term))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({lease_gone, stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, lease_gone):
                if task.done():
                    await task  # a loop that ended has failed
            if stopping.done():
                self.role = Role.STOPPING
                log.info("worker_stopping")
                await term.finish(self._options.shutdown_grace)
        finally:
            await term.abandon()
            await _cancel({lease_gone, stopping, *tasks})
        # Also after the lease has gone to another worker: marks only move forward, and these are true.
        await term.write_last_progress()

    async def _keep_lease(self, term: Term) -> None:
        """Return when the lease has gone to another worker.

        A lost lease stops firing at once, until it is clear who holds it. While the database is away nobody can, and
        the term goes on from memory. A network that cuts off only this worker looks the same from here: then both
        fire, and the run names keep it at one run for each fire time.
        """
        lease = self._adapters.lease
        is_away = False
        while True:
            await lease.lost.wait()
            term.executor.hold()
            log.warning("lease_lost")
            regained = None
            while regained is None:
                try:
                    regained = await lease.regain()
                except DatabaseUnavailableError as error:
                    if not is_away:
                        is_away = True
                        log.warning("database_away", error=str(error), fires=self._options.fire_without_database)
                    if self._options.fire_without_database:
                        term.executor.go_on()
                    await asyncio.sleep(LEASE_RETRY_SECONDS)
            if is_away:
                is_away = False
                log.info("database_back")
            if not regained:
                return
            log.info("lease_regained")
            term.queue.ask_first()  # between the loss and now another worker may have been the owner
            term.executor.go_on()
            term.syncer.ask()


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel what is still running and wait until it has ended, whatever it ends with."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
