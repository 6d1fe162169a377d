"""The demo's live table, and how times and durations are written on it.

Decides how things look. Must never wait or read anything: it is given all it shows.
"""

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


def lateness_in_words(lateness: timedelta) -> str:
    """Return a lateness as Go writes durations, without digits that tell nothing."""
    unit = _MILLISECOND if abs(lateness) < _ROUNDED_ABOVE else _SECOND
    return format_go_duration(round(lateness / unit) * unit)


def _state_line(ready: Mapping[str, Any], tally: Tally) -> Text:
    role = str(ready.get("role", "not answering"))
    parts = [
        f"{ready.get('armed_triggers', 0)} armed",
        f"{tally.runs.total()} runs",
        f"{tally.caught_up.total()} of them caught up",
        f"{ready.get('queued_fires', 0)} waiting",
    ]
    if tally.unfired:
        parts.append(f"{tally.unfired} unfired")
    line = Text.assemble("Worker: ", (role, "bold green" if role == "owner" else "bold yellow"))
    line.append(" · " + " · ".join(parts))
    for reason in ready.get("reasons") or ():
        line.append(f"\n{reason}", "yellow")
    return line


def _triggers(views: Sequence[TriggerView], tally: Tally, now: datetime) -> Table:
    table = Table(box=SIMPLE_HEAD, expand=False)
    table.add_column("trigger", overflow="fold")
    table.add_column("schedule", overflow="fold")
    for column in ("next fire", "last fire", "run name", "lateness", "runs", "caught up"):
        table.add_column(
            column, no_wrap=True, justify="right" if column in {"lateness", "runs", "caught up"} else "left"
        )
    for view in views:
        last = _last_run(view, tally)
        key = key_of(view)
        table.add_row(
            Text(f"{view.task_name}/{view.name}"),
            Text(view.schedule),
            _next_fire(view, now),
            *((Text(), Text(), Text()) if last is None else (Text(_time(last[0], now)), Text(last[1]), Text(last[2]))),
            str(tally.runs[key]),
            str(tally.caught_up[key]),
        )
    return table


def key_of(view: TriggerView) -> str:
    """Return the key of a trigger as the worker's log has it."""
    return f"{view.project}/{view.domain}/{view.task_name}/{view.name}"


def _last_run(view: TriggerView, tally: Tally) -> tuple[datetime, str, str] | None:
    """Return fire time, name and lateness of the last run: the worker's word is ahead of what it has written down."""
    seen = tally.last_runs.get(key_of(view))
    if seen is not None and (view.last_fire is None or view.last_fire <= seen.fire_time):
        return seen.fire_time, seen.run_name, lateness_in_words(seen.lateness)
    if view.last_fire is None:
        return None
    lateness = timedelta(milliseconds=view.last_lateness_ms or 0.0)
    return view.last_fire, view.last_run_name or "", lateness_in_words(lateness)


def _next_fire(view: TriggerView, now: datetime) -> Text:
    if view.state is not State.ACTIVE:
        return Text(view.state, "yellow")
    if view.next_fire is None:
        return Text("never")
    wait = max(timedelta(), view.next_fire - now)
    return Text.assemble(_time(view.next_fire, now), (f" in {lateness_in_words(-(-wait // _SECOND) * _SECOND)}", "dim"))


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
