"""How commands reach the database: where its address comes from, and what its faults mean to a person.

Decides nothing about triggers. Must never print an address, which may hold a password.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import asyncpg
import typer
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.config.loading import load_database_url
from scheduler_worker.database.engine import create_engine
from scheduler_worker.errors import MigrationError

DatabaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="Postgres, in any form that libpq reads. Without it SCHEDULER_DATABASE_URL or the settings file says.",
        show_default=False,
    ),
]

_Result = TypeVar("_Result")


def database_address(url: str | None, config: Path | None) -> str:
    """Return the address to use: the option's, or what environment and settings file say.

    Raises:
        ConfigError: there is none, or it can't be read.
    """
    return url if url is not None else load_database_url(os.environ, config)


def in_database(url: str | None, config: Path | None, work: Callable[[AsyncEngine], Awaitable[_Result]]) -> _Result:
    """Return what `work` returns for the database that is meant.

    Raises:
        ConfigError: as `database_address`.
        MigrationError: the tables are missing, or the user may not use them.
        DatabaseUnavailableError: no answer.
    """
    address = database_address(url, config)

    async def run() -> _Result:
        engine = create_engine(address)
        try:
            return await work(engine)
        except DBAPIError as error:
            raise _for_people(error) from error
        finally:
            await engine.dispose()

    return asyncio.run(run())


def _for_people(error: DBAPIError) -> Exception:
    cause = error.orig.__cause__ if error.orig is not None else None
    if isinstance(cause, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError):
        return MigrationError(f"the database is not ready: {cause}; bring it up to date with: scheduler-worker migrate")
    if isinstance(cause, asyncpg.InsufficientPrivilegeError):
        return MigrationError(f"{cause}; grant the right, or name another user in the database's address")
    return error
