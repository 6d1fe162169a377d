"""Wiring: builds a worker from its settings, opens everything in order and closes it in reverse."""

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime, timedelta

import structlog

from scheduler_worker.catch_up import CatchUpPolicy, CatchUpRules
from scheduler_worker.clock import Clock, system_clock
from scheduler_worker.config import Settings
from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.lease import Lease
from scheduler_worker.database.notifications import Notifications
from scheduler_worker.database.settlement_store import SettlementStore
from scheduler_worker.database.trigger_checks import TriggerChecks
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.database.unfired_store import UnfiredStore
from scheduler_worker.domain.database_url import parse_database_url
from scheduler_worker.fire_dispatcher import DispatchLimits
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.signals import stop_on_signals
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.term import Adapters, WorkerOptions
from scheduler_worker.trigger_executor import CallRules
from scheduler_worker.web.app import status_app
from scheduler_worker.web.server import HttpServer
from scheduler_worker.web.status import Health, Readiness
from scheduler_worker.worker import Role, Worker

PASS_OVERDUE_SECONDS = 10.0
"""A scheduler that has not looked for due fires for this long is stuck: it looks every second."""

SYNCS_MISSED_UNTIL_NOT_READY = 3
SYNC_OVERDUE_AT_LEAST = timedelta(seconds=30)
"""Without a successful sync for three intervals, and this long at least, the worker fires from memory only."""

log = structlog.get_logger(__name__)


async def run(settings: Settings, *, clock: Clock = system_clock, stop: asyncio.Event | None = None) -> int:
    """Run a worker until it is told to stop, by signal or by `stop`, and return the process's exit code.

    Raises:
        ConfigError: the database's or the Run Service's address can't be used, or the HTTP port is taken.
    """
    stop = stop or asyncio.Event()
    metrics = Metrics(clock=clock)
    async with AsyncExitStack() as stack:
        adapters = await _open(settings, stack)
        worker = Worker(adapters, _options(settings), clock=clock, metrics=metrics)
        status = WorkerStatus(worker, settings.resync_interval)
        http = await stack.enter_async_context(
            HttpServer(settings.http_listen, status_app(status, metrics.registry, clock=clock))
        )
        stack.enter_context(stop_on_signals(stop))
        log.info("worker_started", http=http.address, run_service=settings.run_service_url)
        try:
            await worker.run(stop)
        except Exception:
            log.exception("worker_failed")
            return 1
    log.info("worker_stopped")
    return 0


async def _open(settings: Settings, stack: AsyncExitStack) -> Adapters:
    url = parse_database_url(settings.database_url.get_secret_value())
    engine = create_engine(url)
    stack.push_async_callback(engine.dispose)
    run_service = await stack.enter_async_context(RunServiceClient(settings.run_service_url))
    return Adapters(
        lease=Lease(url),
        notifications=Notifications(url) if settings.notify else None,
        triggers=TriggerStore(engine),
        checks=await stack.enter_async_context(TriggerChecks(url)),
        unfired=UnfiredStore(engine),
        settlements=SettlementStore(engine, touch_triggered_at=settings.write_triggered_at),
        run_service=run_service,
    )


def _options(settings: Settings) -> WorkerOptions:
    return WorkerOptions(
        org=settings.org,
        resync_interval=settings.resync_interval,
        unfired_retention=settings.unfired_retention,
        shutdown_grace=settings.shutdown_grace,
        max_queued_fires=settings.max_queued_fires,
        fire_without_database=settings.fire_without_database,
        rules=CatchUpRules(
            policy=CatchUpPolicy(settings.catchup_policy),
            window=settings.catchup_window,
            max_runs=settings.max_catchup_runs_per_loop,
        ),
        limits=DispatchLimits(
            qps=settings.execution_qps,
            burst=settings.execution_burst,
            calls_in_flight=settings.max_calls_in_flight,
        ),
        calls=CallRules(deadline=settings.call_deadline, give_up_after=settings.give_up_after),
    )


class WorkerStatus:
    """What the HTTP port tells about a worker."""

    def __init__(self, worker: Worker, resync_interval: timedelta) -> None:
        self._worker = worker
        self._sync_overdue_after = max(SYNC_OVERDUE_AT_LEAST, SYNCS_MISSED_UNTIL_NOT_READY * resync_interval)

    def health(self, now: datetime) -> Health:
        """Say whether the scheduler still looks for due fires. An answer at all shows that the event loop turns."""
        del now  # the pass is measured on the monotonic clock: a wall clock that was set is no fault of the process
        term = self._worker.term
        if term is None or self._worker.role is not Role.OWNER:
            return Health()
        quiet_for = asyncio.get_running_loop().time() - term.last_pass
        if quiet_for > PASS_OVERDUE_SECONDS:
            return Health(reasons=(f"the scheduler has not looked for due fires for {quiet_for:.0f} s",))
        return Health()

    def readiness(self, now: datetime) -> Readiness:
        """Say whether the worker fires or stands by, and on how recent a sync."""
        role, term = self._worker.role, self._worker.term
        fault = self._worker.database_fault
        away: tuple[str, ...] = () if fault is None else (f"the database is away: {fault}",)
        if term is None or role is not Role.OWNER:
            return Readiness(role=role, reasons=away if role is Role.STANDBY else (f"the worker is {role}",))
        last = term.syncer.last_success
        reasons = away
        if not term.syncer.loaded.is_set():
            reasons += ("the first sync is not through: not every trigger is armed",)
        elif last is not None and now - last > self._sync_overdue_after:
            reasons += (f"no sync succeeded since {last.isoformat()}: triggers fire as they were known then",)
        details = {
            "armed_triggers": len(term.scheduler.store),
            "bad_triggers": len(term.triggers.bad_rows),
            "queued_fires": len(term.queue),
            "calls_in_flight": term.dispatcher.calls_in_flight,
            "last_sync": None if last is None else last.isoformat(),
            "run_service_reachable": term.executor.reachability.is_reachable,
        }
        return Readiness(role=role, reasons=reasons, details=details)
