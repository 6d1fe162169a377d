"""`scheduler-worker unfired`: fire times that became no run, and sending them after all.

Decides how a person picks them; the worker sends them with its next sync.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.cli.database import DatabaseUrlOption, in_database
from scheduler_worker.cli.output import ConfigOption, JsonOption, print_json, print_table
from scheduler_worker.database.unfired_store import UnfiredFilter, UnfiredRecord, UnfiredStore
from scheduler_worker.domain.outcomes import UnfiredReason

LIST_LIMIT: Final = 100
"""Fire times that `list` prints unless more are asked for."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List fire times that became no run, or send them again.\n\n"
    "Exit codes: 0 done; 1 nothing matched (retry), or the database does not answer; 2 bad input.",
)

_Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="Ids from `list`.", show_default=False)]
_Project = Annotated[str | None, typer.Option("--project", show_default=False)]
_Domain = Annotated[str | None, typer.Option("--domain", show_default=False)]
_Task = Annotated[str | None, typer.Option("--task", help="Name of the task.", show_default=False)]
_Name = Annotated[str | None, typer.Option("--name", help="Name of the trigger.", show_default=False)]
_Reason = Annotated[UnfiredReason | None, typer.Option("--reason", show_default=False)]
_Since = Annotated[
    str | None, typer.Option("--since", help="Fire times from this instant (ISO 8601) on.", show_default=False)
]
_Until = Annotated[
    str | None, typer.Option("--until", help="Fire times before this instant (ISO 8601).", show_default=False)
]


@app.command("list")
def list_unfired(
    *,
    project: _Project = None,
    domain: _Domain = None,
    task: _Task = None,
    name: _Name = None,
    reason: _Reason = None,
    since: _Since = None,
    until: _Until = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = LIST_LIMIT,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List fire times that became no run, newest first, with the reason."""
    filter_ = UnfiredFilter(
        project=project,
        domain=domain,
        task_name=task,
        name=name,
        reason=reason,
        since=_instant("--since", since),
        until=_instant("--until", until),
    )

    async def work(engine: AsyncEngine) -> Sequence[UnfiredRecord]:
        return await UnfiredStore(engine).list(filter_, limit=limit + 1)

    records = in_database(database_url, config, work)
    if len(records) > limit:
        records = records[:limit]
        typer.echo(f"There are more than these {limit}; raise --limit, or narrow the list.", err=True)
    if as_json:
        print_json([_plain(record) for record in records])
        return
    columns = ("id", "trigger", "fire time", "reason", "code", "message", "attempts", "asked for")
    rows = []
    for record in records:
        fire = record.fire
        cells = (record.id, fire.key, fire.fire_time, fire.reason, fire.code, fire.message, fire.attempts)
        rows.append((*cells, record.retry_requested_at))
    print_table("Unfired", columns, rows)


@app.command()
def retry(
    ids: _Ids = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All there are, unless options narrow them.")] = False,
    project: _Project = None,
    domain: _Domain = None,
    task: _Task = None,
    name: _Name = None,
    reason: _Reason = None,
    since: _Since = None,
    until: _Until = None,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask for fire times to be sent after all: the worker does so with its next sync.

    Those of a paused or deleted trigger wait until it is active. Exit code 1: nothing new was asked for.
    """
    filter_ = UnfiredFilter(
        ids=tuple(ids) if ids else None,
        project=project,
        domain=domain,
        task_name=task,
        name=name,
        reason=reason,
        since=_instant("--since", since),
        until=_instant("--until", until),
    )
    if filter_ == UnfiredFilter() and not everything:
        raise typer.BadParameter("name ids, narrow by options, or say --all")

    async def work(engine: AsyncEngine) -> int:
        return await UnfiredStore(engine).request_retry(filter_)

    count = in_database(database_url, config, work)
    if as_json:
        print_json({"requested": count})
    else:
        typer.echo(f"{count} fire {'time is' if count == 1 else 'times are'} asked for.")
    if count == 0:
        raise typer.Exit(1)


def _instant(option: str, text: str | None) -> datetime | None:
    """Read an instant; without an offset it is in UTC."""
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not an instant; write it as 2026-01-31T00:00:00Z", param_hint=option
        ) from error
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def _plain(record: UnfiredRecord) -> dict[str, object]:
    fire = record.fire
    return {
        "id": record.id,
        **fire.key._asdict(),
        "fire_time": fire.fire_time,
        "run_name": fire.run_name,
        "reason": fire.reason,
        "code": fire.code,
        "message": fire.message,
        "attempts": fire.attempts,
        "recorded_at": record.recorded_at,
        "retry_requested_at": record.retry_requested_at,
    }
