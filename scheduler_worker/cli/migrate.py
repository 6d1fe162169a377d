"""`scheduler-worker migrate`: brings the database to the form the worker needs.

Decides what is told of it; what is done is decided in `database/migrate.py`.
"""

import asyncio
from typing import Annotated, Final

import typer

from scheduler_worker.cli.database import DatabaseUrlOption, database_address
from scheduler_worker.cli.output import ConfigOption, JsonOption, print_json
from scheduler_worker.database import migrate
from scheduler_worker.database.migrate import Hooks, SchemaState

_PENDING: Final = 1
"""Exit code of --check."""

_HOOKS_IN_WORDS: Final = {
    Hooks.ON: "changes of triggers are notified",
    Hooks.OFF: "changes of triggers are not notified: the worker finds them with its next sync",
    Hooks.NOT_PERMITTED: (
        "changes of triggers are not notified: the worker finds them with its next sync."
        " To have them notified, GRANT TRIGGER ON triggers to this user and run migrate again"
    ),
}

app = typer.Typer(add_completion=False)


@app.command()
def migrate_database(
    *,
    database_url: DatabaseUrlOption = None,
    config: ConfigOption = None,
    notify: Annotated[
        bool,
        typer.Option(
            "--notify/--no-notify",
            help="Put triggers on the table of triggers that notify the worker of changes; or take them off.",
        ),
    ] = True,
    revision: Annotated[str, typer.Option(help="How far to go.")] = "head",
    down_to: Annotated[
        str | None,
        typer.Option(help="Go back to this revision instead ('base': before the first). Loses what the tables hold."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if anything is pending.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make or update the worker's tables. Running it again changes nothing; several at the same time take turns.

    In a database of Flyte's, its tables are used as they are. In one without them, they are made as well.
    Exit codes: 0 done; 1 the database does not answer, refuses, or (--check) something is pending; 2 bad input.
    """
    address = database_address(database_url, config)
    if check:
        state = asyncio.run(migrate.current(address))
    elif down_to is not None:
        state = asyncio.run(migrate.downgrade(address, down_to))
    else:
        state = asyncio.run(migrate.upgrade(address, revision, notify=notify))
    if as_json:
        print_json(state)
    else:
        typer.echo(_in_words(state))
    if check and state.pending:
        raise typer.Exit(_PENDING)


def _in_words(state: SchemaState) -> str:
    lines = [f"The database is at revision {state.revision or 'none'}."]
    if state.applied:
        lines.append(f"Applied: {', '.join(state.applied)}.")
    if state.pending:
        lines.append(f"Pending: {', '.join(state.pending)}.")
    if state.revision is not None:
        lines.append(f"Notifications: {_HOOKS_IN_WORDS[state.hooks]}.")
    return "\n".join(lines)
