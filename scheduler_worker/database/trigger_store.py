"""Reads trigger rows and their history.

Decides how they are read: in pages, so that neither memory nor the event loop is held for long, and without a limit on
their number. It must never write, and never decode a spec: bytes go through as they are.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from scheduler_worker.database.faults import database_faults
from scheduler_worker.database.revision_stream import Pairs, stream_revisions
from scheduler_worker.database.tables import scheduler_progress, trigger_revisions, triggers
from scheduler_worker.domain.trigger import TriggerKey

ROWS_PER_PAGE: Final = 500  # some five milliseconds of the event loop
BYTES_PER_PAGE: Final = 16 * 2**20  # of specs: inline inputs may be large

_IS_SCHEDULED: Final = "active AND deleted_at IS NULL AND automation_type = 'TYPE_SCHEDULE'"


class TriggerRow(NamedTuple):
    """A row of ``triggers``, with the worker's progress beside it. Instants are aware, in UTC.

    A named tuple, since all rows are read at a start: a frozen dataclass takes several times as long to make.

    Attributes:
        revision: ``latest_revision``.
        automation_spec: a serialized ``TriggerAutomationSpec``, or None.
        spec: a serialized ``TriggerSpec``.
        confirmed_through: every owed fire time up to here is settled; None while the worker has written nothing. Never
            later than a revision that the writer of the mark did not know.
    """

    id: int
    key: TriggerKey
    revision: int
    automation_spec: bytes | None
    spec: bytes
    active: bool
    automation_type: str
    deployed_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    triggered_at: datetime | None
    confirmed_through: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """A row of ``trigger_revisions``: what a trigger was from one write to the next."""

    revision: int
    automation_spec: bytes | None
    automation_type: str
    active: bool
    deployed_at: datetime
    updated_at: datetime
    deleted_at: datetime | None


def _changed_at(table: sa.FromClause) -> sa.ColumnElement[datetime]:
    """Return when a row or snapshot was written: the latest of its times."""
    return sa.func.greatest(table.c.deployed_at, table.c.updated_at, table.c.deleted_at)


# A worker that had not noticed an edit (the database was away, the process slept) went on by the old schedule, and its
# mark may have gone over times of the new one. Only snapshots tell: a row written by hand may not have moved its times.
_KNOWN, _NEWER = trigger_revisions.alias("known"), trigger_revisions.alias("newer")
_FIRST_UNNOTICED: Final = (
    sa.select(sa.func.min(_changed_at(_NEWER)))
    .where(
        *(_KNOWN.c[part] == triggers.c[part] for part in TriggerKey._fields),
        *(_NEWER.c[part] == triggers.c[part] for part in TriggerKey._fields),
        _KNOWN.c.revision == scheduler_progress.c.revision,
        _NEWER.c.revision > _KNOWN.c.revision,
        _changed_at(_NEWER) > _changed_at(_KNOWN),
    )
    .scalar_subquery()
)
_CONFIRMED_THROUGH: Final = sa.case(
    (
        scheduler_progress.c.revision < triggers.c.latest_revision,
        sa.func.least(scheduler_progress.c.confirmed_through, _FIRST_UNNOTICED),
    ),
    else_=scheduler_progress.c.confirmed_through,
)

ROW_COLUMNS: Final = (
    triggers.c.id,
    triggers.c.project,
    triggers.c.domain,
    triggers.c.task_name,
    triggers.c.name,
    triggers.c.latest_revision,
    triggers.c.automation_spec,
    triggers.c.spec,
    triggers.c.active,
    triggers.c.automation_type,
    triggers.c.deployed_at,
    triggers.c.updated_at,
    triggers.c.deleted_at,
    triggers.c.triggered_at,
    _CONFIRMED_THROUGH.label("confirmed_through"),
)
WITH_PROGRESS: Final = triggers.outerjoin(scheduler_progress, scheduler_progress.c.trigger_id == triggers.c.id)

_CLOCK: Final = sa.text("SELECT clock_timestamp()")

# Of each trigger: the newest revision in force at the given instant, and all later ones.
_HISTORY: Final = sa.text(
    """
    SELECT r.project, r.domain, r.task_name, r.name, r.revision, r.automation_spec, r.automation_type, r.active,
        r.deployed_at, r.updated_at, r.deleted_at
    FROM unnest(
        CAST(:projects AS text[]), CAST(:domains AS text[]), CAST(:task_names AS text[]), CAST(:names AS text[]),
        CAST(:instants AS timestamptz[])
    ) AS asked (project, domain, task_name, name, instant)
    CROSS JOIN LATERAL (
        SELECT max(revision) AS revision FROM trigger_revisions
        WHERE (project, domain, task_name, name) = (asked.project, asked.domain, asked.task_name, asked.name)
            AND greatest(deployed_at, updated_at, deleted_at) <= asked.instant
    ) AS first
    JOIN trigger_revisions AS r
        ON (r.project, r.domain, r.task_name, r.name) = (asked.project, asked.domain, asked.task_name, asked.name)
        AND r.revision >= coalesce(first.revision, 0)
    ORDER BY r.project, r.domain, r.task_name, r.name, r.revision
    """
)


class TriggerStore:
    """The triggers of one database.

    Every method raises DatabaseUnavailableError when Postgres does not answer, or not in time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        # Single statements that only read: a transaction around each would double the round trips.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")

    async def clock(self) -> datetime:
        """Return the database's time, aware, in UTC."""
        with database_faults("reading the database's clock"):
            async with self._engine.connect() as connection:
                now: datetime = (await connection.execute(_CLOCK)).scalar_one()
                return now

    async def revisions(self, take: Callable[[Pairs], None]) -> None:
        """Give `take` the (id, latest revision) of every trigger that asks for fire times, in parts, in any order."""
        async with self._connection("reading revisions") as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            await stream_revisions(driver, _IS_SCHEDULED, take)

    async def active_rows(self) -> AsyncIterator[Sequence[TriggerRow]]:
        """Yield pages of every trigger that asks for fire times, whole, by id."""
        async with self._connection("reading triggers") as connection:
            page = asyncio.create_task(_active_rows_after(connection, 0))
            try:
                while rows := await page:
                    # The server makes the next one while this one is worked on.
                    page = asyncio.create_task(_active_rows_after(connection, rows[-1].id))
                    yield rows
            finally:
                page.cancel()
                await asyncio.gather(page, return_exceptions=True)

    async def rows_by_id(self, ids: Collection[int]) -> Sequence[TriggerRow]:
        """Return the rows in whatever state they are, by id; one that is gone is absent.

        Ask for a few thousand at a time: all come at once.
        """
        return await self._rows(_ROWS.where(triggers.c.id == sa.any_(sa.bindparam("ids", sorted(ids), _BIGINTS))))

    async def rows_by_key(self, keys: Collection[TriggerKey]) -> Sequence[TriggerRow]:
        """Return the rows in whatever state they are, by id; one that is gone is absent."""
        key = sa.tuple_(triggers.c.project, triggers.c.domain, triggers.c.task_name, triggers.c.name)
        return await self._rows(_ROWS.where(key.in_([tuple(each) for each in keys])))

    async def ended(self, since: datetime | None) -> Sequence[TriggerRow]:
        """Return triggers that no longer ask for fire times and may have left some open.

        They changed after what is confirmed of them or, with nothing confirmed, after `since`; when that is None, those
        with nothing confirmed are left out.
        """
        settled_through = sa.func.coalesce(_CONFIRMED_THROUGH, sa.bindparam("since", since, sa.DateTime(timezone=True)))
        may_have_been_scheduled = sa.or_(
            triggers.c.automation_type == "TYPE_SCHEDULE",
            triggers.c.latest_revision > 1,
        )
        return await self._rows(
            _ROWS.where(
                sa.text(f"NOT ({_IS_SCHEDULED})"),
                _changed_at(triggers) > settled_through,
                may_have_been_scheduled,
            )
        )

    async def history(self, since: Mapping[TriggerKey, datetime]) -> Mapping[TriggerKey, Sequence[RevisionRow]]:
        """Return of each trigger the revision in force at the given instant and all later ones, oldest first.

        A revision is in force from the latest of its times. A trigger without any snapshot is absent.
        """
        columns = list(zip(*since, strict=True)) if since else [(), (), (), ()]
        names = ("projects", "domains", "task_names", "names")
        asked: dict[str, Any] = {name: list(column) for name, column in zip(names, columns, strict=True)}
        history: dict[TriggerKey, list[RevisionRow]] = {}
        with database_faults("reading revisions of triggers"):
            async with self._engine.connect() as connection:
                rows = (await connection.execute(_HISTORY, {**asked, "instants": list(since.values())})).all()
        for project, domain, task_name, name, *state in rows:
            revision, automation_spec, automation_type, active, deployed_at, updated_at, deleted_at = state
            history.setdefault(TriggerKey(project, domain, task_name, name), []).append(
                RevisionRow(
                    revision=revision,
                    automation_spec=automation_spec,
                    automation_type=automation_type,
                    active=active,
                    deployed_at=deployed_at,
                    updated_at=updated_at,
                    deleted_at=deleted_at,
                )
            )
        return history

    async def _rows(self, statement: sa.Select[Any]) -> Sequence[TriggerRow]:
        async with self._connection("reading triggers") as connection:
            return [trigger_row(row) for row in (await connection.execute(statement)).all()]

    @asynccontextmanager
    async def _connection(self, doing: str) -> AsyncIterator[AsyncConnection]:
        with database_faults(doing):
            async with self._engine.connect() as connection:
                yield connection


async def _active_rows_after(connection: AsyncConnection, after: int) -> Sequence[TriggerRow]:
    limits = {"after": after, "rows": ROWS_PER_PAGE, "bytes": BYTES_PER_PAGE}
    return [trigger_row(row) for row in (await connection.execute(_ACTIVE_PAGE, limits)).all()]


_BIGINTS: Final = sa.ARRAY(sa.BigInteger)
_ROWS: Final = sa.select(*ROW_COLUMNS).select_from(WITH_PROGRESS).order_by(triggers.c.id)


def _page_of_active_rows() -> sa.Select[Any]:
    """Return the statement of one page: so many rows, or fewer when their specs are large, but at least one."""
    size = sa.func.octet_length(triggers.c.spec)
    start = sa.bindparam("after", type_=sa.BigInteger)
    # Said of the progress as well: else Postgres may walk all of it from the beginning, for every page.
    same = sa.and_(scheduler_progress.c.trigger_id == triggers.c.id, scheduler_progress.c.trigger_id > start)
    page = (
        sa.select(*ROW_COLUMNS, size.label("size"), sa.func.sum(size).over(order_by=triggers.c.id).label("so_far"))
        .select_from(triggers.outerjoin(scheduler_progress, same))
        .where(triggers.c.id > start, sa.text(_IS_SCHEDULED))
        .order_by(triggers.c.id)
        .limit(sa.bindparam("rows", type_=sa.BigInteger))
        .subquery()
    )
    columns = [page.c[column.name] for column in ROW_COLUMNS]
    has_room = page.c.so_far - page.c.size < sa.bindparam("bytes", type_=sa.BigInteger)
    return sa.select(*columns).where(has_room).order_by(page.c.id)


_ACTIVE_PAGE: Final = _page_of_active_rows()


def trigger_row(row: Sequence[Any]) -> TriggerRow:
    """Build a `TriggerRow` from the values of `ROW_COLUMNS`, in their order."""
    # A hundred thousand triggers have a handful of projects and domains: one string of each is enough.
    key = TriggerKey(sys.intern(row[1]), sys.intern(row[2]), row[3], row[4])
    return TriggerRow(row[0], key, *row[5:])
