"""What the demo knows of its worker: read from the worker's own log, in passing.

Decides which runs count as caught up. Must never fail or wait: it is called from inside the worker's log calls.
"""

import asyncio
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from scheduler_worker.domain.outcomes import Outcome

_UNFIRED_EVENTS: Final = frozenset({"fire_given_up", "fire_skipped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """One settled fire.

    Attributes:
        trigger: the trigger's key, as people write it.
        outcome: how the run came about.
        is_caught_up: its fire time is before the worker's start, when nobody was there for it.
    """

    trigger: str
    fire_time: datetime
    run_name: str
    outcome: Outcome
    lateness: timedelta
    is_caught_up: bool


class Tally:
    """Counts what happened since the worker's start.

    Args:
        on_run: called with every settled fire; must not fail.

    Attributes:
        worker_started: set once the worker runs; the three below are known then.
        started_at: when it was.
        http: ``HOST:PORT`` of the worker's metrics.
        runs, caught_up: settled fires by trigger, and those of them that were missed before the worker's start.
        unfired: fire times that will not become a run.
        last_runs: by trigger, the run of the latest fire time.
        first_run_after: from the worker's start to its first settled fire; None before it.
        worst_live_lateness: the greatest lateness of a fire that was not caught up; None before the first.
    """

    def __init__(self, *, on_run: Callable[[DemoRun], None] = lambda _: None) -> None:
        self._on_run = on_run
        self.worker_started = asyncio.Event()
        self.started_at: datetime | None = None
        self.http = ""
        self.runs: Counter[str] = Counter()
        self.caught_up: Counter[str] = Counter()
        self.unfired = 0
        self.last_runs: dict[str, DemoRun] = {}
        self.first_run_after: timedelta | None = None
        self.worst_live_lateness: timedelta | None = None

    def take_in(self, event: Mapping[str, Any]) -> None:
        """Count one event of the worker's log; most of them are of no interest here."""
        name = event["event"]
        if name == "worker_started":
            self.started_at = datetime.fromisoformat(event["timestamp"])
            self.http = event["http"]
            self.worker_started.set()
        elif name == "run_created":
            self._settled(event)
        elif name in _UNFIRED_EVENTS:
            self.unfired += 1

    def _settled(self, event: Mapping[str, Any]) -> None:
        fire_time = datetime.fromisoformat(event["fire_time"])
        assert self.started_at is not None  # a worker says that it starts before it fires
        run = DemoRun(
            trigger=event["trigger"],
            fire_time=fire_time,
            run_name=event["run_name"],
            outcome=Outcome(event["outcome"]),
            lateness=timedelta(seconds=event["lateness_seconds"]),
            is_caught_up=fire_time < self.started_at,
        )
        self.runs[run.trigger] += 1
        last = self.last_runs.get(run.trigger)
        if last is None or last.fire_time <= run.fire_time:
            self.last_runs[run.trigger] = run
        if self.first_run_after is None:
            self.first_run_after = datetime.fromisoformat(event["timestamp"]) - self.started_at
        if run.is_caught_up:
            self.caught_up[run.trigger] += 1
        else:
            self.worst_live_lateness = max(run.lateness, self.worst_live_lateness or run.lateness)
        self._on_run(run)


class WatchedLog(io.TextIOWrapper):
    """A log file of JSON lines, appended to, whose events are handed to `on_event` as they are written.

    Raises:
        OSError: the file can't be opened.
    """

    def __init__(self, path: Path, on_event: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__(path.open("ab"), encoding="utf-8", line_buffering=True)
        self._on_event = on_event

    def write(self, line: str) -> int:
        """Write `line`, which is one whole event: that is how loggers write."""
        written = super().write(line)
        self._on_event(json.loads(line))
        return written
