"""The demo's live table, and how times and durations are written on it.

Decides how things look. Must never wait or read anything: it is given all it shows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scheduler_worker.cli.demo_tally import DemoRun, Tally
from scheduler_worker.cli.trigger_view import State, TriggerView
from scheduler_worker.domain.go_duration import format_go_duration

_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_ROUNDED_ABOVE: Final = timedelta(seconds=10)
"""From here on milliseconds of a lateness tell nobody anything."""


def board(
    views: Sequence[TriggerView],
    ready: Mapping[str, Any],
    tally: Tally,
    latest: Iterable[DemoRun],
    *,
    now: datetime,
) -> RenderableType:
    """Return the whole picture at `now`.

    `ready` is what the worker answers on ``/readyz``, empty while it does not answer; `latest` are the runs to list
    below the table, oldest first.
    """
    return Group(_state_line(ready, tally), _triggers(views, tally, now), _latest(latest, now))


def run_in_words(run: DemoRun) -> str:
    """Return one run as one line: fire time, trigger, run, and how late."""
    caught_up = " (caught up)" if run.is_caught_up else ""
    return (
        f"{run.fire_time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}  {run.trigger}  {run.run_name}  {run.outcome},"
        f" {lateness_in_words(run.lateness)} late{caught_up}"
    )


def runs_in_words(count: int) -> str:
    """Return a number of runs in words."""
    return "1 run" if count == 1 else f"{count} runs"


def lateness_in_words(lateness: timedelta) -> str:
    """Return a lateness as Go writes durations, without digits that tell nothing."""
    unit = _MILLISECOND if abs(lateness) < _ROUNDED_ABOVE else _SECOND
    return format_go_duration(round(lateness / unit) * unit)


def _state_line(ready: Mapping[str, Any], tally: Tally) -> Text:
    role = str(ready.get("role", "not answering"))
    parts = []
    if "armed_triggers" in ready:
        parts.append(f"{ready['armed_triggers']} armed")
    parts.append(runs_in_words(tally.runs.total()))
    parts.append(f"{tally.caught_up.total()} of them caught up")
    if "queued_fires" in ready:
        parts.append(f"{ready['queued_fires']} waiting")
    if tally.unfired:
        parts.append(f"{tally.unfired} unfired")
    line = Text.assemble("Worker: ", (role, "bold green" if role == "owner" else "bold yellow"))
    line.append(" · " + " · ".join(parts))
    for reason in ready.get("reasons") or ():
        line.append(f"\n{reason}", "yellow")
    return line


def _triggers(views: Sequence[TriggerView], tally: Tally, now: datetime) -> Table:
    # Several lines a trigger, so that it fits a terminal of 80 columns.
    table = Table(box=SIMPLE_HEAD)
    table.add_column("trigger\ntask\nschedule", overflow="fold")
    for column in ("next fire", "last fire\nrun name"):
        table.add_column(column, no_wrap=True)
    for column in ("lateness", "runs\ncaught up"):
        table.add_column(column, no_wrap=True, justify="right")
    for view in views:
        key = key_of(view)
        last_fire, run_name, lateness = _last_run(view, tally)
        table.add_row(
            _lines(view.name, view.task_name, view.schedule),
            _next_fire(view, now),
            _lines("" if last_fire is None else _time(last_fire, now), run_name),
            "" if lateness is None else lateness_in_words(lateness),
            _lines(str(tally.runs[key]), str(tally.caught_up[key])),
        )
    return table


def key_of(view: TriggerView) -> str:
    """Return the key of a trigger as the worker's log has it."""
    return f"{view.project}/{view.domain}/{view.task_name}/{view.name}"


def _last_run(view: TriggerView, tally: Tally) -> tuple[datetime | None, str, timedelta | None]:
    """Return fire time, name and lateness of the last run: the worker's word is ahead of what it has written down."""
    seen = tally.last_runs.get(key_of(view))
    if seen is not None and (view.last_fire is None or view.last_fire <= seen.fire_time):
        return seen.fire_time, seen.run_name, seen.lateness
    lateness = None if view.last_lateness_ms is None else view.last_lateness_ms * _MILLISECOND
    return view.last_fire, view.last_run_name or "", lateness


def _next_fire(view: TriggerView, now: datetime) -> Text:
    if view.state is not State.ACTIVE:
        return Text(view.state, "yellow")
    if view.next_fire is None:
        return Text("never")
    seconds_left = math.ceil(max(timedelta(), view.next_fire - now) / _SECOND)
    return _lines(_time(view.next_fire, now), f"in {format_go_duration(seconds_left * _SECOND)}")


def _lines(first: str, *others: str) -> Text:
    return Text.assemble(first, *((f"\n{other}", "dim") for other in others))


def _time(instant: datetime, now: datetime) -> str:
    instant = instant.astimezone(UTC)
    return f"{instant:%H:%M:%SZ}" if instant.date() == now.date() else f"{instant:%b %d %H:%M:%SZ}"


def _latest(runs: Iterable[DemoRun], now: datetime) -> Table:
    table = Table(box=None, show_header=False)
    for run in runs:
        late = f"{lateness_in_words(run.lateness)} late"
        table.add_row(
            Text(_time(run.fire_time, now)),
            Text(run.trigger.rpartition("/")[2]),
            Text(run.run_name),
            Text(f"caught up, {late}", "yellow") if run.is_caught_up else Text(late, "green"),
        )
    return table
