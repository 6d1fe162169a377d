"""Stores the fire times that did not become a run, and the wishes to send them after all.

Decides that such a time is recorded once, however often it is reported. A wish stays until the fire got its run or was
given up again, so that no crash loses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from scheduler_worker.database.faults import database_faults
from scheduler_worker.database.tables import scheduler_unfired, triggers
from scheduler_worker.domain.trigger import TriggerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfiredFire:
    """One owed fire time without a run.

    Attributes:
        reason: the name of a `domain.outcomes.UnfiredReason`.
        code: the gRPC status that ended it, or None when no call was made.
        message: the service's words, or None.
        attempts: calls that were made.
    """

    trigger_id: int
    key: TriggerKey
    fire_time: datetime
    run_name: str
    reason: str
    code: str | None = None
    message: str | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfiredRecord:
    """An `UnfiredFire` as it is stored, with the database's times of its record and of the wish to send it."""

    id: int
    fire: UnfiredFire
    recorded_at: datetime
    retry_requested_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfiredFilter:
    """Which records are meant: those that match everything given; nothing given means all.

    Attributes:
        ids: ids of records.
        since: fire times at or after this instant.
        until: fire times before this instant.
        waiting: True for those with a wish to be sent, False for those without.
    """

    ids: tuple[int, ...] | None = None
    project: str | None = None
    domain: str | None = None
    task_name: str | None = None
    name: str | None = None
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    waiting: bool | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the filter as conditions on ``scheduler_unfired``."""
        columns = scheduler_unfired.c
        equal = {
            "project": self.project,
            "domain": self.domain,
            "task_name": self.task_name,
            "name": self.name,
            "reason": self.reason,
        }
        conditions = [columns[name] == value for name, value in equal.items() if value is not None]
        if self.ids is not None:
            conditions.append(columns.id.in_(self.ids))
        if self.since is not None:
            conditions.append(columns.fire_time >= self.since)
        if self.until is not None:
            conditions.append(columns.fire_time < self.until)
        if self.waiting is not None:
            conditions.append(columns.retry_requested_at.is_not(None) == self.waiting)
        return conditions


EVERYTHING: Final = UnfiredFilter()

# A fire that was sent on somebody's wish and failed again waits for the next wish.
_RECORD: Final = sa.text(
    """
    INSERT INTO scheduler_unfired (
        trigger_id, project, domain, task_name, name, fire_time, run_name, reason, code, message, attempts, recorded_at
    )
    SELECT *, clock_timestamp() FROM unnest(
        CAST(:trigger_ids AS bigint[]), CAST(:projects AS text[]), CAST(:domains AS text[]),
        CAST(:task_names AS text[]), CAST(:names AS text[]), CAST(:fire_times AS timestamptz[]),
        CAST(:run_names AS text[]), CAST(:reasons AS text[]), CAST(:codes AS text[]), CAST(:messages AS text[]),
        CAST(:attempts AS integer[])
    )
    ON CONFLICT (trigger_id, fire_time) DO UPDATE SET
        run_name = excluded.run_name, reason = excluded.reason, code = excluded.code, message = excluded.message,
        attempts = excluded.attempts, recorded_at = excluded.recorded_at, retry_requested_at = NULL
    """
)
_RESOLVE: Final = sa.text(
    """
    DELETE FROM scheduler_unfired
    USING unnest(CAST(:trigger_ids AS bigint[]), CAST(:fire_times AS timestamptz[])) AS done (trigger_id, fire_time)
    WHERE scheduler_unfired.trigger_id = done.trigger_id AND scheduler_unfired.fire_time = done.fire_time
    """
)


class UnfiredStore:
    """The fire times of one database that did not become runs.

    Every method raises DatabaseUnavailableError when Postgres does not answer, or not in time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def record(self, fires: Sequence[UnfiredFire]) -> None:
        """Record `fires`; one that is recorded already takes the new reason, and its wish is done with."""
        with database_faults("recording unfired fires"):
            async with self._engine.begin() as connection:
                await record_unfired(connection, fires)

    async def list(self, filter_: UnfiredFilter = EVERYTHING, *, limit: int = 100) -> Sequence[UnfiredRecord]:
        """Return at most `limit` records that match, newest fire time first."""
        order = (scheduler_unfired.c.fire_time.desc(), scheduler_unfired.c.id.desc())
        statement = sa.select(scheduler_unfired).where(*filter_.conditions()).order_by(*order).limit(limit)
        return await self._records(statement)

    async def count(self, filter_: UnfiredFilter = EVERYTHING) -> int:
        """Return how many records match."""
        statement = sa.select(sa.func.count()).select_from(scheduler_unfired).where(*filter_.conditions())
        with database_faults("counting unfired fires"):
            async with self._engine.connect() as connection:
                return int((await connection.execute(statement)).scalar_one())

    async def request_retry(self, filter_: UnfiredFilter) -> int:
        """Ask for the records that match to be sent, and return how many are newly asked for."""
        statement = (
            sa.update(scheduler_unfired)
            .where(*filter_.conditions(), scheduler_unfired.c.retry_requested_at.is_(None))
            .values(retry_requested_at=sa.func.clock_timestamp())
        )
        return await self._changed("asking for unfired fires", statement)

    async def take_retries(self, limit: int) -> Sequence[UnfiredFire]:
        """Return at most `limit` fires that somebody asked for and that can be sent, longest asked for first.

        A fire of a trigger that is paused or deleted stays behind until the trigger is active. What is returned is
        returned again until it is resolved or recorded anew.
        """
        statement = (
            sa.select(scheduler_unfired)
            .join(triggers, triggers.c.id == scheduler_unfired.c.trigger_id)
            .where(
                scheduler_unfired.c.retry_requested_at.is_not(None),
                triggers.c.active,
                triggers.c.deleted_at.is_(None),
                triggers.c.automation_type == "TYPE_SCHEDULE",
            )
            .order_by(scheduler_unfired.c.retry_requested_at, scheduler_unfired.c.fire_time, scheduler_unfired.c.id)
            .limit(limit)
        )
        return [record.fire for record in await self._records(statement)]

    async def resolve(self, done: Sequence[tuple[int, datetime]]) -> None:
        """Delete the records of these (trigger id, fire time): they have their run now."""
        with database_faults("resolving unfired fires"):
            async with self._engine.begin() as connection:
                await resolve_unfired(connection, done)

    async def prune(self, older_than: datetime) -> int:
        """Delete records of which nothing was heard since `older_than`, and return how many."""
        columns = scheduler_unfired.c
        statement = sa.delete(scheduler_unfired).where(
            columns.recorded_at < older_than,
            sa.or_(columns.retry_requested_at.is_(None), columns.retry_requested_at < older_than),
        )
        return await self._changed("pruning unfired fires", statement)

    async def _records(self, statement: sa.Select[Any]) -> Sequence[UnfiredRecord]:
        with database_faults("reading unfired fires"):
            async with self._engine.connect() as connection:
                return [_record(row) for row in (await connection.execute(statement)).mappings()]

    async def _changed(self, doing: str, statement: sa.Update | sa.Delete) -> int:
        with database_faults(doing):
            async with self._engine.begin() as connection:
                return (await connection.execute(statement)).rowcount


async def record_unfired(connection: AsyncConnection, fires: Sequence[UnfiredFire]) -> None:
    """Record `fires` within the connection's transaction."""
    # Once per time, as the statement demands, and in one order, so that two writers never wait in a circle.
    newest = {(fire.trigger_id, fire.fire_time): fire for fire in fires}
    rows = [newest[place] for place in sorted(newest)]
    if not rows:
        return
    columns = {
        "trigger_ids": [fire.trigger_id for fire in rows],
        "projects": [fire.key.project for fire in rows],
        "domains": [fire.key.domain for fire in rows],
        "task_names": [fire.key.task_name for fire in rows],
        "names": [fire.key.name for fire in rows],
        "fire_times": [fire.fire_time for fire in rows],
        "run_names": [fire.run_name for fire in rows],
        "reasons": [str(fire.reason) for fire in rows],
        "codes": [fire.code for fire in rows],
        # A service's words may hold a zero character, which Postgres has no place for.
        "messages": [fire.message and fire.message.replace("\0", "") for fire in rows],
        "attempts": [fire.attempts for fire in rows],
    }
    await connection.execute(_RECORD, columns)


async def resolve_unfired(connection: AsyncConnection, done: Sequence[tuple[int, datetime]]) -> None:
    """Delete records within the connection's transaction."""
    if done:
        ids, times = [trigger_id for trigger_id, _ in done], [time for _, time in done]
        await connection.execute(_RESOLVE, {"trigger_ids": ids, "fire_times": times})


def _record(row: sa.RowMapping) -> UnfiredRecord:
    fire = UnfiredFire(
        trigger_id=row["trigger_id"],
        key=TriggerKey(row["project"], row["domain"], row["task_name"], row["name"]),
        fire_time=row["fire_time"],
        run_name=row["run_name"],
        reason=row["reason"],
        code=row["code"],
        message=row["message"],
        attempts=row["attempts"],
    )
    return UnfiredRecord(
        id=row["id"], fire=fire, recorded_at=row["recorded_at"], retry_requested_at=row["retry_requested_at"]
    )
