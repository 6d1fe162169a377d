"""The parts of the demo on one folder: an embedded Postgres, a mock Run Service, sample triggers and the worker.

Decides where each part keeps its data, and the order in which they start and stop. Must never use a server, a port or a
setting of the operator's own: everything the demo touches is in its folder, or was started by it.
"""

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Final

import typer
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.app import run as run_worker
from scheduler_worker.cli.demo_tally import Tally
from scheduler_worker.cli.trigger_file import read_trigger_file
from scheduler_worker.cli.trigger_view import TriggerView, view_of
from scheduler_worker.config import Settings, load_settings
from scheduler_worker.database import migrate
from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.trigger_admin import TriggerAdmin
from scheduler_worker.database.trigger_catalog import TriggerCatalog, TriggerFilter
from scheduler_worker.embedded_postgres import EmbeddedPostgres, reachable_data_dir
from scheduler_worker.run_service.mock_server import MockRunService

INSTANCE: Final = "demo"

_DATABASE: Final = "demo"
_FREE_PORT: Final = "127.0.0.1:0"
_RESYNC_INTERVAL: Final = "5s"
_QPS: Final = "50"
"""With it and the interval above, a day that the demo was off is caught up in a quarter of an hour."""

Task = Coroutine[Any, Any, None]


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """Where everything of a demo is kept."""

    path: Path

    @property
    def postgres(self) -> Path:
        """The data directory of Postgres; for root, elsewhere when Postgres's account can't get into the folder."""
        return reachable_data_dir(self.path / "postgres")

    @property
    def places(self) -> Sequence[Path]:
        """The folders that hold the data: one, and that of Postgres when it is elsewhere."""
        return (self.path,) if self.path in self.postgres.parents else (self.path, self.postgres)

    @property
    def journal(self) -> Path:
        """The mock Run Service's memory: it keeps run names unique over restarts."""
        return self.path / "runs.jsonl"

    @property
    def worker_log(self) -> Path:
        """What the worker says."""
        return self.path / "worker.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoParts:
    """What runs beside the worker, and what is known of the worker.

    Attributes:
        new_samples: sample triggers that this start deployed; none when it goes on from an earlier one.
    """

    folder: DemoFolder
    database_url: str
    triggers: TriggerCatalog
    run_service: MockRunService
    tally: Tally
    new_samples: int

    async def views(self, now: datetime) -> Sequence[TriggerView]:
        """Return the triggers as the database has them. Raises DatabaseUnavailableError."""
        return [view_of(details, now=now) for details in await self.triggers.find(TriggerFilter())]


@contextlib.contextmanager
def demo_folder(path: Path) -> Iterator[DemoFolder]:
    """Make the folder if need be, and keep other demos out of it.

    Raises:
        BadParameter: it can't be made or written to, or another demo runs on it.
    """
    path = path.absolute()
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((path / "demo.lock").open("wb"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _bad_folder(f"another demo runs on '{path}'; stop it, or name another folder") from error
        except OSError as error:
            raise _bad_folder(f"can't use '{path}': {error.strerror}; name a folder that can be written to") from error
        yield DemoFolder(path)


@contextlib.contextmanager
def demo_database(folder: DemoFolder) -> Iterator[str]:
    """Run a Postgres on the folder while the context lasts, and yield the address of the demo's database.

    Raises:
        EmbeddedPostgresError: it can't be had; the message ends in the remedy.
    """
    server = EmbeddedPostgres(folder.postgres, durable=True)
    try:
        server.start()
        if _DATABASE not in server.execute("SELECT datname FROM pg_database").splitlines():
            server.create_database(_DATABASE)
        yield server.url(_DATABASE)
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def demo_parts(folder: DemoFolder, database_url: str, tally: Tally) -> AsyncIterator[DemoParts]:
    """Migrate the database, deploy the samples, and run the mock Run Service while the context lasts.

    Raises:
        BadParameter: the mock's journal in the folder can't be used.
        MigrationError: the database was made by a newer version.
    """
    await migrate.upgrade(database_url)
    async with contextlib.AsyncExitStack() as stack:
        engine = create_engine(database_url)
        stack.push_async_callback(engine.dispose)
        new_samples = await _deploy_samples(engine)
        run_service = MockRunService(listen=_FREE_PORT, journal=folder.journal, keep_requests=False)
        try:
            await stack.enter_async_context(run_service)
        except (OSError, ValueError) as error:
            raise _bad_folder(str(error)) from error
        yield DemoParts(
            folder=folder,
            database_url=database_url,
            triggers=TriggerCatalog(engine),
            run_service=run_service,
            tally=tally,
            new_samples=new_samples,
        )


async def work(parts: DemoParts, *, beside: Callable[[DemoParts], Task], seconds: float | None) -> int:
    """Run the worker, with `beside` next to it, until a signal comes or `seconds` have passed since its start.

    Returns:
        The worker's exit code.

    Raises:
        Exception: what `beside` failed with, after the worker was stopped in good order.
    """
    stop = asyncio.Event()
    tasks = [asyncio.create_task(beside(parts))]
    if seconds is not None:
        tasks.append(asyncio.create_task(_stop_after(seconds, parts.tally, stop)))
    for task in tasks:
        task.add_done_callback(lambda _: stop.set())
    try:
        return await run_worker(_settings(parts), stop=stop)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _bad_folder(fault: str) -> typer.BadParameter:
    return typer.BadParameter(fault, param_hint="--data")


def _settings(parts: DemoParts) -> Settings:
    # Not from this process's environment: what stands there is meant for a real worker on a real database.
    return load_settings(
        {
            "SCHEDULER_DATABASE_URL": parts.database_url,
            "SCHEDULER_RUN_SERVICE_URL": parts.run_service.address,
            "SCHEDULER_HTTP_LISTEN": _FREE_PORT,
            "SCHEDULER_RESYNC_INTERVAL": _RESYNC_INTERVAL,
            "SCHEDULER_EXECUTION_QPS": _QPS,
            "SCHEDULER_LOG_LEVEL": "debug",
            "SCHEDULER_INSTANCE": INSTANCE,
        }
    )


async def _stop_after(seconds: float, tally: Tally, stop: asyncio.Event) -> None:
    await tally.worker_started.wait()
    await asyncio.sleep(seconds)
    stop.set()


async def _deploy_samples(engine: AsyncEngine) -> int:
    """Deploy the samples that were never there: one that was edited, paused or deleted since stays as it is."""
    samples = resources.files("scheduler_worker").joinpath("samples", "triggers.yaml")
    definitions = read_trigger_file(samples.read_text(encoding="utf-8"), source=str(samples), now=datetime.now(UTC))
    known = {details.row.key for details in await TriggerCatalog(engine).find(TriggerFilter(with_deleted=True))}
    new = [definition for definition in definitions if definition.key not in known]
    await TriggerAdmin(engine, by=INSTANCE).apply(new)
    return len(new)
