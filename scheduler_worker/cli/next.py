"""`scheduler-worker next`: the fire times of an expression, without a database or a service.

Decides nothing about schedules: it asks the same code as the worker. Must stay light to start, and in `--jsonl` must
answer every line with exactly one line, whatever stands in it.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from scheduler_worker.domain.cron import parse_standard
from scheduler_worker.domain.cron_text import Every
from scheduler_worker.domain.fixed_rate import FixedRateSchedule
from scheduler_worker.domain.quoting import quoted
from scheduler_worker.domain.schedule import Schedule
from scheduler_worker.domain.zones import in_utc, utc_text
from scheduler_worker.errors import ScheduleError

DEFAULT_COUNT = 5
MOST_FIRE_TIMES = 100_000
"""Keeps one answer to a few megabytes."""

_BAD_INPUT = 2
"""Exit code."""

app = typer.Typer(add_completion=False)


@app.command()
def next_fire_times(
    expression: Annotated[
        str | None, typer.Argument(metavar="EXPR", help="Five cron fields, or a descriptor such as '@every 1h30m'.")
    ] = None,
    *,
    tz: Annotated[str, typer.Option(help="IANA time zone the expression is read in; UTC by default.")] = "",
    after: Annotated[
        str | None, typer.Option(help="ISO 8601 instant; UTC if it has no offset. Now by default.")
    ] = None,
    count: Annotated[int, typer.Option(min=0, max=MOST_FIRE_TIMES, help="How many fire times.")] = DEFAULT_COUNT,
    as_json: Annotated[bool, typer.Option("--json", help='Print {"next": [...]} or {"error": "..."}.')] = False,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl",
            help='Read lines {"expr", "tz", "after", "count"} from standard input; write one line for each, as --json.',
        ),
    ] = False,
) -> None:
    """Print the first fire times of a schedule that come strictly after an instant, in UTC.

    '@every' counts from that instant. Exit code 2: the expression, the zone or the instant can't be used, or the
    expression can never fire.
    """
    now = datetime.now(UTC)
    if jsonl:
        if expression is not None:
            raise typer.BadParameter("give EXPR or --jsonl, not both")
        for line in answers(sys.stdin.buffer, now=now):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        return
    if expression is None:
        raise typer.BadParameter("give EXPR, such as '0 9 * * 1-5', or --jsonl")
    try:
        times = fire_times_after(expression, tz, now if after is None else parse_instant(after), count)
    except ScheduleError as fault:
        if as_json:
            typer.echo(json.dumps({"error": str(fault)}))
        typer.echo(f"Error: {fault}", err=True)
        raise typer.Exit(_BAD_INPUT) from fault
    if as_json:
        typer.echo(json.dumps({"next": times}))
    else:
        for time in times:
            typer.echo(time)
    if count and not times:
        typer.echo("Error: the expression never fires after that instant: write a date that exists", err=True)
        raise typer.Exit(_BAD_INPUT)


def answers(lines: Iterable[bytes], *, now: datetime) -> Iterator[str]:
    """Yield the answer to each line, in order: a JSON object with ``next`` or, for a fault, ``error``.

    An expression that never fires has no next fire times: ``{"next": []}``.
    """
    for line in lines:
        try:
            expression, tz, after, count = _parse_question(line, now)
            answer: dict[str, Any] = {"next": fire_times_after(expression, tz, after, count)}
        except ScheduleError as fault:
            answer = {"error": str(fault)}
        yield json.dumps(answer)


def fire_times_after(expression: str, tz: str, after: datetime, count: int) -> list[str]:
    """Return up to `count` fire times strictly after `after`, as ``2026-02-27T23:59:00Z``.

    Raises:
        ScheduleError: the expression or the zone can't be used.
    """
    schedule = _schedule_of(expression, tz, after)
    times: list[str] = []
    time = schedule.next_after(after)
    while time is not None and len(times) < count:
        times.append(utc_text(time))
        time = schedule.next_after(time)
    return times


def _schedule_of(expression: str, tz: str, after: datetime) -> Schedule:
    # Not the domain's `schedule_of`: that refuses what never fires, and here the question has an answer, no fire times.
    parsed = parse_standard(expression, tz)
    if isinstance(parsed, Every):
        return FixedRateSchedule(after, parsed.interval, fires_at_anchor=False)
    return parsed


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 date or instant, in UTC if it has no offset.

    Raises:
        ScheduleError: naming the text and the remedy.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as fault:
        raise ScheduleError(f"after {quoted(text)} is no instant: write one such as 2026-02-27T23:59:00Z") from fault
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else in_utc(instant)


def _parse_question(line: bytes, now: datetime) -> tuple[str, str, datetime, int]:
    try:
        question = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise ScheduleError(f"the line is no JSON: {type(fault).__name__}: write one object a line") from fault
    if not isinstance(question, dict):
        raise ScheduleError('the line is no JSON object: write {"expr": "0 9 * * 1-5", "tz": "Europe/Berlin"}')
    expression = _text_of(question, "expr")
    if expression is None:
        raise ScheduleError('the line has no "expr": write {"expr": "0 9 * * 1-5"}')
    after = _text_of(question, "after")
    count = question.get("count", DEFAULT_COUNT)
    if type(count) is not int or not 0 <= count <= MOST_FIRE_TIMES:
        raise ScheduleError(
            f"count {quoted(json.dumps(count))} is no count: write a whole number from 0 to {MOST_FIRE_TIMES}"
        )
    return expression, _text_of(question, "tz") or "", parse_instant(after) if after else now, count


def _text_of(question: dict[str, Any], key: str) -> str | None:
    value = question.get(key)
    if value is not None and not isinstance(value, str):
        raise ScheduleError(f"{key} {quoted(json.dumps(value))} is no text: write it in quotes")
    return value
