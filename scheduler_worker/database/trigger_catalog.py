"""Shows triggers to people: rows in any state, with what became of their last fire.

Decides nothing about triggers, and must never be on the worker's own path: it reads more than a worker needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.faults import database_faults
from scheduler_worker.database.tables import scheduler_progress, triggers
from scheduler_worker.database.trigger_store import ROW_COLUMNS, WITH_PROGRESS, TriggerRow, trigger_row
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.errors import TriggerNotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDetails:
    """A trigger's row with what only people want to know."""

    row: TriggerRow
    task_version: str
    description: str | None
    deployed_by: str | None
    updated_by: str | None
    last_fire_time: datetime | None = None
    last_run_name: str | None = None
    last_outcome: str | None = None
    last_lateness_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFilter:
    """Which triggers are meant: those that match everything given."""

    project: str | None = None
    domain: str | None = None
    task_name: str | None = None
    name: str | None = None
    with_deleted: bool = False


class TriggerCatalog:
    """The triggers of one database.

    Every method raises DatabaseUnavailableError when Postgres does not answer, or not in time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, filter_: TriggerFilter, *, limit: int | None = None) -> Sequence[TriggerDetails]:
        """Return the triggers that match, by key, at most `limit`."""
        columns = triggers.c
        key = (columns.project, columns.domain, columns.task_name, columns.name)
        wanted = (filter_.project, filter_.domain, filter_.task_name, filter_.name)
        conditions = [column == value for column, value in zip(key, wanted, strict=True) if value is not None]
        if not filter_.with_deleted:
            conditions.append(columns.deleted_at.is_(None))
        statement = _DETAILS.where(*conditions).order_by(*key).limit(limit)
        with database_faults("reading triggers"):
            async with self._engine.connect() as connection:
                rows = (await connection.execute(statement)).mappings().all()
        return [_details(row) for row in rows]

    async def show(self, key: TriggerKey) -> TriggerDetails:
        """Return the trigger `key`, deleted or not.

        Raises:
            TriggerNotFoundError: there is none.
        """
        found = await self.find(TriggerFilter(**key._asdict(), with_deleted=True))
        if not found:
            raise TriggerNotFoundError([str(key)])
        return found[0]


_DETAILS: Final = sa.select(
    *ROW_COLUMNS,
    triggers.c.task_version,
    triggers.c.description,
    triggers.c.deployed_by,
    triggers.c.updated_by,
    scheduler_progress.c.last_fire_time,
    scheduler_progress.c.last_run_name,
    scheduler_progress.c.last_outcome,
    scheduler_progress.c.last_lateness_ms,
).select_from(WITH_PROGRESS)


def _details(row: sa.RowMapping) -> TriggerDetails:
    return TriggerDetails(
        row=trigger_row([row[column.name] for column in ROW_COLUMNS]),
        **{name: row[name] for name in _OWN_COLUMNS},
    )


_OWN_COLUMNS: Final = tuple(field.name for field in fields(TriggerDetails) if field.name != "row")
