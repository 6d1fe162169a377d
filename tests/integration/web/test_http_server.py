import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest

from scheduler_worker.errors import ConfigError
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.web.app import status_app
from scheduler_worker.web.server import HttpServer
from scheduler_worker.web.status import Health, Readiness

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Status:
    """A worker that says what it is told to say."""

    def __init__(self) -> None:
        self.said_health = Health()
        self.said_readiness = Readiness(role="owner", details={"armed_triggers": 3})
        self.asked_at: list[datetime] = []

    def health(self, now: datetime) -> Health:
        self.asked_at.append(now)
        return self.said_health

    def readiness(self, now: datetime) -> Readiness:
        self.asked_at.append(now)
        return self.said_readiness


@pytest.fixture
def status() -> Status:
    return Status()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def client(status: Status, metrics: Metrics) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        HttpServer("127.0.0.1:0", status_app(status, metrics.registry, clock=lambda: NOW)) as server,
        httpx.AsyncClient(base_url=f"http://{server.address}") as client,
    ):
        yield client


async def test_a_healthy_worker(client: httpx.AsyncClient, status: Status) -> None:
    answer = await client.get("/healthz")

    assert answer.status_code == 200
    assert answer.json() == {"healthy": True, "reasons": []}
    assert answer.headers["cache-control"] == "no-store"
    assert status.asked_at == [NOW]


async def test_an_unhealthy_worker_says_why(client: httpx.AsyncClient, status: Status) -> None:
    status.said_health = Health(reasons=("no pass of the scheduler for 31s",))

    answer = await client.get("/healthz")

    assert answer.status_code == 503
    assert answer.json() == {"healthy": False, "reasons": ["no pass of the scheduler for 31s"]}


@pytest.mark.parametrize("role", ["owner", "standby"])
async def test_an_owner_and_a_standby_are_ready(client: httpx.AsyncClient, status: Status, role: str) -> None:
    status.said_readiness = Readiness(role=role, details={"armed_triggers": 3})

    answer = await client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "role": role, "reasons": [], "armed_triggers": 3}


async def test_a_worker_that_is_not_ready_says_why(client: httpx.AsyncClient, status: Status) -> None:
    status.said_readiness = Readiness(role="starting", reasons=("first sync has not ended",))

    answer = await client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "role": "starting", "reasons": ["first sync has not ended"]}


async def test_metrics_are_read_as_text(client: httpx.AsyncClient, metrics: Metrics) -> None:
    metrics.armed_triggers.set(3)

    answer = await client.get("/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert "scheduler_armed_triggers 3.0" in answer.text.splitlines()


async def test_metrics_are_read_as_openmetrics_when_asked_for(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


async def test_pages_are_for_looking_only(client: httpx.AsyncClient) -> None:
    assert (await client.post("/healthz")).status_code == 405
    assert (await client.get("/")).status_code == 404


async def test_a_taken_port_is_named_with_its_key(status: Status, metrics: Metrics) -> None:
    app = status_app(status, metrics.registry, clock=lambda: NOW)
    async with HttpServer("127.0.0.1:0", app) as first:
        with pytest.raises(ConfigError, match=rf"^SCHEDULER_HTTP_LISTEN: can't listen on '{first.address}': .*in use"):
            await HttpServer(first.address, app).__aenter__()


@pytest.mark.parametrize("listen", ["8080", "127.0.0.1:http", "192.0.2.1:0"])
async def test_an_unusable_address_is_named_with_its_key(status: Status, metrics: Metrics, listen: str) -> None:
    app = status_app(status, metrics.registry, clock=lambda: NOW)
    with pytest.raises(ConfigError, match=rf"^SCHEDULER_HTTP_LISTEN: .*'{listen}'"):
        await HttpServer(listen, app).__aenter__()


async def test_the_port_is_free_again_afterwards_and_signals_are_untouched(status: Status, metrics: Metrics) -> None:
    app = status_app(status, metrics.registry, clock=lambda: NOW)
    handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    async with HttpServer("127.0.0.1:0", app) as server, httpx.AsyncClient() as client:
        assert (await client.get(f"http://{server.address}/healthz")).status_code == 200
        assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == handlers

    async with HttpServer(server.address, app) as again:
        assert again.address == server.address


async def test_leaving_does_not_wait_for_idle_connections(status: Status, metrics: Metrics) -> None:
    app = status_app(status, metrics.registry, clock=lambda: NOW)
    async with httpx.AsyncClient() as client, asyncio.timeout(5), HttpServer("127.0.0.1:0", app) as server:
        await client.get(f"http://{server.address}/healthz")
