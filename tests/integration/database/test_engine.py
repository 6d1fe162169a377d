"""The pool and its connections: every form of address, restarts, and which faults mean that Postgres is away."""

import asyncio
import socket
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.connection import connect
from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.faults import database_faults
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.domain.database_url import DatabaseUrl, parse_database_url
from scheduler_worker.embedded_postgres import EmbeddedPostgres
from scheduler_worker.errors import ConfigError, DatabaseUnavailableError


def conninfo(url: str) -> str:
    parts = parse_database_url(url)
    return f"host='{parts.hosts[0]}' port={parts.ports[0]} dbname={parts.database} user={parts.user} password='a b'"


async def execute(engine: AsyncEngine, *statements: str) -> None:
    with database_faults("looking"):
        async with engine.begin() as connection:
            for statement in statements:
                await connection.execute(sa.text(statement))


@pytest.mark.parametrize(
    "form",
    [
        lambda url: url,
        lambda url: url.replace("postgresql://", "postgres://"),
        lambda url: url.replace("postgresql://", "postgresql+asyncpg://"),
        lambda url: (
            url + "&connect_timeout=5&keepalives_idle=3&channel_binding=prefer&client_encoding=utf8&ssl=disable"
        ),
        lambda url: url + "&application_name=me&options=-c%20work_mem%3D5MB&target_session_attrs=any",
        conninfo,
    ],
    ids=["plain", "postgres", "driver", "client-only", "settings", "conninfo"],
)
async def test_every_form_of_address_connects(database_url: str, form: Callable[[str], str]) -> None:
    text = form(database_url)
    connection = await connect(parse_database_url(text))
    try:
        assert await connection.fetchval("SHOW timezone") == "UTC"
        name = await connection.fetchval("SHOW application_name")
        assert name == ("me" if "=me" in text else "scheduler-worker")
        assert await connection.fetchval("SHOW work_mem") == ("5MB" if "work_mem" in text else "4MB")
    finally:
        await connection.close()


async def test_an_address_with_several_hosts_finds_the_one_that_answers(database_url: str) -> None:
    parts = parse_database_url(database_url)
    several = DatabaseUrl(
        hosts=("/nowhere", *parts.hosts), ports=(5432, *parts.ports), user=parts.user, database=parts.database
    )
    connection = await connect(several)
    await connection.close()


def test_a_bad_address_is_refused_before_anything_opens() -> None:
    with pytest.raises(ConfigError):
        create_engine("postgresql://h?nonsense=1")


@pytest.mark.parametrize("parameters", ["?host=/nowhere", "?host=127.0.0.1&port=1", "?host=nowhere.invalid"])
async def test_no_server_is_a_database_that_is_away(parameters: str) -> None:
    engine = create_engine(f"postgresql://u:s3cr3t@/d{parameters}")
    with pytest.raises(DatabaseUnavailableError, match="connecting to postgresql://") as caught:
        await TriggerStore(engine).clock()
    assert caught.value.__cause__ is not None
    assert "s3cr3t" not in str(caught.value)
    await engine.dispose()


async def test_a_refused_database_may_come_back(database_url: str) -> None:
    engine = create_engine(database_url.replace("/test_", "/missing_"))
    with pytest.raises(DatabaseUnavailableError, match="does not exist"):
        await TriggerStore(engine).clock()
    await engine.dispose()


async def test_a_server_that_takes_no_writes_is_as_good_as_away(database_url: str) -> None:
    engine = create_engine(database_url)
    async with engine.begin() as connection:
        name = await connection.scalar(sa.text("SELECT current_database()"))
        await connection.execute(sa.text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
    await engine.dispose()
    with pytest.raises(DatabaseUnavailableError):
        await connect(parse_database_url(database_url))


async def test_the_pool_goes_on_after_a_restart(own_postgres: EmbeddedPostgres) -> None:
    engine = create_engine(own_postgres.url())
    store = TriggerStore(engine)
    await store.clock()
    await asyncio.to_thread(own_postgres.stop)
    with pytest.raises(DatabaseUnavailableError):
        await store.clock()
    await asyncio.to_thread(own_postgres.start)
    await store.clock()
    await asyncio.to_thread(own_postgres.kill)
    await asyncio.to_thread(own_postgres.start)
    await store.clock()
    await engine.dispose()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$",
        "DO $$ BEGIN RAISE SQLSTATE '53300'; END $$",
        "DO $$ BEGIN RAISE SQLSTATE '25006'; END $$",
        "SELECT pg_sleep(5)",
    ],
)
async def test_faults_that_pass(database_url: str, statement: str) -> None:
    engine = create_engine(database_url)
    with pytest.raises(DatabaseUnavailableError, match=r"^looking: "):
        await execute(engine, "SET LOCAL statement_timeout = 50", statement, "SELECT pg_sleep(5)")
    await engine.dispose()


async def test_a_command_that_takes_too_long(database_url: str) -> None:
    engine = create_engine(database_url, command_timeout_seconds=0.05)
    with pytest.raises(DatabaseUnavailableError, match=r"^looking: .+"):
        await execute(engine, "SELECT pg_sleep(5)")
    await engine.dispose()


async def test_faults_of_the_program_pass_through(database_url: str) -> None:
    engine = create_engine(database_url)
    with pytest.raises(ProgrammingError):
        await execute(engine, "SELECT nonsense")
    await engine.dispose()


async def test_a_tcp_connection_is_kept_alive(own_tcp_postgres: EmbeddedPostgres) -> None:
    url = own_tcp_postgres.tcp_url()
    connection = await connect(parse_database_url(f"{url}?keepalives_idle=7"))
    try:
        plain = connection._transport.get_extra_info("socket")
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7
            assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 5_000
    finally:
        await connection.close()
