"""Stores how far each trigger is settled, and what became of its last fire.

Decides that progress only ever moves forward, whatever order writes arrive in; only the knowledge of a newer revision
takes it back, to where that revision begins. Must never be asked per fire: one statement takes thousands of triggers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from scheduler_worker.database.faults import database_faults
from scheduler_worker.database.tables import scheduler_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressUpdate:
    """What is new of one trigger. Instants are aware.

    Attributes:
        confirmed_through: every owed fire time up to here is settled.
        revision: the newest revision that this takes into account.
        last_fire_time: the latest fire time that got its run since the last update; None when none did, and then the
            stored last run stays.
        last_outcome: the name of a `domain.outcomes.Outcome`.
        last_lateness_ms: milliseconds from fire time to acknowledgement.
    """

    trigger_id: int
    confirmed_through: datetime
    revision: int
    last_fire_time: datetime | None = None
    last_run_name: str | None = None
    last_outcome: str | None = None
    last_lateness_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRow:
    """What is stored of one trigger; `updated_at` is the database's time of the last write."""

    trigger_id: int
    confirmed_through: datetime
    revision: int
    last_fire_time: datetime | None
    last_run_name: str | None
    last_outcome: str | None
    last_lateness_ms: float | None
    updated_at: datetime


# A last run that is not newer stays: a late fire must not hide the live one that came before it.
_UPSERT: Final = sa.text(
    """
    INSERT INTO scheduler_progress AS stored (
        trigger_id, confirmed_through, revision, last_fire_time, last_run_name, last_outcome, last_lateness_ms,
        updated_at
    )
    SELECT *, clock_timestamp() FROM unnest(
        CAST(:ids AS bigint[]), CAST(:confirmed AS timestamptz[]), CAST(:revisions AS bigint[]),
        CAST(:fire_times AS timestamptz[]), CAST(:run_names AS text[]), CAST(:outcomes AS text[]),
        CAST(:latenesses AS double precision[])
    )
    ON CONFLICT (trigger_id) DO UPDATE SET
        confirmed_through = CASE
            WHEN excluded.revision > stored.revision THEN excluded.confirmed_through
            WHEN excluded.revision = stored.revision
                THEN greatest(stored.confirmed_through, excluded.confirmed_through)
            ELSE stored.confirmed_through
        END,
        revision = greatest(stored.revision, excluded.revision),
        (last_fire_time, last_run_name, last_outcome, last_lateness_ms) = (
            SELECT
                CASE WHEN newer THEN excluded.last_fire_time ELSE stored.last_fire_time END,
                CASE WHEN newer THEN excluded.last_run_name ELSE stored.last_run_name END,
                CASE WHEN newer THEN excluded.last_outcome ELSE stored.last_outcome END,
                CASE WHEN newer THEN excluded.last_lateness_ms ELSE stored.last_lateness_ms END
            FROM (SELECT excluded.last_fire_time >= coalesce(stored.last_fire_time, '-infinity') AS newer) AS comparison
        ),
        updated_at = excluded.updated_at
    """
)
_TOUCH: Final = sa.text(
    """
    UPDATE triggers SET triggered_at = fired.time
    FROM unnest(CAST(:ids AS bigint[]), CAST(:fire_times AS timestamptz[])) AS fired (id, time)
    WHERE triggers.id = fired.id AND fired.time > coalesce(triggers.triggered_at, '-infinity')
    """
)


class ProgressStore:
    """The progress of one database's triggers.

    Every method raises DatabaseUnavailableError when Postgres does not answer, or not in time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def write(self, updates: Sequence[ProgressUpdate], *, touch_triggered_at: bool) -> None:
        """Write `updates` in one transaction; see `write_progress`."""
        with database_faults("writing progress"):
            async with self._engine.begin() as connection:
                await write_progress(connection, updates, touch_triggered_at=touch_triggered_at)

    async def for_ids(self, ids: Collection[int]) -> Mapping[int, ProgressRow]:
        """Return what is stored of the triggers `ids`; one without progress is absent."""
        statement = sa.select(scheduler_progress).where(scheduler_progress.c.trigger_id.in_(ids))
        with database_faults("reading progress"):
            async with self._engine.connect() as connection:
                rows = (await connection.execute(statement)).mappings().all()
        return {row["trigger_id"]: ProgressRow(**row) for row in rows}


async def write_progress(
    connection: AsyncConnection, updates: Sequence[ProgressUpdate], *, touch_triggered_at: bool
) -> None:
    """Write `updates` within the connection's transaction. `confirmed_through` never moves back within a revision.

    A newer revision's mark replaces an older one's, and an older one's is passed over: whoever made it did not know
    that other times are owed by then.

    With `touch_triggered_at`, ``triggers.triggered_at`` moves forward to the last fire time as well, so that Flyte's
    own scheduler can take over without firing again.
    """
    # By id, so that two writers never wait for each other in a circle; once per id, as the statement demands.
    newest = sorted(_merged(updates).values(), key=lambda update: update.trigger_id)
    if not newest:
        return
    await connection.execute(_UPSERT, _columns(newest))
    fired = [update for update in newest if update.last_fire_time is not None]
    if touch_triggered_at and fired:
        ids, times = [update.trigger_id for update in fired], [update.last_fire_time for update in fired]
        await connection.execute(_TOUCH, {"ids": ids, "fire_times": times})


def _columns(updates: Sequence[ProgressUpdate]) -> dict[str, list[Any]]:
    return {
        "ids": [update.trigger_id for update in updates],
        "confirmed": [update.confirmed_through for update in updates],
        "revisions": [update.revision for update in updates],
        "fire_times": [update.last_fire_time for update in updates],
        "run_names": [update.last_run_name for update in updates],
        "outcomes": [update.last_outcome for update in updates],
        "latenesses": [update.last_lateness_ms for update in updates],
    }


def _merged(updates: Iterable[ProgressUpdate]) -> dict[int, ProgressUpdate]:
    """Return one update per trigger: of several, the one that is furthest, later ones first."""
    merged: dict[int, ProgressUpdate] = {}
    for update in updates:
        other = merged.get(update.trigger_id)
        if other is None or _reach(update) >= _reach(other):
            merged[update.trigger_id] = update
    return merged


def _reach(update: ProgressUpdate) -> tuple[int, datetime]:
    return update.revision, update.confirmed_through
