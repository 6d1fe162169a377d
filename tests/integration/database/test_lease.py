"""The lease: one owner, lost at once, taken over, through restarts of the database."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from scheduler_worker.database import lease as lease_module
from scheduler_worker.database.connection import connect
from scheduler_worker.database.lease import OWNER_LOCK, Lease
from scheduler_worker.domain.database_url import parse_database_url
from scheduler_worker.embedded_postgres import EmbeddedPostgres

HOLDERS = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

MakeLease = Callable[[str], Lease]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(lease_module, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease_module, "HEARTBEAT_TIMEOUT_SECONDS", 0.3)


@pytest.fixture
async def make_lease() -> AsyncIterator[MakeLease]:
    made: list[Lease] = []

    def make(url: str) -> Lease:
        made.append(Lease(url, jitter=lambda: 0.0))
        return made[-1]

    yield make
    for lease in made:
        await lease.release()


@pytest.fixture
async def ask(database_url: str) -> AsyncIterator[Callable[[str], Awaitable[object]]]:
    connection: asyncpg.Connection = await connect(parse_database_url(database_url))
    yield connection.fetchval
    await connection.close()


async def soon(awaitable: Awaitable[object], seconds: float = 10.0) -> None:
    await asyncio.wait_for(awaitable, seconds)


async def test_one_of_two_holds_it(database_url: str, make_lease: MakeLease) -> None:
    first, second = make_lease(database_url), make_lease(database_url)
    await soon(first.acquire())
    assert first.is_held
    tried = asyncio.Event()
    waiting = asyncio.create_task(second.acquire(on_wait=lambda _: tried.set()))
    await soon(tried.wait())
    assert not second.is_held
    await first.release()
    assert not first.is_held
    await soon(waiting)
    assert second.is_held


async def test_it_is_lost_with_its_session_and_taken_over(
    database_url: str, make_lease: MakeLease, ask: Callable[[str], Awaitable[object]]
) -> None:
    first, second = make_lease(database_url), make_lease(database_url)
    await soon(first.acquire())
    waiting = asyncio.create_task(second.acquire())
    await ask(f"SELECT pg_terminate_backend(pid) FROM ({HOLDERS}) AS holders")
    await soon(first.lost.wait())
    assert not first.is_held
    await soon(waiting)
    assert second.is_held
    assert not second.lost.is_set()
    waiting_again = asyncio.create_task(first.acquire())
    await second.release()
    await soon(waiting_again)
    assert first.is_held
    assert not first.lost.is_set()


async def test_a_line_that_went_silent_is_a_loss(
    database_url: str, make_lease: MakeLease, ask: Callable[[str], Awaitable[object]]
) -> None:
    lease = make_lease(database_url)
    await soon(lease.acquire())
    backend = await ask(HOLDERS)
    assert isinstance(backend, int)
    os.kill(backend, signal.SIGSTOP)
    try:
        await soon(lease.lost.wait())
    finally:
        os.kill(backend, signal.SIGCONT)


async def test_a_session_that_no_longer_holds_the_lock_is_a_loss(database_url: str, make_lease: MakeLease) -> None:
    lease = make_lease(database_url)
    await soon(lease.acquire())
    for _ in range(3):  # several heartbeats find the lock
        await asyncio.sleep(0.05)
        assert lease.is_held
    assert lease._connection is not None
    await lease._connection.execute("SELECT pg_advisory_unlock($1)", OWNER_LOCK)
    await soon(lease.lost.wait())


async def test_it_survives_a_restart_of_the_database(own_postgres: EmbeddedPostgres, make_lease: MakeLease) -> None:
    holder, standby = make_lease(own_postgres.url()), make_lease(own_postgres.url())
    await soon(holder.acquire())
    in_vain: asyncio.Queue[object] = asyncio.Queue()
    waiting = asyncio.create_task(standby.acquire(on_wait=in_vain.put_nowait))
    assert await asyncio.wait_for(in_vain.get(), 10) is None
    await asyncio.to_thread(own_postgres.kill)
    await soon(holder.lost.wait())
    while await asyncio.wait_for(in_vain.get(), 10) is None:
        pass
    assert not waiting.done()
    await asyncio.to_thread(own_postgres.start)
    await soon(waiting)
    assert standby.is_held


async def test_waiting_can_be_cancelled_and_leaves_nothing(database_url: str, make_lease: MakeLease) -> None:
    first, second = make_lease(database_url), make_lease(database_url)
    await soon(first.acquire())
    tried = asyncio.Event()
    waiting = asyncio.create_task(second.acquire(on_wait=lambda _: tried.set()))
    await soon(tried.wait())
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert second._connection is None
    assert first.is_held


async def test_release_is_fine_before_and_twice(database_url: str, make_lease: MakeLease) -> None:
    lease = make_lease(database_url)
    await lease.release()
    await soon(lease.acquire())
    await lease.release()
    await lease.release()
    assert not lease.is_held
    assert not lease.lost.is_set()


async def test_the_server_is_told_to_drop_a_vanished_holder(database_url: str, make_lease: MakeLease) -> None:
    lease = make_lease(database_url)
    await soon(lease.acquire())
    assert lease._connection is not None
    assert await lease._connection.fetchval("SHOW client_connection_check_interval") == "2s"
