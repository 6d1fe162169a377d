"""A trigger as people see it: decoded, with its state, its next fire time, or what is wrong with it.

Decides words, and must never decide what the worker does: it asks the same code as the worker.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from scheduler_worker.database.trigger_catalog import TriggerDetails
from scheduler_worker.domain.schedule import Rule, describe, schedule_of
from scheduler_worker.domain.trigger import NO_INPUTS, RunInputs
from scheduler_worker.errors import ScheduleError, SpecError
from scheduler_worker.run_service.codec import decode_automation, decode_inputs


class State(StrEnum):
    """What a trigger is up to."""

    ACTIVE = "active"
    BAD = "bad"
    PAUSED = "paused"
    DELETED = "deleted"
    OTHER = "not scheduled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerView:
    """One trigger, for a table or for JSON.

    Attributes:
        schedule: the schedule in words, also when it can't be used; empty when it can't be read.
        next_fire: the next fire time of an active trigger.
        last_fire: the latest fire time that became a run of this worker.
        fault: what makes the row a bad one.
        inputs: what its runs get, in words.
    """

    project: str
    domain: str
    task_name: str
    name: str
    id: int
    revision: int
    state: State
    schedule: str
    next_fire: datetime | None
    last_fire: datetime | None
    last_run_name: str | None
    last_outcome: str | None
    last_lateness_ms: float | None
    confirmed_through: datetime | None
    fault: str | None
    inputs: str
    task_version: str
    description: str | None
    deployed_at: datetime
    deployed_by: str | None
    updated_at: datetime
    updated_by: str | None
    deleted_at: datetime | None

    def as_mapping(self) -> Mapping[str, Any]:
        """Return the view by field, in order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def view_of(details: TriggerDetails, *, now: datetime) -> TriggerView:
    """Return `details` as people see them at `now`. A bad row is shown with its fault."""
    row = details.row
    rule, next_fire, fault, inputs = _decoded(details, now)
    state = _state(details, fault)
    return TriggerView(
        **row.key._asdict(),
        id=row.id,
        revision=row.revision,
        state=state,
        schedule=describe(rule) if rule is not None else "",
        next_fire=next_fire if state is State.ACTIVE else None,
        last_fire=details.last_fire_time,
        last_run_name=details.last_run_name,
        last_outcome=details.last_outcome,
        last_lateness_ms=details.last_lateness_ms,
        confirmed_through=row.confirmed_through,
        fault=fault if state is State.BAD else None,
        inputs=_in_words(inputs),
        task_version=details.task_version,
        description=details.description,
        deployed_at=row.deployed_at,
        deployed_by=details.deployed_by,
        updated_at=row.updated_at,
        updated_by=details.updated_by,
        deleted_at=row.deleted_at,
    )


def _decoded(details: TriggerDetails, now: datetime) -> tuple[Rule | None, datetime | None, str | None, RunInputs]:
    row, rule = details.row, None
    try:
        rule, kickoff_time_arg = decode_automation(row.automation_spec)
        inputs = decode_inputs(row.spec, kickoff_time_arg)
        next_fire = schedule_of(rule, activated_at=row.updated_at).next_after(now)
    except (SpecError, ScheduleError) as error:
        return rule, None, str(error), NO_INPUTS
    return rule, next_fire, None, inputs


def _state(details: TriggerDetails, fault: str | None) -> State:
    row = details.row
    if row.deleted_at is not None:
        return State.DELETED
    if row.automation_type != "TYPE_SCHEDULE":
        return State.OTHER
    if not row.active:
        return State.PAUSED
    return State.ACTIVE if fault is None else State.BAD


def _in_words(inputs: RunInputs) -> str:
    if inputs.offloaded:
        return "kept in blob storage"
    parts = []
    if inputs.literals is not None:
        parts.append(f"inline, {len(inputs.literals)} bytes")
    if inputs.kickoff_time_arg:
        parts.append(f"fire time as {inputs.kickoff_time_arg}")
    return ", ".join(parts) or "none"
