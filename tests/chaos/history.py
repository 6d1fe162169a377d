"""What is left behind when the dust has settled: revisions, the mock's journal, unfired records, and who did what when.

Reads; must never judge. All instants are aware UTC datetimes.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import asyncpg


class Key(NamedTuple):
    """A trigger."""

    project: str
    domain: str
    task_name: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One row of ``trigger_revisions``."""

    number: int
    action: str
    active: bool
    automation_spec: bytes
    deployed_at: datetime
    updated_at: datetime
    deleted_at: datetime | None

    @property
    def in_force_from(self) -> datetime:
        times = (self.deployed_at, self.updated_at, self.deleted_at)
        return max(time for time in times if time is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One line of the mock's journal."""

    line: int
    received_at: datetime
    key: Key
    run_name: str
    fire_time: datetime | None
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfired:
    """One row of ``scheduler_unfired``."""

    key: Key
    fire_time: datetime
    run_name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """When a revision was asked for and when its commit was known; whether progress was stored before it."""

    asked_at: datetime
    done_at: datetime
    had_progress: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A fault that was in effect from `start` to `end`. `lane` says what it hit: worker, database, service."""

    lane: str
    kind: str
    start: datetime
    end: datetime


class Mark(NamedTuple):
    """How far a trigger is settled, as far as the revisions up to `revision` go."""

    through: datetime
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What ``scheduler_progress`` said when somebody looked."""

    at: datetime
    marks: dict[Key, Mark]


@dataclass(kw_only=True)
class History:
    """Everything that one run of faults left behind.

    Attributes:
        horizon: owed times later than this need not be settled.
        writes: of revisions written during the run, by trigger and revision.
        last_marks: what ``scheduler_progress`` says after the workers had stopped in good order.
    """

    horizon: datetime
    revisions: dict[Key, list[Revision]]
    calls: list[Call]
    unfired: list[Unfired]
    writes: dict[tuple[Key, int], Write] = field(default_factory=dict)
    disturbances: list[Disturbance] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    last_marks: dict[Key, Mark] = field(default_factory=dict)


def read_journal(path: Path) -> list[Call]:
    """Return the journal's whole lines."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_call(number, json.loads(line)) for number, line in enumerate(lines, start=1)]


def _call(number: int, line: dict[str, str | None]) -> Call:
    def text(field: str) -> str:
        value = line[field]
        assert value is not None, f"journal line {number} lacks {field}"
        return value

    start = line["run_start_time"]
    return Call(
        line=number,
        received_at=datetime.fromisoformat(text("received_at")),
        key=Key(text("project"), text("domain"), text("task_name"), text("trigger")),
        run_name=text("run_name"),
        fire_time=None if start is None else datetime.fromisoformat(start),
        outcome=text("outcome"),
    )


async def read_revisions(connection: asyncpg.Connection) -> dict[Key, list[Revision]]:
    """Return all snapshots, oldest first, by trigger."""
    rows = await connection.fetch("SELECT * FROM trigger_revisions ORDER BY project, domain, task_name, name, revision")
    revisions: dict[Key, list[Revision]] = {}
    for row in rows:
        revisions.setdefault(_key(row), []).append(
            Revision(
                number=row["revision"],
                action=row["action"].removeprefix("TRIGGER_REVISION_ACTION_"),
                active=row["active"] and row["automation_type"] == "TYPE_SCHEDULE",
                automation_spec=row["automation_spec"] or b"",
                deployed_at=row["deployed_at"],
                updated_at=row["updated_at"],
                deleted_at=row["deleted_at"],
            )
        )
    return revisions


async def read_unfired(connection: asyncpg.Connection) -> list[Unfired]:
    """Return all records of fire times without a run."""
    rows: Iterable[asyncpg.Record] = await connection.fetch("SELECT * FROM scheduler_unfired ORDER BY fire_time, id")
    return [
        Unfired(key=_key(row), fire_time=row["fire_time"], run_name=row["run_name"], reason=row["reason"])
        for row in rows
    ]


async def read_marks(connection: asyncpg.Connection) -> Sample:
    """Return how far every trigger is settled. The time is taken after the read: what is marked was settled by then."""
    rows: Iterable[asyncpg.Record] = await connection.fetch(
        "SELECT t.project, t.domain, t.task_name, t.name, p.confirmed_through, p.revision"
        " FROM scheduler_progress AS p JOIN triggers AS t ON t.id = p.trigger_id"
    )
    marks = {_key(row): Mark(row["confirmed_through"], row["revision"]) for row in rows}
    return Sample(at=datetime.now(UTC), marks=marks)


def _key(row: asyncpg.Record) -> Key:
    return Key(row["project"], row["domain"], row["task_name"], row["name"])
