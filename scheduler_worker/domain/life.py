"""A trigger's life as spans: which schedule was in force when, and what became of the fire times it produced.

Edits and pauses are not retroactive: each revision owes the times of its own span, and nothing else. A span that ended
in a pause or a deletion owes nothing any more; the times it left open are forfeited: a reason, not a silence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from scheduler_worker.domain.schedule import Schedule

THE_END = datetime.max.replace(tzinfo=UTC)
"""Later than every fire time: where a span ends that is still in force."""


class Forfeit(StrEnum):
    """Why the open fire times of a span will not become runs."""

    PAUSED = "paused"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One write of a trigger row, reduced to what decides about fire times.

    Attributes:
        number: ``trigger_revisions.revision``.
        in_force_from: the instant of the write; the revision owes times strictly later.
        schedule: None when the revision produces no fire times (switched off, no schedule, or a bad one).
        ended_by: set when this revision switched the trigger off; it forfeits what earlier spans left open.
    """

    number: int
    in_force_from: datetime
    schedule: Schedule | None = None
    ended_by: Forfeit | None = None


class Span(NamedTuple):
    """The fire times of `schedule` in (`after`, `until`], owed unless `forfeit` says why not."""

    schedule: Schedule
    after: datetime
    until: datetime = THE_END
    forfeit: Forfeit | None = None

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the span's first fire time strictly later than `instant`, or None."""
        time = self.schedule.next_after(max(instant, self.after))
        return time if time is not None and time <= self.until else None

    def has(self, time: datetime) -> bool:
        """Say whether `time` is one of the span's fire times."""
        return self.after < time <= self.until and self.schedule.next_after(time - _TICK) == time


_TICK = datetime.resolution


def spans_of(revisions: Sequence[Revision], *, baseline: datetime) -> tuple[Span, ...]:
    """Return the spans that can still hold open fire times, oldest first.

    `revisions` are in order of their number, without gaps from the one in force at `baseline` on. Everything up to
    `baseline` is settled. Instants that run backwards between revisions (a database clock that stepped) are taken
    as no later than the revision before them: its span is then empty, never negative.
    """
    spans: list[Span] = []
    until = THE_END
    forfeit: Forfeit | None = None
    for revision in reversed(revisions):
        after = max(revision.in_force_from, baseline)
        if revision.schedule is not None and after < until:
            spans.append(Span(revision.schedule, after, until, forfeit))
        elif revision.ended_by is not None:
            forfeit = revision.ended_by
        until = min(until, after)
        if revision.in_force_from <= baseline:
            break
    spans.reverse()
    return tuple(spans)


def fire_times(spans: Sequence[Span], *, after: datetime, through: datetime) -> Iterator[tuple[datetime, Span]]:
    """Yield each fire time in (`after`, `through`] with its span, oldest first, computing no further than asked."""
    for span in spans:
        if span.after >= through:
            return
        time = span.next_after(after)
        while time is not None and time <= through:
            yield time, span
            time = span.next_after(time)


def latest_fire_time(span: Span, *, after: datetime, through: datetime) -> datetime | None:
    """Return the last fire time of `span` in (`after`, `through`], or None, without walking them all.

    Schedules only answer forwards, so the search looks back by doubling steps until a fire time is in sight; what it
    then walks is what the schedule produced within one such step.
    """
    floor, ceiling = max(after, span.after), min(through, span.until)
    step = _FIRST_LOOK_BACK
    while True:
        start = max(floor, ceiling - step) if ceiling - floor > step else floor
        latest = None
        time = span.next_after(start)
        while time is not None and time <= ceiling:
            latest, time = time, span.next_after(time)
        if latest is not None or start == floor:
            return latest
        step *= 2


_FIRST_LOOK_BACK = 60 * _TICK * 1_000_000
