"""Which failures mean that Postgres is away, said in the worker's own error.

Decides between "try again later" (`DatabaseUnavailableError`, the cause chained) and a fault of the program, which
passes through untouched. Must never swallow one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from scheduler_worker.errors import DatabaseUnavailableError

# SQLSTATE classes and codes that pass by themselves: connection, resources, operator intervention, a lock or deadlock,
# serialization, a server that is read-only because it has just lost its part as primary.
_PASSING_CLASSES = frozenset({"08", "53", "57", "58"})
_PASSING_CODES = frozenset({"25006", "40001", "40P01", "55P03"})


@contextmanager
def database_faults(doing: str) -> Iterator[None]:
    """Raise `DatabaseUnavailableError` for what means that Postgres is away; `doing` begins its message.

    Raises:
        DatabaseUnavailableError: no connection, connection lost, no answer in time, or Postgres asks to come again.
    """
    try:
        yield
    except (OSError, PoolTimeoutError) as error:
        raise DatabaseUnavailableError(f"{doing}: {_words_of(error)}") from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        if _is_passing(error):
            raise DatabaseUnavailableError(f"{doing}: {_words_of(error)}") from error
        raise
    except DBAPIError as error:
        cause = error.orig.__cause__ if error.orig is not None else None
        if error.connection_invalidated or _is_passing(cause):
            raise DatabaseUnavailableError(f"{doing}: {_words_of(cause or error)}") from error
        raise


def _is_passing(error: BaseException | None) -> bool:
    if isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return True
    code = getattr(error, "sqlstate", None) or ""
    return code[:2] in _PASSING_CLASSES or code in _PASSING_CODES


def _words_of(error: BaseException) -> str:
    return str(error) or type(error).__name__
