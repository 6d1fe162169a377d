"""What an unreachable Run Service sees of the client, and how soon it is met again."""

import asyncio
from itertools import pairwise

import pytest

from scheduler_worker.errors import RunServiceError
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.run_service.mock_server import MockRunService

# Few enough to leave the loop free, and many more than there may be connection attempts.
CALLS_PER_SECOND = 50
CLOCK_TOLERANCE_SECONDS = 0.02
NO_SUCH_HOST = f"{'a' * 64}.invalid"  # a label too long for any name: refused without asking a server


async def is_reachable(client: RunServiceClient) -> bool:
    try:
        await client.run_exists("", "p", "d", "r1", timeout_seconds=1)
    except RunServiceError as error:
        assert error.code in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}  # noqa: PT017 # any error but these is a fault
        return False
    return True


async def call_until_reachable(client: RunServiceClient, *, patience_seconds: float) -> float:
    """Return after how many seconds a call succeeded."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.timeout(patience_seconds):
        while not await is_reachable(client):  # noqa: ASYNC110 # each turn is a call, and there is nothing else to see
            await asyncio.sleep(1 / CALLS_PER_SECOND)
    return loop.time() - started


async def test_a_port_that_hangs_up_sees_at_most_one_attempt_per_second() -> None:
    loop = asyncio.get_running_loop()
    attempts: list[float] = []
    enough = asyncio.Event()

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attempts.append(loop.time())
        if len(attempts) == 4:
            enough.set()
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with RunServiceClient(f"127.0.0.1:{port}") as client, asyncio.timeout(10):
            calls = 0
            while not enough.is_set():
                assert not await is_reachable(client)
                calls += 1
                await asyncio.sleep(1 / CALLS_PER_SECOND)
    assert calls > 20
    gaps = [later - earlier for earlier, later in pairwise(attempts)]
    assert min(gaps) >= 1.0 - CLOCK_TOLERANCE_SECONDS, gaps


async def test_a_service_that_comes_back_is_met_within_two_seconds() -> None:
    async with MockRunService() as first:
        address = first.address
        client = RunServiceClient(address)
        await client.start()
        assert await is_reachable(client)
    try:
        assert not await is_reachable(client)
        async with MockRunService(listen=address):
            assert await call_until_reachable(client, patience_seconds=10) < 2.0
    finally:
        await client.close()


async def test_a_lost_host_name_is_looked_up_anew_once_a_second() -> None:
    async with RunServiceClient(f"{NO_SUCH_HOST}:80") as client:
        opened = client._connection
        assert opened is not None
        with pytest.raises(RunServiceError, match="UNAVAILABLE"):
            await client.run_exists("", "p", "d", "r1", timeout_seconds=10)
        assert client._connection is opened  # too early
        client._connection = opened._replace(opened_at_seconds=opened.opened_at_seconds - 1.0)
        with pytest.raises(RunServiceError, match="UNAVAILABLE"):
            await client.run_exists("", "p", "d", "r1", timeout_seconds=10)
        assert client._connection is not opened
        assert client._connection.channel is not opened.channel
