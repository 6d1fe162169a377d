"""The lease that makes one worker the owner: a Postgres advisory lock, held by a session of its own.

Decides when the lease is got and when it is gone. The lock lives exactly as long as its session, so the server gives it
on as soon as it notices that the holder is away, and the holder must believe it lost as soon as it can't see the lock.
It must never take a lost lease for a held one; the other way round costs a reload and nothing else.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

import asyncpg

from scheduler_worker.database.connection import connect
from scheduler_worker.database.faults import database_faults
from scheduler_worker.domain.database_url import DatabaseUrl, parse_database_url
from scheduler_worker.errors import DatabaseUnavailableError

OWNER_LOCK: Final = 0x5C4ED_0002
"""The advisory lock of the active worker. One database has one owner."""

POLL_SECONDS: Final = 1.0  # between two tries of a worker that stands by
POLL_JITTER: Final = 0.2  # of it, so that several do not try in step
HEARTBEAT_SECONDS: Final = 1.0
HEARTBEAT_TIMEOUT_SECONDS: Final = 3.0
_CLOSE_TIMEOUT_SECONDS: Final = 2.0

# The server drops the session of a vanished worker within about five seconds. Applied only where the server knows the
# setting: it is older, or another system, otherwise.
_SERVER_SIDE: Final = {
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "client_connection_check_interval": "2000",
    "idle_session_timeout": "0",
}
_APPLY_KNOWN: Final = """
    SELECT set_config(known.name, wanted.value, false)
    FROM unnest($1::text[], $2::text[]) AS wanted (name, value)
    JOIN pg_settings AS known ON known.name = wanted.name
"""
# Asks for the lock and not only for an answer: behind a pooler, the next statement may run in another session.
_HOLDS_LOCK: Final = """
    SELECT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND objsubid = 1
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND classid = ($1::bigint >> 32)::int::oid AND objid = ($1::bigint & 4294967295)::oid
    )
"""


class Lease:
    """Ownership of one database's triggers. Used over and over: `acquire`, watch `lost`, `release`, `acquire`.

    Attributes:
        lost: set while the lease is not held although `acquire` returned: fire nothing any more.
    """

    def __init__(
        self, url: str | DatabaseUrl, *, key: int = OWNER_LOCK, jitter: Callable[[], float] = random.random
    ) -> None:
        self._url = parse_database_url(url) if isinstance(url, str) else url
        self._key = key
        self._jitter = jitter
        self._connection: asyncpg.Connection | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    @property
    def is_held(self) -> bool:
        """Whether the lease is held, as far as can be known here."""
        return self._heartbeat is not None and not self.lost.is_set()

    async def acquire(self, *, on_wait: Callable[[DatabaseUnavailableError | None], None] = lambda _: None) -> None:
        """Wait until the lease is held, through outages of the database, for as long as it takes.

        `on_wait` is told after each try in vain: None when another worker holds the lease, else what is wrong.
        """
        await self.release()
        while True:
            fault = None
            try:
                if await self._try_to_acquire():
                    return
            except DatabaseUnavailableError as error:
                await self._close()
                fault = error
            except BaseException:
                await self._close()
                raise
            on_wait(fault)
            try:
                await asyncio.sleep(POLL_SECONDS * (1 + POLL_JITTER * self._jitter()))
            except BaseException:
                await self._close()
                raise

    async def regain(self) -> bool:
        """Try once to get a lost lease back, and say False when another worker holds it by now.

        Raises:
            DatabaseUnavailableError: the database is away, so that nobody can hold it.
        """
        await self.release()
        try:
            regained = await self._try_to_acquire()
        except BaseException:
            await self._close()
            raise
        if not regained:
            await self._close()
        return regained

    async def release(self) -> None:
        """Give the lease back. Releasing what is not held, or twice, is fine; it never fails."""
        heartbeat, self._heartbeat = self._heartbeat, None
        try:
            if heartbeat is not None:
                heartbeat.cancel()
                await asyncio.wait({heartbeat})
        finally:
            await self._close()

    async def _try_to_acquire(self) -> bool:
        """Ask for the lock once, on a connection that stays open between tries."""
        if self._connection is None:
            self._connection = await connect(
                self._url,
                server_settings={"application_name": "scheduler-worker lease"},
                command_timeout_seconds=HEARTBEAT_TIMEOUT_SECONDS,
            )
            with database_faults("setting up the lease's session"):
                await self._connection.execute(_APPLY_KNOWN, list(_SERVER_SIDE), list(_SERVER_SIDE.values()))
        connection = self._connection
        with database_faults("asking for the lease"):
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", self._key):
                return False
        self.lost.clear()
        connection.add_termination_listener(self._on_termination)
        if connection.is_closed():
            raise DatabaseUnavailableError("the connection of the lease broke while it was taken")
        self._heartbeat = asyncio.create_task(self._watch(connection), name="lease-heartbeat")
        self._heartbeat.add_done_callback(self._on_watch_ended)
        return True

    def _on_termination(self, connection: asyncpg.Connection) -> None:
        # A connection that was given back on purpose is no loss.
        if connection is self._connection:
            self.lost.set()

    def _on_watch_ended(self, watch: asyncio.Task[None]) -> None:
        # Whatever ended it: a lease that nobody watches is as good as lost.
        if not watch.cancelled():
            self.lost.set()

    async def _watch(self, connection: asyncpg.Connection) -> None:
        """Look for the lock again and again: a cut line may keep a connection looking open for minutes."""
        holds = True
        while holds and not self.lost.is_set():
            await asyncio.sleep(HEARTBEAT_SECONDS)
            try:
                with database_faults("watching the lease"):
                    holds = await connection.fetchval(_HOLDS_LOCK, self._key)
            except DatabaseUnavailableError:
                holds = False

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            # Ending the session gives back the lock, also when the answer does not arrive any more.
            await connection.close(timeout=_CLOSE_TIMEOUT_SECONDS)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection.terminate()
        except BaseException:
            connection.terminate()
            raise
