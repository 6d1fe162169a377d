"""From rows to triggers: decodes what a row says, and works out from its history which spans can still owe fires.

A bad row is a value here, not an exception: it comes back as a trigger without a schedule, with the fault beside it.
"""

from collections.abc import Sequence
from datetime import datetime

from scheduler_worker.database.trigger_store import RevisionRow, TriggerRow
from scheduler_worker.domain.life import Forfeit, Revision, Span, spans_of
from scheduler_worker.domain.schedule import Schedule, schedule_of
from scheduler_worker.domain.trigger import NO_INPUTS, Trigger
from scheduler_worker.errors import ScheduleError, SpecError
from scheduler_worker.run_service.codec import decode_automation, decode_inputs

SCHEDULE_TYPE = "TYPE_SCHEDULE"
FIRST_REVISION = 1


def is_scheduled(row: TriggerRow | RevisionRow) -> bool:
    """Say whether the row asks for fire times: active, not deleted, and of the schedule type."""
    return row.active and row.deleted_at is None and row.automation_type == SCHEDULE_TYPE


def in_force_from(row: TriggerRow | RevisionRow) -> datetime:
    """Return when this revision was written: the latest of its times.

    A first revision counts from its activation: nothing was in force before it.
    """
    if row.revision == FIRST_REVISION:
        return row.updated_at
    return max(time for time in (row.deployed_at, row.updated_at, row.deleted_at) if time is not None)


def decode(row: TriggerRow) -> tuple[Trigger, str | None]:
    """Return the row's trigger, and the fault if the row asks for fire times but can't have any."""
    schedule: Schedule | None = None
    inputs, fault = NO_INPUTS, None
    if is_scheduled(row):
        try:
            rule, kickoff_time_arg = decode_automation(row.automation_spec)
            inputs = decode_inputs(row.spec, kickoff_time_arg)
            schedule = schedule_of(rule, activated_at=row.updated_at)
        except (SpecError, ScheduleError) as error:
            fault = str(error)
    trigger = Trigger(
        id=row.id,
        key=row.key,
        revision=row.revision,
        in_force_from=in_force_from(row),
        schedule=schedule,
        inputs=inputs,
    )
    return trigger, fault


def baseline(row: TriggerRow) -> datetime:
    """Return the instant up to which nothing of this trigger is owed, as the database tells it.

    Without progress of our own, `triggered_at` stands for what another scheduler has fired before us.
    """
    if row.confirmed_through is not None:
        return row.confirmed_through
    return row.updated_at if row.triggered_at is None else max(row.updated_at, row.triggered_at)


def needs_history(row: TriggerRow, since: datetime) -> bool:
    """Say whether revisions before the row's own can still owe fires later than `since`."""
    return row.revision > FIRST_REVISION and in_force_from(row) > since


def first_unnoticed(trigger: Trigger, history: Sequence[RevisionRow], before: Trigger) -> datetime:
    """Return when the first revision after `before` came into force: `trigger` itself, or one of `history` in between.

    One in between that was written by hand without moving its times does not count.
    """
    between = [in_force_from(row) for row in history if before.revision < row.revision < trigger.revision]
    return min([trigger.in_force_from, *(time for time in between if time > before.in_force_from)])


def life_of(
    trigger: Trigger, row: TriggerRow, history: Sequence[RevisionRow], before: Trigger | None, since: datetime
) -> tuple[Span, ...]:
    """Return the spans of the trigger's life that can still owe fires later than `since`.

    Args:
        trigger: the trigger, decoded from `row`.
        row: what the table holds now.
        history: earlier revisions, oldest first; may lack some or all when a row was written by hand.
        before: the revision that was known here until now. It stands in where `history` does not hold it.
        since: everything up to here is settled.
    """
    if trigger.schedule is not None and not history and before is None:  # as nearly always at a start
        return (Span(trigger.schedule, max(trigger.in_force_from, since)),)
    revisions = [_revision(earlier) for earlier in history if earlier.revision < trigger.revision]
    if before is not None and before.revision < trigger.revision:
        known = {revision.number for revision in revisions}
        if before.revision not in known:
            revisions.append(
                Revision(number=before.revision, in_force_from=before.in_force_from, schedule=before.schedule)
            )
            revisions.sort(key=lambda revision: revision.number)
    current = Revision(
        number=trigger.revision,
        in_force_from=trigger.in_force_from,
        schedule=trigger.schedule,
        ended_by=_ended_by(row),
    )
    return spans_of([*revisions, current], baseline=since)


def _revision(row: RevisionRow) -> Revision:
    schedule = None
    if is_scheduled(row):
        try:
            rule, _ = decode_automation(row.automation_spec)
            schedule = schedule_of(rule, activated_at=row.updated_at)
        except (SpecError, ScheduleError):
            schedule = None  # it was reported while it was the newest one; a bad revision owes nothing
    return Revision(number=row.revision, in_force_from=in_force_from(row), schedule=schedule, ended_by=_ended_by(row))


def _ended_by(row: TriggerRow | RevisionRow) -> Forfeit | None:
    if row.deleted_at is not None:
        return Forfeit.DELETED
    return None if row.active else Forfeit.PAUSED
