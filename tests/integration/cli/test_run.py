import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.trigger_admin import TriggerAdmin, TriggerDefinition
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.domain.schedule import CronRule
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.run_service.codec import encode_automation, encode_trigger_spec
from scheduler_worker.run_service.mock_faults import Faults
from scheduler_worker.run_service.mock_server import MockRunService

MAIN = "from scheduler_worker.cli.main import main; main()"


@contextlib.asynccontextmanager
async def command(*arguments: str, **settings: str) -> AsyncIterator[Process]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULER_")}
    environ |= {f"SCHEDULER_{name.upper()}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MAIN, *arguments, stdout=PIPE, stderr=PIPE, env=environ
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def event(process: Process, name: str) -> dict[str, Any]:
    """Read the process's log up to the event `name`."""
    assert process.stderr is not None
    async for line in process.stderr:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == name:
            return found
    raise AssertionError(f"the process ended without {name}")


async def deploy_every_second(database_url: str) -> datetime:
    """Deploy a trigger, and return since when it is active."""
    definition = TriggerDefinition(
        key=TriggerKey("p", "d", "task", "every-second"),
        automation_spec=encode_automation(CronRule("@every 1s", ""), ""),
        spec=encode_trigger_spec(active=True, task_version="v1"),
        task_version="v1",
        active=True,
        description=None,
        expected_revision=None,
    )
    engine = create_engine(database_url)
    try:
        await TriggerAdmin(engine).apply([definition])
        (row,) = await TriggerStore(engine).rows_by_key([definition.key])
    finally:
        await engine.dispose()
    return row.updated_at


async def test_a_worker_fires_shows_itself_and_stops_when_told_to(database_url: str, tmp_path: Path) -> None:
    await deploy_every_second(database_url)
    secret = tmp_path / "url"
    secret.write_text(f"{database_url}\n")
    async with (
        MockRunService() as service,
        command(
            "run",
            database_url_file=str(secret),
            run_service_url=service.address,
            http_listen="127.0.0.1:0",
            instance="under-test",
        ) as worker,
    ):
        started = await event(worker, "worker_started")
        await service.wait_for_runs(1)
        async with httpx.AsyncClient(base_url=f"http://{started['http']}") as http:
            ready = await http.get("/readyz")
            assert (ready.status_code, ready.json()["role"], ready.json()["armed_triggers"]) == (200, "owner", 1)
            assert (await http.get("/healthz")).status_code == 200
            assert "\nscheduler_armed_triggers 1.0\n" in (await http.get("/metrics")).text
        worker.send_signal(signal.SIGTERM)
        stopped = await event(worker, "worker_stopped")
        assert await worker.wait() == 0

    assert started["instance"] == stopped["instance"] == "under-test"


async def test_a_worker_without_a_database_waits_for_it_and_can_be_stopped() -> None:
    async with command(
        "run",
        database_url="postgresql://me@127.0.0.1:1/nowhere",
        run_service_url="127.0.0.1:1",
        http_listen="127.0.0.1:0",
    ) as worker:
        started = await event(worker, "worker_started")
        async with httpx.AsyncClient(base_url=f"http://{started['http']}") as http:
            assert (await http.get("/healthz")).status_code == 200
            await event(worker, "database_away")
            unready = await http.get("/readyz")
            assert unready.status_code == 503
            assert "the database is away" in unready.json()["reasons"][0]
        worker.send_signal(signal.SIGINT)
        assert await worker.wait() == 0


async def test_faulty_settings_are_all_said_before_anything_opens() -> None:
    async with command("run", run_service_url="nowhere", resync_interval="30", typo="1") as worker:
        _, shown = await worker.communicate()

    assert worker.returncode == 2
    lines = shown.decode().splitlines()
    assert lines[0] == "Error: 4 faults in the settings"
    assert sorted(line.split(":")[0] for line in lines[1:]) == [
        "  - SCHEDULER_DATABASE_URL",
        "  - SCHEDULER_RESYNC_INTERVAL",
        "  - SCHEDULER_RUN_SERVICE_URL",
        "  - SCHEDULER_TYPO",
    ]


async def test_a_taken_port_is_bad_input() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with command(
            "run",
            database_url="postgresql://me@127.0.0.1:1/nowhere",
            run_service_url="127.0.0.1:1",
            http_listen=address,
        ) as worker:
            _, shown = await worker.communicate()

    assert worker.returncode == 2
    assert f"SCHEDULER_HTTP_LISTEN: can't listen on '{address}'" in shown.decode()


async def test_a_second_signal_ends_at_once_and_loses_nothing(database_url: str) -> None:
    activated_at = await deploy_every_second(database_url)
    settings = {"database_url": database_url, "http_listen": "127.0.0.1:0"}
    async with MockRunService(duplicates="ok", faults=Faults(latency_ms=60_000)) as service:
        async with command("run", run_service_url=service.address, **settings) as worker:
            await service.wait_until(lambda: service.in_flight > 0)
            worker.send_signal(signal.SIGTERM)
            await event(worker, "worker_stopping")
            worker.send_signal(signal.SIGTERM)
            assert await worker.wait() == 128 + signal.SIGTERM
        service.faults = Faults()
        async with command("run", run_service_url=service.address, **settings):
            await service.wait_for_runs(3)
    fired = sorted(request.run_start_time.ToDatetime(UTC) for request in service.requests)
    first = activated_at.replace(microsecond=0) + timedelta(seconds=1)
    assert fired[0] == first, "the fire whose call was cut off"
    assert service.runs.doubled == []  # asked for twice, if the first call was cut off, and started once
