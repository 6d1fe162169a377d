"""Brings a database to the form this version needs, and says how far it is.

Decides where the revisions are, that runs at the same time take turns, and what is put on Flyte's own table. It must
never change a table that it did not make.
"""

import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.ext.asyncio import AsyncConnection

from scheduler_worker.database import change_hooks
from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.faults import database_faults
from scheduler_worker.database.tables import metadata
from scheduler_worker.errors import MigrationError

VERSION_TABLE: Final = "scheduler_alembic_version"
"""Not alembic's usual name: the database may be Flyte's, with a version table of its own."""

_TURN_LOCK: Final = 0x5C4ED_0001  # an advisory lock key of the worker's own


class Hooks(StrEnum):
    """Whether Postgres notifies the worker of changed triggers."""

    ON = "on"
    OFF = "off"
    NOT_PERMITTED = "not permitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """How far a database is.

    Attributes:
        revision: the revision it is at, or None before the first.
        applied: the revisions that this run applied, oldest first.
        pending: the revisions that are still to be applied, oldest first.
    """

    revision: str | None
    applied: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    hooks: Hooks = Hooks.OFF


def is_ours(name: str | None, type_: str, _parents: object) -> bool:
    """Say whether alembic should compare this: in Flyte's database most tables are none of the worker's business."""
    return type_ != "table" or name in metadata.tables


async def upgrade(url: str, revision: str = "head", *, notify: bool = True) -> SchemaState:
    """Bring the database at `url` up to `revision`, and put the change hooks on or, without `notify`, take them off.

    Running it again changes nothing; runs at the same time take turns.

    Raises:
        ConfigError: `url` can't be read.
        MigrationError: `revision` is unknown, or the database holds something that does not fit.
        DatabaseUnavailableError: no answer.
    """
    async with _turn(url) as connection:
        before = await connection.run_sync(_pending_on)
        await _run(connection, lambda config: command.upgrade(config, revision))
        after = await connection.run_sync(_pending_on)
        hooks = Hooks.OFF
        if await connection.scalar(sa.text("SELECT to_regproc('scheduler_notify_triggers')")) is not None:
            hooks = await _settle_hooks(connection, notify=notify)
        await connection.commit()
        return SchemaState(
            revision=await connection.run_sync(_revision_on),
            applied=tuple(name for name in before if name not in after),
            pending=after,
            hooks=hooks,
        )


async def downgrade(url: str, revision: str) -> SchemaState:
    """Take the database back to `revision` (``base``: before the first). Data in what is dropped is lost.

    Raises:
        As `upgrade`.
    """
    async with _turn(url) as connection:
        await _run(connection, lambda config: command.downgrade(config, revision))
        await connection.commit()
        return await _state_on(connection)


async def current(url: str) -> SchemaState:
    """Return how far the database at `url` is, changing nothing.

    Raises:
        ConfigError: `url` can't be read.
        DatabaseUnavailableError: no answer.
    """
    async with _connection(url) as connection:
        return await _state_on(connection)


async def pending(url: str) -> tuple[str, ...]:
    """Return the revisions that the database at `url` still needs, oldest first. Raises as `current`."""
    return (await current(url)).pending


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[AsyncConnection]:
    # No limit on a statement: building an index on a large table takes the time it takes.
    engine = create_engine(url, command_timeout_seconds=None)
    try:
        with database_faults("migrating"):
            async with engine.connect() as connection:
                yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _turn(url: str) -> AsyncIterator[AsyncConnection]:
    """Yield a connection while no other run of `migrate` works on the database."""
    async with _connection(url) as connection:
        # Held by the session, so it also goes when this process dies.
        await connection.execute(sa.text("SELECT pg_advisory_lock(:key)"), {"key": _TURN_LOCK})
        await connection.commit()
        yield connection


async def _run(connection: AsyncConnection, step: Callable[[Config], None]) -> None:
    def run(sync_connection: sa.Connection) -> None:
        step(_config(sync_connection))

    try:
        await connection.run_sync(run)
    except (CommandError, RuntimeError) as error:
        raise MigrationError(str(error)) from error


async def _settle_hooks(connection: AsyncConnection, *, notify: bool) -> Hooks:
    if not notify:
        await change_hooks.remove(connection)
        return Hooks.OFF
    if await change_hooks.are_installed(connection):
        return Hooks.ON
    if not await change_hooks.are_permitted(connection):
        return Hooks.NOT_PERMITTED
    await change_hooks.install(connection)
    return Hooks.ON


async def _state_on(connection: AsyncConnection) -> SchemaState:
    return SchemaState(
        revision=await connection.run_sync(_revision_on),
        pending=await connection.run_sync(_pending_on),
        hooks=Hooks.ON if await change_hooks.are_installed(connection) else Hooks.OFF,
    )


def _revision_on(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _pending_on(connection: sa.Connection) -> tuple[str, ...]:
    script = ScriptDirectory.from_config(_config(connection))
    newest_first = [step.revision for step in script.walk_revisions()]
    reached = _revision_on(connection)
    if reached is not None and reached not in newest_first:
        raise MigrationError(
            f"the database is at revision {reached!r}, which this version does not know;"
            " install the version that made it, or a newer one"
        )
    missing = newest_first[: newest_first.index(reached)] if reached is not None else newest_first
    return tuple(reversed(missing))


def _config(connection: sa.Connection) -> Config:
    config = Config(attributes={"connection": connection})
    # Alembic reads a percent sign as the start of a reference.
    config.set_main_option("script_location", str(_script_folder()).replace("%", "%%"))
    return config


def _script_folder() -> Path:
    """Return the folder of the revisions: inside the installed package, or beside it in a working copy."""
    spec: Any = importlib.util.find_spec("scheduler_worker")
    package = Path(spec.submodule_search_locations[0])
    shipped = package / "_migrations"
    return shipped if shipped.is_dir() else package.parent / "migrations"
