"""Writes triggers as Flyte's Run Service does: deploy, activate, deactivate, delete.

Decides what a write changes: one revision more, and a snapshot of it, in one transaction. It must never write a row
that would say the same as before: that would cost a revision, and an activation would forget what the trigger owes.
All times are the database's.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from scheduler_worker.database.faults import database_faults
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.errors import RevisionConflictError, TriggerNotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDefinition:
    """What a deploy says of one trigger.

    Attributes:
        automation_spec: a serialized ``TriggerAutomationSpec`` of TYPE_SCHEDULE.
        spec: a serialized ``TriggerSpec``.
        expected_revision: the revision that the trigger must be at; None for any, or for a new trigger.
    """

    key: TriggerKey
    automation_spec: bytes
    spec: bytes
    task_version: str
    active: bool = True
    description: str | None = None
    expected_revision: int | None = None


class Change(StrEnum):
    """What a write did to a trigger."""

    CREATED = "created"
    UPDATED = "updated"
    RESUMED = "resumed"
    PAUSED = "paused"
    DELETED = "deleted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Written:
    """One trigger after a write."""

    key: TriggerKey
    revision: int
    change: Change


_Write = Callable[[AsyncConnection, TriggerKey, Any], Awaitable[Written | None]]

_STATE: Final = (
    "spec, automation_spec, task_version, active, automation_type, deployed_by, updated_by, deployed_at, updated_at,"
    " triggered_at, deleted_at"
)
_IS_KEY: Final = (
    "triggers.project = :project AND triggers.domain = :domain"
    " AND triggers.task_name = :task_name AND triggers.name = :name"
)


def _with_snapshot(write: str) -> sa.TextClause:
    """Return the statement `write`, which also appends the snapshot and returns the new revision."""
    return sa.text(
        f"WITH written AS ({write} RETURNING triggers.*)"  # noqa: S608 - only constants are filled in
        f" INSERT INTO trigger_revisions (project, domain, task_name, name, revision, {_STATE}, action, created_at)"
        f" SELECT project, domain, task_name, name, latest_revision, {_STATE},"
        " 'TRIGGER_REVISION_ACTION_' || CAST(:action AS text), now()"
        " FROM written RETURNING revision"
    )


_LOCK: Final = sa.text(
    "SELECT latest_revision, active, deleted_at, spec, automation_spec, automation_type, task_version,"  # noqa: S608 - only a constant is filled in
    f" description FROM triggers WHERE {_IS_KEY} FOR UPDATE"
)
_DEPLOY: Final = _with_snapshot(
    """
    INSERT INTO triggers (
        project, domain, task_name, name, spec, automation_spec, automation_type, task_version, active, description,
        deployed_by, updated_by, deployed_at, updated_at
    ) VALUES (
        :project, :domain, :task_name, :name, :spec, :automation_spec, 'TYPE_SCHEDULE', :task_version, :active,
        CAST(:description AS text), CAST(:by AS text), CAST(:by AS text), now(), now()
    )
    ON CONFLICT (project, domain, task_name, name) DO UPDATE SET
        latest_revision = triggers.latest_revision + 1,
        spec = excluded.spec, automation_spec = excluded.automation_spec,
        automation_type = excluded.automation_type, task_version = excluded.task_version,
        active = excluded.active, description = excluded.description, deployed_by = excluded.deployed_by,
        deployed_at = now(), deleted_at = NULL,
        updated_by = CASE WHEN triggers.active = excluded.active THEN triggers.updated_by ELSE excluded.updated_by END,
        updated_at = CASE WHEN triggers.active = excluded.active THEN triggers.updated_at ELSE now() END
    """
)
_SET_ACTIVE: Final = _with_snapshot(
    "UPDATE triggers SET active = :active, latest_revision = latest_revision + 1, updated_at = now(),"  # noqa: S608 - only a constant is filled in
    f" updated_by = CAST(:by AS text) WHERE {_IS_KEY}"
)
_DELETE: Final = _with_snapshot(
    "UPDATE triggers SET active = false, latest_revision = latest_revision + 1, deleted_at = now(),"  # noqa: S608 - only a constant is filled in
    f" updated_by = CAST(:by AS text) WHERE {_IS_KEY}"
)


class TriggerAdmin:
    """Writes the triggers of one database, on behalf of a person.

    Every method writes all it was asked to, or nothing, and raises DatabaseUnavailableError when Postgres does not
    answer, or not in time.
    """

    def __init__(self, engine: AsyncEngine, *, by: str | None = None) -> None:
        """Write to `engine`, with `by` as the name of who did it."""
        self._engine = engine
        self._by = by

    async def apply(self, definitions: Sequence[TriggerDefinition]) -> Sequence[Written]:
        """Deploy `definitions`: new triggers are made, deleted ones revived, and equal ones left alone.

        Raises:
            RevisionConflictError: one is at another revision than its definition expects.
        """
        return await self._write(
            "deploying triggers", [(definition.key, definition) for definition in definitions], self._deploy
        )

    async def set_active(self, keys: Sequence[TriggerKey], *, active: bool) -> Sequence[Written]:
        """Switch triggers on or off. One that is so already is left alone, and owes what it owed.

        Raises:
            TriggerNotFoundError: for all keys without a trigger, or with a deleted one.
        """

        async def switch(connection: AsyncConnection, key: TriggerKey, _: None) -> Written | None:
            before = (await connection.execute(_LOCK, key._asdict())).one_or_none()
            if before is None or before.deleted_at is not None:
                return None
            if before.active == active:
                return Written(key, before.latest_revision, Change.UNCHANGED)
            action, change = ("ACTIVATE", Change.RESUMED) if active else ("DEACTIVATE", Change.PAUSED)
            values = {**key._asdict(), "active": active, "by": self._by, "action": action}
            return Written(key, (await connection.execute(_SET_ACTIVE, values)).scalar_one(), change)

        return await self._write("switching triggers", [(key, None) for key in keys], switch)

    async def delete(self, keys: Sequence[TriggerKey]) -> Sequence[Written]:
        """Delete triggers, softly: a later deploy of the same key revives the row. Raises as `set_active`."""

        async def remove(connection: AsyncConnection, key: TriggerKey, _: None) -> Written | None:
            before = (await connection.execute(_LOCK, key._asdict())).one_or_none()
            if before is None or before.deleted_at is not None:
                return None
            values = {**key._asdict(), "by": self._by, "action": "DELETE"}
            return Written(key, (await connection.execute(_DELETE, values)).scalar_one(), Change.DELETED)

        return await self._write("deleting triggers", [(key, None) for key in keys], remove)

    async def _deploy(
        self, connection: AsyncConnection, key: TriggerKey, definition: TriggerDefinition
    ) -> Written | None:
        before = (await connection.execute(_LOCK, key._asdict())).one_or_none()
        found = None if before is None else before.latest_revision
        if definition.expected_revision is not None and definition.expected_revision != found:
            raise RevisionConflictError(str(key), definition.expected_revision, found)
        if before is not None and _says_the_same(before, definition):
            return Written(key, before.latest_revision, Change.UNCHANGED)
        values = {
            **key._asdict(),
            "spec": definition.spec,
            "automation_spec": definition.automation_spec,
            "task_version": definition.task_version,
            "active": definition.active,
            "description": definition.description,
            "by": self._by,
            "action": "DEPLOY",
        }
        revision = (await connection.execute(_DEPLOY, values)).scalar_one()
        is_new = before is None or before.deleted_at is not None
        return Written(key, revision, Change.CREATED if is_new else Change.UPDATED)

    async def _write(self, doing: str, asked: Sequence[tuple[TriggerKey, Any]], write: _Write) -> Sequence[Written]:
        """Call `write` with each key and its value, in one transaction; it returns None where there is no trigger."""
        written: dict[TriggerKey, Written] = {}
        missing: list[str] = []
        with database_faults(doing):
            async with self._engine.begin() as connection:
                # In one order, so that two writers of the same triggers never wait for each other in a circle.
                for key, what in sorted(asked, key=lambda pair: pair[0]):
                    result = await write(connection, key, what)
                    if result is None:
                        missing.append(str(key))
                    else:
                        written[key] = result
                if missing:
                    raise TriggerNotFoundError(missing)
        return [written[key] for key, _ in asked]


def _says_the_same(before: sa.Row[Any], definition: TriggerDefinition) -> bool:
    return before.deleted_at is None and (
        before.active,
        before.spec,
        before.automation_spec,
        before.automation_type,
        before.task_version,
        before.description or None,
    ) == (
        definition.active,
        definition.spec,
        definition.automation_spec,
        "TYPE_SCHEDULE",
        definition.task_version,
        definition.description or None,
    )
