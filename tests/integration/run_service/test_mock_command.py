"""`mock-run-service` as a process: what it prints, how it is stopped, and what it refuses."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from scheduler_worker.cli.mock_run_service import app
from scheduler_worker.run_service.client import CreateRunAnswer, RunServiceClient

COMMAND = [sys.executable, "-c", "from scheduler_worker.cli.main import main; main()", "mock-run-service"]
PATIENCE_SECONDS = 30


@contextmanager
def mock_process(*options: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [*COMMAND, "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_until_a_signal_and_ends_well(
    tmp_path: Path, make_request: Any, number: signal.Signals
) -> None:
    journal = tmp_path / "journal"
    with mock_process("--journal", str(journal)) as process:
        line = first_line(process)
        assert line.startswith("listening on 127.0.0.1:")
        async with RunServiceClient(line.removeprefix("listening on ")) as client:
            assert await client.create_run(make_request(), timeout_seconds=10) is CreateRunAnswer.CREATED
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert json.loads(journal.read_text())["run_name"] == "r1"


async def test_a_killed_mock_goes_on_from_its_journal(tmp_path: Path, make_request: Any) -> None:
    journal = tmp_path / "journal"
    answers = []
    for _ in range(2):
        with mock_process("--journal", str(journal), "--json") as process:
            address = json.loads(first_line(process))["listening"]
            async with RunServiceClient(address) as client:
                answers.append(await client.create_run(make_request(), timeout_seconds=10))
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_SECONDS)
    assert answers == [CreateRunAnswer.CREATED, CreateRunAnswer.ALREADY_EXISTS]


def test_the_options_become_faults() -> None:
    options = (
        "--json --control 127.0.0.1:0 --latency 20ms --jitter 1.5ms --error-code INTERNAL --error-rate 0.25 "
        "--lost-answer-rate 0.5 --lost-answer silence --run-details unimplemented "
        "--outage 0s+1h --outage 2h+1s --seed 7"
    )
    with mock_process(*options.split()) as process:
        control = json.loads(first_line(process))["control"]
        state = httpx.get(f"http://{control}/state").json()
    assert state["faults"] == {
        "latency_ms": 20.0,
        "jitter_ms": 1.5,
        "error_code": "INTERNAL",
        "error_rate": 0.25,
        "lost_answer_rate": 0.5,
        "lost_answer": "silence",
        "outage": False,
        "run_details": "unimplemented",
    }


@pytest.mark.parametrize(
    ("options", "code", "fault"),
    [
        ("", 2, "--listen"),
        ("--listen 8090", 2, "write HOST:PORT"),
        ("--listen 127.0.0.1:0 --latency 20", 2, "no unit"),
        ("--listen 127.0.0.1:0 --latency -20ms", 2, "negative"),
        ("--listen 127.0.0.1:0 --outage 10s", 2, "START+LENGTH"),
        ("--listen 127.0.0.1:0 --error-rate 2", 2, "--error-rate"),
        ("--listen 127.0.0.1:0 --error-code OK", 2, "error_code is 'OK'"),
        ("--listen 127.0.0.1:0 --duplicates maybe", 2, "maybe"),
        ("--listen 127.0.0.1:0 --journal /nowhere/journal", 1, "/nowhere/journal"),
    ],
)
def test_bad_options_are_refused(options: str, code: int, fault: str) -> None:
    # Wide enough that no message is broken over lines.
    ended = CliRunner().invoke(app, options.split(), env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    assert (ended.exit_code, fault in ended.stderr) == (code, True), ended.stderr
    assert ended.stdout == ""
