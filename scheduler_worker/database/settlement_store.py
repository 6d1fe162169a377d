"""Writes down what settled fires: progress, fires that will not become runs, and records that are done with.

Decides that these belong in one transaction. Apart, a crash between them could move the progress over a fire whose
record was never written, and that fire would be dropped in silence.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.faults import database_faults
from scheduler_worker.database.progress_store import ProgressUpdate, write_progress
from scheduler_worker.database.unfired_store import UnfiredFire, record_unfired, resolve_unfired


class SettlementStore:
    """Where settled fires go."""

    def __init__(self, engine: AsyncEngine, *, touch_triggered_at: bool) -> None:
        """Write to `engine`; `touch_triggered_at` as in `write_progress`."""
        self._engine = engine
        self._touch_triggered_at = touch_triggered_at

    async def write(
        self,
        progress: Sequence[ProgressUpdate],
        unfired: Sequence[UnfiredFire] = (),
        resolved: Sequence[tuple[int, datetime]] = (),
    ) -> None:
        """Write progress, record unfired fires, and delete the records of (trigger id, fire time) that have a run now.

        All of it is written, or nothing; writing it again changes nothing.

        Raises:
            DatabaseUnavailableError: Postgres did not answer, or not in time; it may have been written all the same.
        """
        with database_faults("writing progress"):
            async with self._engine.begin() as connection:
                await record_unfired(connection, unfired)
                await resolve_unfired(connection, resolved)
                await write_progress(connection, progress, touch_triggered_at=self._touch_triggered_at)
