"""Listens for changed triggers, so that a change is taken in at once and not with the next sync.

Decides when a burst of changes is over. A lost connection may have lost notifications too: whoever listens is told that
anything may have changed as soon as there is a connection again. It must never be the only way to learn of a change.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Final

import asyncpg

from scheduler_worker.database.connection import connect
from scheduler_worker.database.faults import database_faults
from scheduler_worker.domain.database_url import DatabaseUrl, parse_database_url
from scheduler_worker.errors import DatabaseUnavailableError

CHANNEL: Final = "scheduler_triggers"

QUIET_SECONDS: Final = 0.02  # a burst is over after so long without another notification,
BURST_SECONDS: Final = 0.1  # and is passed on after so long in any case
HEARTBEAT_SECONDS: Final = 5.0
HEARTBEAT_TIMEOUT_SECONDS: Final = 3.0
FIRST_BACKOFF_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 10.0

OnChange = Callable[[frozenset[int] | None], None]
"""Takes the ids of triggers that changed, or None when any may have."""


class Notifications:
    """The notifications of one database."""

    def __init__(self, url: str | DatabaseUrl, *, jitter: Callable[[], float] = random.random) -> None:
        self._url = parse_database_url(url) if isinstance(url, str) else url
        self._jitter = jitter
        self._ids: set[int] = set()
        self._everything = False
        self._arrived = asyncio.Event()
        self._broken = False

    async def run(self, on_change: OnChange, *, on_fault: Callable[[DatabaseUnavailableError], None]) -> None:
        """Listen until cancelled, through outages of the database.

        Args:
            on_change: called once per burst, and with None after each connect.
            on_fault: told of each connection that broke or did not come about.
        """
        backoff = FIRST_BACKOFF_SECONDS
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._listen(on_change)
            except DatabaseUnavailableError as error:
                on_fault(error)
            if asyncio.get_running_loop().time() - began > LONGEST_BACKOFF_SECONDS:
                backoff = FIRST_BACKOFF_SECONDS
            await asyncio.sleep(backoff * (0.5 + self._jitter() / 2))
            backoff = min(LONGEST_BACKOFF_SECONDS, backoff * 2)

    async def _listen(self, on_change: OnChange) -> None:
        """Pass on what arrives over one connection until it breaks, which raises DatabaseUnavailableError."""
        connection = await connect(
            self._url,
            server_settings={"application_name": "scheduler-worker notifications"},
            command_timeout_seconds=HEARTBEAT_TIMEOUT_SECONDS,
        )
        self._ids, self._everything, self._broken = set(), True, False
        connection.add_termination_listener(self._on_termination)
        try:
            with database_faults("listening for changed triggers"):
                await connection.add_listener(CHANNEL, self._on_notification)
                self._arrived.set()
                while True:
                    await self._wait(connection)
                    await self._let_the_burst_end()
                    ids, everything = frozenset(self._ids), self._everything
                    self._ids, self._everything = set(), False
                    on_change(None if everything else ids)
        finally:
            # No farewell: on a dead line it would wait, and a listener has nothing to lose.
            connection.terminate()

    async def _wait(self, connection: asyncpg.Connection) -> None:
        """Return when something arrived; every few seconds in between, see whether the line still works."""
        while not (self._ids or self._everything):
            if self._broken:
                raise DatabaseUnavailableError("the connection for notifications broke")
            self._arrived.clear()
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._arrived.wait()
            except TimeoutError:
                await connection.execute("SELECT 1")

    async def _let_the_burst_end(self) -> None:
        """Return after a quiet moment, or when the burst has lasted too long to wait for its end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BURST_SECONDS):
                quiet = False
                while not quiet:
                    self._arrived.clear()
                    try:
                        await asyncio.wait_for(self._arrived.wait(), QUIET_SECONDS)
                    except TimeoutError:
                        quiet = True

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        try:
            self._ids.update(int(id_) for id_ in payload.split(","))
        except ValueError:
            # '*', or somebody else's words on our channel: to look at everything is right in both cases.
            self._everything = True
        self._arrived.set()

    def _on_termination(self, _connection: object) -> None:
        self._broken = True
        self._arrived.set()
