"""`scheduler-worker triggers`: deploy, list, show, pause, resume and delete triggers.

Decides how a person names triggers and what is printed; what a write does is decided in `database/trigger_admin.py`.
"""

import getpass
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.cli.database import DatabaseUrlOption, in_database
from scheduler_worker.cli.output import ConfigOption, JsonOption, print_json, print_table
from scheduler_worker.cli.trigger_file import read_trigger_file
from scheduler_worker.cli.trigger_view import TriggerView, view_of
from scheduler_worker.database.trigger_admin import TriggerAdmin, Written
from scheduler_worker.database.trigger_catalog import TriggerCatalog, TriggerFilter
from scheduler_worker.domain.trigger import TriggerKey

LIST_LIMIT: Final = 1_000
"""Triggers that `list` prints unless more are asked for."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Deploy, list, show, pause, resume and delete triggers.\n\n"
    "Exit codes: 0 done; 1 not found, conflict, or the database does not answer; 2 bad input.",
)

_KeyArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY]...", help="PROJECT/DOMAIN/TASK_NAME/NAME", show_default=False)
]
_Project = Annotated[str | None, typer.Option("--project", show_default=False)]
_Domain = Annotated[str | None, typer.Option("--domain", show_default=False)]
_Task = Annotated[str | None, typer.Option("--task", help="Name of the task.", show_default=False)]
_Name = Annotated[str | None, typer.Option("--name", help="Name of the trigger.", show_default=False)]


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(help="YAML file with triggers, or - for standard input.", allow_dash=True)],
    *,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deploy the triggers of a file: all of them, or, if one can't be, none.

    New ones are made, deleted ones revived, and those that say the same already are left alone. A `revision` in the
    file is the one the trigger must be at, or the deploy is refused as a conflict.
    """
    text = _text_of(file)
    definitions = read_trigger_file(text, source=str(file), now=datetime.now(UTC))

    _write(database_url, config, lambda admin: admin.apply(definitions), as_json=as_json)


@app.command("list")
def list_triggers(
    *,
    project: _Project = None,
    domain: _Domain = None,
    task: _Task = None,
    name: _Name = None,
    show_all: Annotated[bool, typer.Option("--all", help="Deleted ones too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = LIST_LIMIT,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List triggers with their state, schedule, next and last fire time, and what is wrong with bad ones."""
    filter_ = TriggerFilter(project=project, domain=domain, task_name=task, name=name, with_deleted=show_all)

    async def work(engine: AsyncEngine) -> Sequence[TriggerView]:
        # One more than asked for tells whether there are more.
        found = await TriggerCatalog(engine).find(filter_, limit=limit + 1)
        return [view_of(details, now=datetime.now(UTC)) for details in found]

    views = in_database(database_url, config, work)
    if len(views) > limit:
        views = views[:limit]
        typer.echo(f"There are more than these {limit}; raise --limit, or narrow the list.", err=True)
    if as_json:
        print_json([view.as_mapping() for view in views])
        return
    columns = ("project", "domain", "task", "name", "state", "schedule", "next fire", "last fire", "fault")
    rows = [
        (v.project, v.domain, v.task_name, v.name, v.state, v.schedule, v.next_fire, v.last_fire, v.fault)
        for v in views
    ]
    print_table("Triggers", columns, rows)


@app.command()
def show(
    key: _KeyArguments = None,
    *,
    project: _Project = None,
    domain: _Domain = None,
    task: _Task = None,
    name: _Name = None,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one trigger, deleted or not."""
    keys = _keys(key, (project, domain, task, name))
    if len(keys) != 1:
        raise typer.BadParameter(f"{len(keys)} triggers are named; show takes one", param_hint="KEY")

    async def work(engine: AsyncEngine) -> TriggerView:
        return view_of(await TriggerCatalog(engine).show(keys[0]), now=datetime.now(UTC))

    view = in_database(database_url, config, work)
    if as_json:
        print_json(view.as_mapping())
    else:
        rows = [(field.replace("_", " "), value) for field, value in view.as_mapping().items()]
        print_table(str(keys[0]), ("", ""), rows)


@app.command()
def pause(
    keys: _KeyArguments = None,
    *,
    project: _Project = None,
    domain: _Domain = None,
    task: _Task = None,
    name: _Name = None,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Switch triggers off. They owe nothing for the time they are off, and nothing queued for them is sent."""
    named = _keys(keys, (project, domain, task, name))

    _write(database_url, config, lambda admin: admin.set_active(named, active=False), as_json=as_json)


@app.command()
def resume(
    keys: _KeyArguments = None,
    *,
    project: _Project = None,
    domain: _Domain = None,
    task: _Task = None,
    name: _Name = None,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Switch triggers on again, from now on."""
    named = _keys(keys, (project, domain, task, name))

    _write(database_url, config, lambda admin: admin.set_active(named, active=True), as_json=as_json)


@app.command()
def delete(
    keys: _KeyArguments = None,
    *,
    project: _Project = None,
    domain: _Domain = None,
    task: _Task = None,
    name: _Name = None,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete triggers. Their rows stay, and applying one again revives it."""
    named = _keys(keys, (project, domain, task, name))

    _write(database_url, config, lambda admin: admin.delete(named), as_json=as_json)


def _keys(written: Sequence[str] | None, options: Sequence[str | None]) -> Sequence[TriggerKey]:
    """Return the keys that are meant: arguments with slashes, or one given part by part."""
    if not written:
        parts = [part for part in options if part]
        if len(parts) != len(options):
            raise typer.BadParameter(
                "name a trigger as PROJECT/DOMAIN/TASK_NAME/NAME, or with --project, --domain, --task and --name"
            )
        return [TriggerKey(*parts)]
    if any(options):
        raise typer.BadParameter("name triggers by KEY or by options, not both")
    keys = []
    for text in dict.fromkeys(written):
        parts = text.split("/")
        if len(parts) != len(TriggerKey._fields) or not all(parts):
            raise typer.BadParameter(
                f"{text!r} is not PROJECT/DOMAIN/TASK_NAME/NAME; if a part holds a slash, use --project, --domain,"
                " --task and --name",
                param_hint="KEY",
            )
        keys.append(TriggerKey(*parts))
    return keys


def _text_of(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"can't read {str(file)!r}: {error.strerror}", param_hint="FILE") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{str(file)!r} is not text in UTF-8", param_hint="FILE") from error


def _operator() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return None


def _write(
    database_url: str | None,
    config: Path | None,
    write: Callable[[TriggerAdmin], Awaitable[Sequence[Written]]],
    *,
    as_json: bool,
) -> None:
    async def work(engine: AsyncEngine) -> Sequence[Written]:
        return await write(TriggerAdmin(engine, by=_operator()))

    written = in_database(database_url, config, work)
    if as_json:
        print_json([{**each.key._asdict(), "revision": each.revision, "change": each.change} for each in written])
    else:
        rows = [(each.key, each.change, each.revision) for each in written]
        print_table("Triggers", ("trigger", "change", "revision"), rows)
