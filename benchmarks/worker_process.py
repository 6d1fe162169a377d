"""A worker as a process of its own, watched from outside."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from urllib.request import urlopen

import psutil

COMMAND = Path(sys.executable).with_name("scheduler-worker")

_POLL_SECONDS = 0.2
"""Each look at the metrics takes some milliseconds of the worker's own time."""
_START_TIMEOUT_SECONDS = 30.0
_LOAD_TIMEOUT_SECONDS = 300.0
_STOP_TIMEOUT_SECONDS = 60.0


class WorkerProcess:
    """Started at once; `stop` ends it in good order."""

    def __init__(self, settings: Mapping[str, str], log: Path, *, probed: bool) -> None:
        """Start it with `settings` by their names; `probed` for one that can say how long its loop stalled."""
        command: list[str | Path] = [sys.executable, "-m", "benchmarks.probed_worker"] if probed else [COMMAND, "run"]
        given = {"http_listen": "127.0.0.1:0", "log_format": "json", **settings}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULER_")}
        environment = inherited | {f"SCHEDULER_{name.upper()}": value for name, value in given.items()}
        self._log = log
        self._started_at = time.time()
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._http_address: str | None = None

    def events(self, name: str) -> Iterator[dict[str, object]]:
        """Yield the logged events of that name so far, oldest first."""
        for line in self._log.read_text().splitlines(keepends=True):
            if f'"event": "{name}"' in line and line.endswith("\n"):
                yield json.loads(line)

    def metric(self, name: str) -> float:
        """Return the current value of a metric without labels, or with them as `/metrics` writes them."""
        with urlopen(f"http://{self._http()}/metrics", timeout=_START_TIMEOUT_SECONDS) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        if found is None:
            raise LookupError(f"/metrics has no {name}")
        return float(found[1])

    def wait_for_load(self) -> float:
        """Return the seconds from the start of the process until it said that every trigger was armed."""
        self.wait_until(lambda: any(self.events("triggers_loaded")), timeout_seconds=_LOAD_TIMEOUT_SECONDS)
        said_at = datetime.fromisoformat(str(next(self.events("triggers_loaded"))["timestamp"]))
        return said_at.timestamp() - self._started_at

    def wait_until(self, condition: Callable[[], bool], *, timeout_seconds: float) -> None:
        """Poll until `condition` holds; raises TimeoutError, and RuntimeError when the worker has ended."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            self._must_run()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the worker was not there within {timeout_seconds} s; its log:\n{self._tail()}")
            time.sleep(_POLL_SECONDS)

    def resident_bytes(self) -> int:
        """Return the memory it holds now."""
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def take_longest_stall_ms(self) -> float:
        """Return the longest stall of its event loop since the last call, in milliseconds. Only of a probed one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline())["longest_stall_ms"])

    def stop(self) -> None:
        """End it in good order and wait."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _http(self) -> str:
        if self._http_address is None:
            self.wait_until(lambda: any(self.events("worker_started")), timeout_seconds=_START_TIMEOUT_SECONDS)
            self._http_address = str(next(self.events("worker_started"))["http"])
        return self._http_address

    def _must_run(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"the worker ended with {self._process.returncode}; its log:\n{self._tail()}")

    def _tail(self) -> str:
        return "\n".join(self._log.read_text().splitlines()[-20:])
