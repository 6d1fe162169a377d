"""The processes: Postgres, the mock Run Service behind a breakable network, and workers, each in a session of its own.

Starts, hits and stops them; must never know what is right.
"""

import asyncio
import contextlib
import json
import shutil
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import asyncpg
import psutil

from scheduler_worker.database import migrate
from scheduler_worker.database.faults import database_faults
from scheduler_worker.embedded_postgres import EmbeddedPostgres
from tests.chaos.history import Call, read_journal
from tests.chaos.network import Network
from tests.chaos.process import Process

PROGRAM = Path(sys.executable).with_name("scheduler-worker")
DATABASE = "chaos"

WORKER_SETTINGS = {
    "SCHEDULER_RESYNC_INTERVAL": "1s",
    "SCHEDULER_EXECUTION_QPS": "unlimited",
    "SCHEDULER_MAX_CATCHUP_RUNS_PER_LOOP": "300",
    "SCHEDULER_CALL_DEADLINE": "2s",
    "SCHEDULER_SHUTDOWN_GRACE": "3s",
    "SCHEDULER_LOG_FORMAT": "json",
}

_POSTGRES_SETTINGS = {
    "max_connections": "60",
    # What was committed must outlive a crash of the server's processes; the disk itself is never cut off.
    "synchronous_commit": "on",
}
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 30.0


@dataclass(kw_only=True)
class Stage:
    """Everything that is running."""

    folder: Path
    postgres: EmbeddedPostgres
    service: Process
    network: Network
    control_port: int
    workers: list[Process]
    http_ports: list[int]

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def database_url(self) -> str:
        return self.postgres.url(DATABASE)

    def calls(self) -> list[Call]:
        """Return the journal as it is now."""
        return read_journal(self.journal) if self.journal.exists() else []

    # -- the Run Service -------------------------------------------------------------------------------------------

    async def start_service(self) -> None:
        """Start the mock and wait until it can be steered."""
        self.service.start()
        await self.misbehave({})

    async def misbehave(self, faults: Mapping[str, Any]) -> None:
        """Replace the mock's faults."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.control_port}/faults", json.dumps(faults).encode(), method="PUT"
        )
        await _patiently(lambda: _answer_of(request))

    async def service_state(self) -> dict[str, Any]:
        """Return the mock's counters."""
        state: dict[str, Any] = json.loads(
            await _patiently(lambda: _answer_of(f"http://127.0.0.1:{self.control_port}/state"))
        )
        return state

    # -- workers ---------------------------------------------------------------------------------------------------

    async def readiness(self, number: int) -> dict[str, Any] | None:
        """Return what a worker says at /readyz, or None while it does not answer."""
        try:
            answer = await asyncio.to_thread(_answer_of, f"http://127.0.0.1:{self.http_ports[number]}/readyz")
        except OSError:
            return None
        ready: dict[str, Any] = json.loads(answer)
        return ready

    async def owner(self) -> int:
        """Wait for a worker that owns the lease and has synced; return its number."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for number in range(len(self.workers)):
                ready = await self.readiness(number)
                if ready is not None and ready.get("role") == "owner" and ready.get("ready", True):
                    return number
            await asyncio.sleep(_POLL_SECONDS)
        raise TimeoutError(f"no worker became the owner; their output is in {self.folder}")

    def log_lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (worker, event) of every log line; what is no JSON comes as an event of its own."""
        for worker in self.workers:
            if worker.output.exists():
                for line in worker.output.read_text(errors="replace").splitlines():
                    try:
                        yield worker.name, json.loads(line)
                    except ValueError:
                        yield worker.name, {"event": line, "level": "no log line"}

    # -- the database ----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a connection of our own; raises DatabaseUnavailableError when the server goes away."""
        with database_faults("looking at the database"):
            connection = await asyncpg.connect(self.database_url, timeout=10)
            try:
                yield connection
            finally:
                connection.terminate()

    async def cut_connections(self) -> None:
        """End every session of the workers."""
        async with self.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'scheduler-worker%' AND pid <> pg_backend_pid()"
            )

    def database_processes(self) -> list[psutil.Process]:
        """Return the server's processes."""
        postmaster = psutil.Process(self.postgres.pid)
        return [postmaster, *postmaster.children(recursive=True)]


@contextlib.asynccontextmanager
async def stage(
    *,
    workers: int,
    duplicates: str = "reject",
    settings: Mapping[str, str] | None = None,
    keep: Sequence[bool] = (),
    worker_command: Sequence[str] = (str(PROGRAM), "run"),
) -> AsyncIterator[Stage]:
    """Open a stage with a migrated database and a running service; no worker is started yet.

    The folder with all output is removed at the end, unless `keep` (a list that the caller may fill) is not empty.
    """
    folder = _folder()
    postgres = EmbeddedPostgres(folder / "pg", durable=False, settings=_POSTGRES_SETTINGS)
    made: Stage | None = None
    try:
        await asyncio.to_thread(postgres.start)
        await asyncio.to_thread(postgres.create_database, DATABASE)
        await migrate.upgrade(postgres.url(DATABASE))
        service_port, control_port, *http_ports = _unused_ports(2 + workers)
        async with Network(service_port) as network:
            made = Stage(
                folder=folder,
                postgres=postgres,
                service=_service(folder, service_port, control_port, duplicates),
                network=network,
                control_port=control_port,
                workers=[
                    Process(
                        name=f"worker-{number}",
                        command=worker_command,
                        environment={
                            **WORKER_SETTINGS,
                            "SCHEDULER_DATABASE_URL": postgres.url(DATABASE),
                            "SCHEDULER_RUN_SERVICE_URL": f"127.0.0.1:{network.port}",
                            "SCHEDULER_HTTP_LISTEN": f"127.0.0.1:{port}",
                            "SCHEDULER_INSTANCE": f"worker-{number}",
                            **(settings or {}),
                        },
                        output=folder / f"worker-{number}.log",
                    )
                    for number, port in enumerate(http_ports)
                ],
                http_ports=http_ports,
            )
            await made.start_service()
            yield made
    finally:
        if made is not None:
            for process in (*made.workers, made.service):
                process.kill()
        await asyncio.to_thread(postgres.stop)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="scheduler-worker-chaos-", dir="/tmp"))
    folder.chmod(0o755)  # the account that Postgres runs as has to get in
    return folder


def _service(folder: Path, port: int, control_port: int, duplicates: str) -> Process:
    options = {
        "--listen": f"127.0.0.1:{port}",
        "--control": f"127.0.0.1:{control_port}",
        "--journal": str(folder / "journal.jsonl"),
        "--duplicates": duplicates,
    }
    command = [str(PROGRAM), "mock-run-service", *(part for option in options.items() for part in option)]
    return Process(name="service", command=command, environment={}, output=folder / "service.log")


def _unused_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _answer_of(request: str | urllib.request.Request) -> bytes:
    try:
        answer: IO[bytes] = urllib.request.urlopen(request, timeout=5)
    except urllib.error.HTTPError as error:
        answer = error  # "not ready" is an answer
    with answer:
        return answer.read()


async def _patiently(ask: Any) -> bytes:
    """Ask until there is an answer: the process may still be starting."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            answer: bytes = await asyncio.to_thread(ask)
        except OSError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return answer
