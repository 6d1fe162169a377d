import ast
import asyncio
import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from scheduler_worker.cli import main
from scheduler_worker.cli.trigger_file import read_trigger_file
from scheduler_worker.config import load_database_url, load_settings
from scheduler_worker.domain.service_address import parse_run_service_url
from scheduler_worker.web.app import status_app
from scheduler_worker.web.server import HttpServer
from scheduler_worker.web.status import Health, Readiness

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ONE_SHOT = {"migrate", "sample-triggers"}
LONG_RUNNING = {"postgres", "mock-run-service", "worker"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return services


def dockerfile(instruction: str) -> list[str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.partition(" ")[2].strip() for line in text.splitlines() if line.startswith(f"{instruction} ")]


# -- docker-compose.yml ------------------------------------------------------------------------------------------------


def test_the_stack_is_complete(services: dict[str, Any]) -> None:
    assert set(services) == ONE_SHOT | LONG_RUNNING
    assert services["worker"]["deploy"] == {"replicas": 1}


def test_images_of_others_are_pinned_and_ours_is_built(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if "build" in service:
            assert service["image"] == "scheduler-worker:local", name
        else:
            assert re.fullmatch(r"\w+:\d+\.\d+.*", service["image"]), name


def test_what_runs_long_is_checked_and_started_again(services: dict[str, Any]) -> None:
    for name in LONG_RUNNING:
        assert services[name]["restart"] == "unless-stopped", name
    # The worker's check comes with its image.
    assert services["worker"].get("healthcheck") is None
    assert all(services[name]["healthcheck"]["test"] for name in LONG_RUNNING - {"worker"})
    for name in ONE_SHOT:
        assert services[name]["restart"] == "no", name
        assert services[name]["healthcheck"] == {"disable": True}, name


def test_each_service_waits_for_what_it_needs(services: dict[str, Any]) -> None:
    waits = {
        name: {other: wait["condition"] for other, wait in service.get("depends_on", {}).items()}
        for name, service in services.items()
    }

    assert waits == {
        "postgres": {},
        "mock-run-service": {},
        "migrate": {"postgres": "service_healthy"},
        "sample-triggers": {"migrate": "service_completed_successfully"},
        "worker": {"migrate": "service_completed_successfully", "mock-run-service": "service_healthy"},
    }


def test_our_containers_have_no_rights_to_spare(services: dict[str, Any]) -> None:
    for name in set(services) - {"postgres"}:
        assert services[name]["read_only"] is True, name
        assert services[name]["cap_drop"] == ["ALL"], name
        assert services[name]["security_opt"] == ["no-new-privileges:true"], name


def test_ports_are_open_to_this_host_alone(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", ())]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_workers_settings_are_accepted_and_fit_the_stack(services: dict[str, Any]) -> None:
    settings = load_settings(services["worker"]["environment"])
    postgres = services["postgres"]["environment"]
    expected = f"{postgres['POSTGRES_USER']}:{postgres['POSTGRES_PASSWORD']}@postgres:5432/{postgres['POSTGRES_DB']}"

    for name in ("worker", *ONE_SHOT):
        assert load_database_url(services[name]["environment"]) == f"postgresql://{expected}", name
    mock = services["mock-run-service"]
    listen = mock["command"][mock["command"].index("--listen") + 1]
    assert parse_run_service_url(settings.run_service_url).target == f"mock-run-service:{listen.rpartition(':')[2]}"
    grace = services["worker"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > settings.shutdown_grace.total_seconds()


def test_the_commands_are_there(services: dict[str, Any]) -> None:
    commands = [service["command"][0] for service in services.values() if "command" in service]

    assert commands
    assert set(commands) <= set(main.COMMANDS)


def test_the_sample_triggers_are_mounted_and_can_be_deployed(services: dict[str, Any]) -> None:
    service = services["sample-triggers"]
    (volume,) = service["volumes"]
    assert service["command"] == ["triggers", "apply", volume["target"]]

    sample = ROOT / volume["source"]
    triggers = read_trigger_file(sample.read_text(), source=str(sample), now=NOW)
    assert [trigger.key.name for trigger in triggers] == ["every-five-seconds", "weekday-mornings", "every-minute"]


# -- Dockerfile --------------------------------------------------------------------------------------------------------


def test_the_base_image_is_pinned() -> None:
    (argument,) = dockerfile("ARG")

    assert re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-\w+", argument)
    assert [stage.split()[0] for stage in dockerfile("FROM")] == ["${PYTHON}", "${PYTHON}"]


def test_every_installation_is_locked() -> None:
    installs = re.findall(r"-m pip (?:install|wheel)[^&]*", " ".join(dockerfile("RUN")))

    assert installs
    for install in installs:
        assert "--require-hashes" in install or "--no-deps" in install
    for lock in re.findall(r"-r (\S+)", " ".join(installs)):
        assert "--hash=sha256:" in (ROOT / lock).read_text()


def test_everything_that_is_copied_is_let_into_the_build() -> None:
    let_in = {line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = {
        part.removeprefix("./") for line in dockerfile("COPY") if "--from" not in line for part in line.split()[:-1]
    }

    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)


def test_the_worker_is_not_root_and_is_stopped_in_order() -> None:
    assert dockerfile("USER") == ["10001:10001"]
    assert dockerfile("STOPSIGNAL") == ["SIGTERM"]
    assert [json.loads(words) for words in dockerfile("ENTRYPOINT") + dockerfile("CMD")] == [
        ["scheduler-worker"],
        ["run"],
    ]


@pytest.mark.parametrize(("reasons", "code"), [((), 0), (("stuck",), 1)])
async def test_the_health_check_tells_well_from_ill(reasons: tuple[str, ...], code: int) -> None:
    class Status:
        def health(self, now: datetime) -> Health:
            return Health(reasons=reasons)

        def readiness(self, now: datetime) -> Readiness:
            return Readiness(role="owner")

    (check,) = dockerfile("HEALTHCHECK")
    python, *arguments = json.loads(check.partition(" CMD ")[2])
    assert python == "python"
    ast.parse(arguments[1])
    async with HttpServer("127.0.0.1:0", status_app(Status(), CollectorRegistry(), clock=lambda: NOW)) as server:
        environ = {**os.environ, "SCHEDULER_HTTP_LISTEN": server.address, "http_proxy": "http://127.0.0.1:9"}
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, env=environ)
        assert await process.wait() == code
