"""The pool of connections that the stores share.

Decides its size and its time limits. A pooled connection that died while idle (a restarted database) is replaced
before use, so that the first statement after an outage succeeds.
"""

from typing import Final

from asyncpg import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from scheduler_worker.database.connection import connect
from scheduler_worker.domain.database_url import DatabaseUrl, parse_database_url

POOL_SIZE: Final = 5  # sync, checks before calls, progress, administration: a handful at a time
POOL_TIMEOUT_SECONDS: Final = 10.0
COMMAND_TIMEOUT_SECONDS: Final = 30.0


def create_engine(
    url: str | DatabaseUrl,
    *,
    pool_size: int = POOL_SIZE,
    command_timeout_seconds: float | None = COMMAND_TIMEOUT_SECONDS,
) -> AsyncEngine:
    """Return an engine on the database at `url`; nothing is opened before the first use. Dispose of it at the end.

    Raises:
        ConfigError: `url` can't be read.
    """
    address = parse_database_url(url) if isinstance(url, str) else url

    async def open_connection() -> Connection:
        return await connect(address, command_timeout_seconds=command_timeout_seconds)

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=open_connection,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT_SECONDS,
        pool_pre_ping=True,
    )
