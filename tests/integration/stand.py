"""A worker in the test's own process: real Postgres, real gRPC, and a wall clock that the test moves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.catch_up import CatchUpRules
from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.lease import Lease
from scheduler_worker.database.notifications import Notifications
from scheduler_worker.database.settlement_store import SettlementStore
from scheduler_worker.database.trigger_checks import TriggerChecks
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.database.unfired_store import UnfiredStore
from scheduler_worker.domain.schedule import CronRule, Rule
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.fire_dispatcher import DispatchLimits
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.run_service.codec import encode_automation, encode_trigger_spec
from scheduler_worker.run_service.mock_server import MockRunService
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.term import Adapters, Term, WorkerOptions
from scheduler_worker.trigger_executor import CallRules
from scheduler_worker.worker import Role, Worker

OPTIONS = WorkerOptions(
    org="",
    resync_interval=timedelta(seconds=0.5),
    unfired_retention=timedelta(days=30),
    shutdown_grace=timedelta(seconds=5),
    max_queued_fires=200_000,
    fire_without_database=True,
    rules=CatchUpRules(),
    limits=DispatchLimits(qps=None, burst=20, calls_in_flight=50),
    calls=CallRules(deadline=timedelta(seconds=5), give_up_after=timedelta(hours=24)),
)

MINUTE = timedelta(minutes=1)


class SettableClock:
    """A wall clock that stands still until the test moves it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def this_minute() -> datetime:
    """The start of the current minute by the host's clock: the database's own times are near it."""
    return datetime.now(UTC).replace(second=0, microsecond=0)


@dataclass
class Table:
    """Writes trigger rows as Flyte does: an upsert with a new revision, and a snapshot of it."""

    engine: AsyncEngine
    _next: int = field(default=0)

    async def deploy(
        self,
        name: str = "n",
        rule: Rule = CronRule("* * * * *"),  # noqa: B008 - frozen
        *,
        at: datetime,
        active: bool = True,
        automation_spec: bytes | None = None,
        spec: bytes | None = None,
        kickoff: str = "",
    ) -> TriggerKey:
        key = TriggerKey("p", "d", "t", name)
        values = {
            **key._asdict(),
            "spec": encode_trigger_spec(active=active) if spec is None else spec,
            "automation_spec": encode_automation(rule, kickoff) if automation_spec is None else automation_spec,
            "active": active,
            "at": at,
        }
        await self._run(
            """
            INSERT INTO triggers (project, domain, task_name, name, latest_revision, spec, automation_spec,
                task_version, active, automation_type, deployed_at, updated_at)
            VALUES (:project, :domain, :task_name, :name, 1, :spec, :automation_spec, 'v1', :active, 'TYPE_SCHEDULE',
                :at, :at)
            ON CONFLICT (project, domain, task_name, name) DO UPDATE SET
                latest_revision = triggers.latest_revision + 1, spec = :spec, automation_spec = :automation_spec,
                deployed_at = :at, deleted_at = NULL, active = :active,
                updated_at = CASE WHEN triggers.active = :active THEN triggers.updated_at ELSE :at END
            """,
            values,
        )
        await self._snapshot(key, "DEPLOY")
        return key

    async def set_active(self, key: TriggerKey, active: bool, *, at: datetime) -> None:
        await self._run(
            f"UPDATE triggers SET active = :active, updated_at = :at, latest_revision = latest_revision + 1 {_WHERE}",
            {**key._asdict(), "active": active, "at": at},
        )
        await self._snapshot(key, "ACTIVATE" if active else "DEACTIVATE")

    async def delete(self, key: TriggerKey, *, at: datetime) -> None:
        await self._run(
            "UPDATE triggers SET active = false, deleted_at = :at, updated_at = :at,"
            f" latest_revision = latest_revision + 1 {_WHERE}",
            {**key._asdict(), "at": at},
        )
        await self._snapshot(key, "DELETE")

    async def sql(self, statement: str, **values: object) -> list[tuple[object, ...]]:
        async with self.engine.begin() as connection:
            result = await connection.execute(text(statement), values)
            return [tuple(row) for row in result] if result.returns_rows else []

    async def unfired(self) -> list[tuple[str, datetime, str]]:
        rows = await self.sql("SELECT name, fire_time, reason FROM scheduler_unfired ORDER BY fire_time, name")
        return [(str(name), time, str(reason)) for name, time, reason in rows if isinstance(time, datetime)]

    async def _snapshot(self, key: TriggerKey, action: str) -> None:
        await self._run(
            f"""
            INSERT INTO trigger_revisions (project, domain, task_name, name, revision, spec, automation_spec,
                task_version, active, automation_type, deployed_at, updated_at, triggered_at, deleted_at, action)
            SELECT project, domain, task_name, name, latest_revision, spec, automation_spec, task_version, active,
                automation_type, deployed_at, updated_at, triggered_at, deleted_at,
                'TRIGGER_REVISION_ACTION_' || :action
            FROM triggers {_WHERE}
            """,
            {**key._asdict(), "action": action},
        )

    async def _run(self, statement: str, values: dict[str, object]) -> None:
        async with self.engine.begin() as connection:
            await connection.execute(text(statement), values)


_WHERE = "WHERE (project, domain, task_name, name) = (:project, :domain, :task_name, :name)"


class Stand:
    """One worker and what it stands on."""

    def __init__(self, url: str, service: MockRunService, clock: SettableClock) -> None:
        self.url = url
        self.service = service
        self.clock = clock
        self.engine = create_engine(url)
        self.table = Table(self.engine)
        self.metrics = Metrics()
        self.options = OPTIONS
        self.worker_lease = Lease(url)
        self._checks = TriggerChecks(url)
        self.worker: Worker | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: RunServiceClient | None = None
        self._worker_engine: AsyncEngine | None = None

    # -- the worker's life -----------------------------------------------------------------------------------------

    async def start(self, *, notify: bool = True, **changes: object) -> None:
        """Start a worker; return when its first sync is through."""
        options = replace(self.options, **changes)  # type: ignore[arg-type]  # each test names the options it is about
        self._stop = asyncio.Event()
        self._worker_engine = create_engine(self.url)
        self._client = RunServiceClient(self.service.address)
        await self._client.start()
        self.worker_lease = Lease(self.url)
        self._checks = TriggerChecks(self.url)
        adapters = Adapters(
            lease=self.worker_lease,
            notifications=Notifications(self.url) if notify else None,
            triggers=TriggerStore(self._worker_engine),
            checks=self._checks,
            unfired=UnfiredStore(self._worker_engine),
            settlements=SettlementStore(self._worker_engine, touch_triggered_at=True),
            run_service=self._client,
        )
        self.worker = Worker(adapters, options, clock=self.clock, metrics=self.metrics)
        self._task = asyncio.create_task(self.worker.run(self._stop))
        await self.until(lambda: self.worker is not None and self.worker.role is Role.OWNER and self.term is not None)
        await self.loaded()

    async def loaded(self) -> None:
        async with asyncio.timeout(10):
            await self.term.syncer.loaded.wait()

    @property
    def term(self) -> Term:
        assert self.worker is not None
        assert self.worker.term is not None, "the worker is not the owner"
        return self.worker.term

    async def stop(self) -> None:
        """Stop the worker as SIGTERM does."""
        self._stop.set()
        if self._task is not None:
            await self._task
        await self._close()

    async def crash(self) -> None:
        """End the worker in mid-work: nothing is drained or written."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._close()

    async def _close(self) -> None:
        self._task = None
        if self._client is not None:
            await self._client.close()
        self._checks.close()
        if self._worker_engine is not None:
            await self._worker_engine.dispose()

    # -- time and waiting ------------------------------------------------------------------------------------------

    async def move_to(self, now: datetime) -> None:
        """Move the clock and have the worker look at it."""
        self.clock.now = now
        if self.worker is not None and self.worker.term is not None:
            self.worker.term.scheduler.wakeup()

    async def sync(self) -> None:
        """Let one more full sync pass."""
        await self.term.syncer.sync()

    async def until(self, condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
        """Wait until something that has no event of its own has come about."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.005)

    async def settled(self) -> None:
        """Wait until nothing is queued, called, owed or unwritten."""
        await self.until(
            lambda: len(self.term.queue) == 0 and self.term.dispatcher.calls_in_flight == 0 and self.worker is not None
        )
        await self.term.progress.write()

    # -- what happened ---------------------------------------------------------------------------------------------

    def runs(self, name: str | None = None) -> list[datetime]:
        """Fire times of the runs that were asked for, in order of their fire time."""
        return sorted(
            request.run_start_time.ToDatetime(UTC)
            for request in self.service.requests
            if name is None or request.trigger_name.name == name
        )


@asynccontextmanager
async def stand(url: str, *, now: datetime | None = None) -> AsyncIterator[Stand]:
    """Open a stand; whatever still runs at the end is stopped."""
    async with MockRunService() as service:
        made = Stand(url, service, SettableClock(this_minute() if now is None else now))
        try:
            yield made
        finally:
            if made._task is not None:
                await made.crash()
            await made.engine.dispose()
