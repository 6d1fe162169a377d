"""A real Postgres for the tests that ask for one: started once, a migrated database copied for each test."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

import scheduler_worker.run_service  # noqa: F401 - sets what gRPC reads when a test first loads it
from scheduler_worker.database import migrate
from scheduler_worker.embedded_postgres import EmbeddedPostgres

CopyDataDir = Callable[[Path], Path]

_TEMPLATE = "migrated"
_PLENTY_BYTES = 2 * 2**30
_numbers = count(1)


@pytest.fixture(scope="session")
def postgres(copy_data_dir: CopyDataDir) -> Iterator[EmbeddedPostgres]:
    """The server of the whole session. A test that stops or kills one starts its own: see `own_postgres`."""
    with _server(copy_data_dir) as server:
        yield server


@pytest.fixture
def own_postgres(copy_data_dir: CopyDataDir) -> Iterator[EmbeddedPostgres]:
    """A server of the test's own, to be stopped, killed and started again."""
    with _server(copy_data_dir) as server:
        yield server


@pytest.fixture
def own_tcp_postgres(copy_data_dir: CopyDataDir, unused_port: int) -> Iterator[EmbeddedPostgres]:
    """As `own_postgres`, and it listens on a TCP port of 127.0.0.1 too."""
    with _server(copy_data_dir, tcp_port=unused_port) as server:
        yield server


@pytest.fixture(scope="session")
def copy_data_dir() -> Iterator[CopyDataDir]:
    """Make a data directory at the given path: a copy, which takes a tenth of making one."""
    with _folder() as folder:
        original = EmbeddedPostgres(folder / "pg", durable=False)
        original.start()
        original.stop()

        def copy(target: Path) -> Path:
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", str(original.data_dir), str(target)], check=True)
            return target

        yield copy


@pytest.fixture
def unused_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def template_database(postgres: EmbeddedPostgres) -> str:
    """Name of a migrated database that nobody is connected to."""
    postgres.create_database(_TEMPLATE)
    asyncio.run(migrate.upgrade(postgres.url(_TEMPLATE)))
    return _TEMPLATE


@pytest.fixture
def database_url(postgres: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    """URL of a fresh migrated database. A connection that the test leaves open in it fails the test."""
    yield from _database(postgres, template_database)


@pytest.fixture
def empty_database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a fresh database without any table."""
    yield from _database(postgres, "template0")


def _database(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    postgres.create_database(name, template, strategy="file_copy")
    try:
        yield postgres.url(name)
        leaks = _open_connections(postgres, name)
    finally:
        postgres.drop_database(name)
    assert not leaks, f"connections left open by the test:\n{leaks}"


def _open_connections(postgres: EmbeddedPostgres, database: str) -> str:
    # A closed connection's backend needs a moment to leave; waiting happens in the server, and only if there is one.
    return postgres.execute(
        "DO $$ BEGIN FOR i IN 1..100 LOOP"
        f" EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '{database}');"
        " PERFORM pg_sleep(0.02), pg_stat_clear_snapshot(); END LOOP; END $$;"
        " SELECT application_name, state, query FROM pg_stat_activity"
        f" WHERE datname = '{database}' AND backend_type = 'client backend'"
    )


@contextmanager
def _server(copy_data_dir: CopyDataDir, tcp_port: int | None = None) -> Iterator[EmbeddedPostgres]:
    with _folder() as folder:
        settings = {"max_connections": "200"}
        server = EmbeddedPostgres(copy_data_dir(folder / "pg"), durable=False, settings=settings, tcp_port=tcp_port)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def _folder() -> Iterator[Path]:
    # Not pytest's tmp_path: run by root, it is closed to the account that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="scheduler-worker-tests-", dir=_place_for_data()))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place_for_data() -> str:
    """Return memory if there is plenty: copying a database takes a tenth of the time it takes on a slow disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _PLENTY_BYTES:
        return str(memory)
    return "/tmp"
