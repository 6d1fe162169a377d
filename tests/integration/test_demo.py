"""The demo as a process: runs appear, all of it stops, and a second start goes on from the first."""

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

MAIN = "from scheduler_worker.cli.main import main; main()"
HEARTBEAT = "flytesnacks/development/samples.heartbeat/every-five-seconds"
PATIENCE_SECONDS = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="scheduler-worker-tests-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name) / "data"
        assert processes_on(Path(name)) == []


def processes_on(folder: Path) -> list[list[str]]:
    """Return the command lines of processes that have the folder in them: Postgres's do."""
    found: list[list[str]] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if any(str(folder) in argument for argument in command):
                found.append(command)
    return found


@contextlib.asynccontextmanager
async def demo(folder: Path, *arguments: str, stdout: int = PIPE) -> AsyncIterator[Process]:
    # What is meant for a real worker must not reach the demo's.
    environ = {**os.environ, "SCHEDULER_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x", "SCHEDULER_TYPO": "1"}
    command = (sys.executable, "-c", MAIN, "demo", "--data", str(folder), *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=stdout, stderr=PIPE, env=environ)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def lines_up_to(process: Process, wanted: str) -> list[str]:
    """Read standard output up to a line that holds `wanted`."""
    assert process.stdout is not None
    lines: list[str] = []
    async for line in process.stdout:
        lines.append(line.decode().rstrip())
        if wanted in lines[-1]:
            return lines
    raise AssertionError(f"the demo ended without {wanted!r}:\n" + "\n".join(lines))


def heartbeats(folder: Path) -> list[datetime]:
    """Return the fire times of the heartbeat's runs, as the mock Run Service has them."""
    entries = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    return [
        datetime.fromisoformat(entry["run_start_time"])
        for entry in entries
        if entry["trigger"] == "every-five-seconds" and entry["outcome"] == "created"
    ]


async def test_a_second_start_goes_on_from_the_first_and_catches_up(folder: Path) -> None:
    async with demo(folder, "--seconds", "6", "--json") as first:
        stdout, stderr = await first.communicate()
    assert (first.returncode, stderr) == (0, b"")
    summary: dict[str, Any] = json.loads(stdout)
    assert summary["runs"] >= 1
    assert summary["first_run_after_seconds"] < 10
    assert summary["doubled"] == 0
    shown = {trigger["trigger"]: trigger for trigger in summary["triggers"]}
    assert len(shown) == 3
    assert processes_on(folder) == []

    missed = datetime.fromisoformat(shown[HEARTBEAT]["next_fire"])
    # Both processes live by the host's clock, which only passing moves.
    await asyncio.sleep(max(0.0, (missed - datetime.now(UTC)).total_seconds()) + 0.1)
    async with demo(folder) as second:
        lines = await lines_up_to(second, "(caught up)")
        assert "Sample triggers   none new, kept from before" in lines
        async with demo(folder) as third:
            _, complaint = await third.communicate()
            # In a box whose lines break anywhere.
            assert third.returncode == 2
            assert "another demo runs on" in re.sub(r"[│\s]+", " ", complaint.decode())
        second.send_signal(signal.SIGINT)
        stdout, stderr = await second.communicate()
    assert (second.returncode, stderr) == (0, b"")
    last_words = stdout.decode().splitlines()[-1]
    assert last_words == f"The data is in {folder}: start again to go on from it, or delete it to begin anew."

    fire_times = sorted(heartbeats(folder))
    assert missed in fire_times
    expected = [fire_times[0] + number * timedelta(seconds=5) for number in range(len(fire_times))]
    assert fire_times == expected


async def test_a_terminal_sees_a_live_table(folder: Path) -> None:
    terminal, its_other_end = pty.openpty()
    try:
        async with demo(folder, stdout=its_other_end) as process:
            os.close(its_other_end)
            seen = await asyncio.to_thread(read, terminal, until="Worker: owner · 3 armed")
            process.send_signal(signal.SIGTERM)
            seen += await asyncio.to_thread(read, terminal)
            assert await process.wait() == 0
    finally:
        os.close(terminal)

    assert "Worker: stopped" in seen
    assert "every-five-seconds" in seen
    assert str(folder / "worker.log") in seen
    events = [json.loads(line)["event"] for line in (folder / "worker.log").read_text().splitlines()]
    assert "worker_started" in events
    assert events[-1] == "worker_stopped"


def read(terminal: int, *, until: str | None = None) -> str:
    """Return what a terminal is shown up to `until`, or to the end, without its control sequences."""
    seen = b""
    text = ""
    with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
        while (until is None or until not in text) and (chunk := os.read(terminal, 65536)):
            seen += chunk
            text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))
    return text
