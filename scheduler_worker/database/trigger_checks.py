"""The last look at triggers, just before their calls.

Decides how to ask in the least time, since every fire waits for the answer: over a connection of its own, without pool
and toolkit, and with an answer that names only what changed. Must never be asked twice at the same time.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import asyncpg

from scheduler_worker.database.connection import connect
from scheduler_worker.database.faults import database_faults
from scheduler_worker.domain.database_url import DatabaseUrl, parse_database_url
from scheduler_worker.errors import DatabaseUnavailableError

_STALE: Final = """
    SELECT known.id FROM unnest($1::bigint[], $2::bigint[]) AS known (id, revision)
    LEFT JOIN triggers ON triggers.id = known.id
    WHERE triggers.id IS NULL OR triggers.latest_revision > known.revision
"""


class TriggerChecks:
    """Asks one database; connects by itself, and anew after a fault. Close it at the end, or use ``async with``."""

    def __init__(self, url: str | DatabaseUrl) -> None:
        self._url = parse_database_url(url) if isinstance(url, str) else url
        self._connection: asyncpg.Connection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def stale(self, known: Mapping[int, int]) -> list[int]:
        """Return those of `known` (revision by trigger id) that have a newer revision or are gone.

        Raises:
            DatabaseUnavailableError: Postgres did not answer.
        """
        if self._connection is not None:
            try:
                return await self._ask(self._connection, known)
            except DatabaseUnavailableError:
                # It may have died long ago, with a server that is back since. A check that is skipped sends what was
                # paused meanwhile, so a fresh connection has the last word.
                pass
        with database_faults("checking triggers"):
            self._connection = await connect(self._url, server_settings={"application_name": "scheduler-worker checks"})
        return await self._ask(self._connection, known)

    async def _ask(self, connection: asyncpg.Connection, known: Mapping[int, int]) -> list[int]:
        try:
            with database_faults("checking triggers"):
                rows = await connection.fetch(_STALE, list(known.keys()), list(known.values()))
        except BaseException:
            # Also after a cancellation: a line that answers late, or never, is not worth waiting for.
            self.close()
            raise
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close the connection at once; the next question opens one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
