"""Matches what happened against what was owed, and names every difference.

Sees only what an outsider sees: snapshots, the mock's journal, records of unfired times, stored marks. Two things can't
be told apart from outside and are allowed, each within limits: a call decided just before a revision was committed may
arrive after it, and a trigger that was switched off before any worker stored progress of it leaves no records behind.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from tests.chaos.history import Call, Disturbance, History, Key, Mark, Revision, Unfired
from tests.chaos.oracle import Owed, owed_times, run_name, would_fire

NOTICED_WITHIN = timedelta(seconds=2)
"""Time from a commit until no fire of the revision before is sent any more, as long as the database answers. A check of
the triggers that failed lets calls go ahead for a second, and a busy host may take another."""

RECOVERED_WITHIN = timedelta(seconds=4)
"""Time after a fault until the worker is up to date: it has to notice, reconnect and read."""

PERMANENT_CODES = frozenset({"INVALID_ARGUMENT", "UNIMPLEMENTED", "OUT_OF_RANGE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One broken promise: what kind, of which trigger and fire time, in words."""

    kind: str
    words: str
    key: Key | None = None
    time: datetime | None = None


@dataclass(kw_only=True)
class Verdict:
    """What the check found.

    Attributes:
        counts: owed times by what became of them, and what was allowed.
        lateness_seconds: received minus fire time of every run that was owed, sorted.
    """

    mismatches: list[Mismatch] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lateness_seconds: list[float] = field(default_factory=list)


def check(history: History) -> Verdict:
    """Return every difference between `history` and what it should have been, worst first."""
    return _Check(history).verdict()


def unsettled(history: History) -> int:
    """Return how much is still to be done: owed times without run and record, and marks that are behind."""
    check = _Check(history)
    return sum(1 for _ in check.lost(Counter())) + sum(1 for _ in check.marks_behind())


class _Check:
    def __init__(self, history: History) -> None:
        self.history = history
        self.runs: dict[tuple[Key, datetime], list[Call]] = {}
        self.attempts: dict[tuple[Key, datetime], list[Call]] = {}
        for call in history.calls:
            if call.fire_time is not None:
                place = (call.key, call.fire_time)
                self.attempts.setdefault(place, []).append(call)
                if call.outcome == "created":
                    self.runs.setdefault(place, []).append(call)
        self.records = {(record.key, record.fire_time): record for record in history.unfired}
        latest = max([history.horizon, *(time for _, time in self.attempts), *(time for _, time in self.records)])
        self.owed: dict[Key, dict[datetime, Owed]] = {
            key: {one.time: one for one in owed_times(revisions, latest)}
            for key, revisions in history.revisions.items()
        }

    def verdict(self) -> Verdict:
        verdict = Verdict()
        for find in (
            self._doubled,
            self.lost,
            self._unowed,
            self._badly_named,
            self._wrong_records,
            self._wrong_marks,
        ):
            verdict.mismatches.extend(find(verdict.counts))
        verdict.lateness_seconds = sorted(
            (calls[0].received_at - time).total_seconds()
            for (key, time), calls in self.runs.items()
            if time in self.owed.get(key, {})
        )
        return verdict

    # -- runs ------------------------------------------------------------------------------------------------------

    def _doubled(self, counts: Counter[str]) -> Iterator[Mismatch]:
        counts["calls"] = len(self.history.calls)
        counts["runs"] = len(self.runs)
        for (key, time), calls in self.runs.items():
            if len(calls) > 1:
                yield Mismatch(kind="doubled", words=f"the run was started {len(calls)} times", key=key, time=time)

    def lost(self, counts: Counter[str]) -> Iterator[Mismatch]:
        """Yield the owed times up to the horizon that have neither a run nor a record."""
        for key, owed in self.owed.items():
            for time, one in owed.items():
                if time > self.history.horizon:
                    continue
                counts["owed"] += 1
                if (key, time) in self.runs or (key, time) in self.records:
                    continue
                if self._may_lack_record(key, one):
                    counts["allowed: switched off before it was known"] += 1
                    continue
                yield Mismatch(
                    kind="lost", words=f"owed by revision {one.revision}: no run and no record", key=key, time=time
                )

    def _unowed(self, counts: Counter[str]) -> Iterator[Mismatch]:
        for (key, time), calls in self.attempts.items():
            owed = self.owed.get(key, {}).get(time)
            if owed is None:
                if self._raced(key, time):
                    counts["allowed: sent while a revision was committed"] += 1
                else:
                    yield Mismatch(
                        kind="unowed", words="sent, but no schedule in force owes this time", key=key, time=time
                    )
            elif owed.ended_by is not None:
                until = self._decided_until(key, owed.ended_by)
                if any(call.received_at > until for call in calls):
                    words = f"sent after {owed.forfeit} by revision {owed.ended_by}, noticed at the latest {until}"
                    yield Mismatch(kind="sent after its end", words=words, key=key, time=time)

    def _badly_named(self, _: Counter[str]) -> Iterator[Mismatch]:
        for call in self.history.calls:
            if call.fire_time is None:
                yield Mismatch(
                    kind="bad request", words=f"journal line {call.line} has no run_start_time", key=call.key
                )
            elif call.run_name != (name := run_name(call.key, call.fire_time)):
                words = f"journal line {call.line} names it {call.run_name}, not {name}"
                yield Mismatch(kind="bad name", words=words, key=call.key, time=call.fire_time)

    # -- records and marks -----------------------------------------------------------------------------------------

    def _wrong_records(self, counts: Counter[str]) -> Iterator[Mismatch]:
        for (key, time), record in self.records.items():
            counts[f"unfired: {record.reason}"] += 1
            fault = self._fault_of(record)
            if fault is not None:
                yield Mismatch(kind="wrong record", words=f"recorded as {record.reason}, {fault}", key=key, time=time)

    def _fault_of(self, record: Unfired) -> str | None:
        place = (record.key, record.fire_time)
        owed = self.owed.get(record.key, {}).get(record.fire_time)
        if owed is None:
            return "but it was never owed"
        if record.run_name != run_name(*place):
            return f"with the run name {record.run_name}"
        if record.reason == "permanent_error":
            if not any(call.outcome in PERMANENT_CODES for call in self.attempts.get(place, [])):
                return "but the service never refused it"
            return "but it has a run" if place in self.runs else None
        if owed.ended_by is None or record.reason != owed.forfeit:
            return f"but it was not {record.reason}" if owed.forfeit is None else f"but it was {owed.forfeit}"
        # A call whose answer was lost may have made the run; then the trigger ended, and nobody may ask any more.
        return None

    def _wrong_marks(self, _: Counter[str]) -> Iterator[Mismatch]:
        before: dict[Key, datetime] = {}
        for sample in self.history.samples:
            for key, stored in sample.marks.items():
                mark = self._counts_up_to(key, stored)
                floor = before.get(key, mark)
                if mark < floor:
                    yield Mismatch(kind="mark went back", words=f"from {floor} to {mark} before {sample.at}", key=key)
                for time in self._newly_marked(key, floor if key in before else None, mark):
                    if not self._was_settled(key, time, sample.at):
                        words = f"confirmed_through was {mark} at {sample.at}, before it was settled"
                        yield Mismatch(kind="mark ran ahead", words=words, key=key, time=time)
                before[key] = mark
        yield from self.marks_behind()

    def marks_behind(self) -> Iterator[Mismatch]:
        """Yield the last marks that do not cover what is settled."""
        for key, stored in self.history.last_marks.items():
            mark = self._counts_up_to(key, stored)
            behind = [time for time in self.owed.get(key, {}) if mark < time <= self.history.horizon]
            if behind:
                words = f"confirmed_through is {mark} at the end, though all later times are settled"
                yield Mismatch(kind="mark stands still", words=words, key=key, time=min(behind))

    def _counts_up_to(self, key: Key, mark: Mark) -> datetime:
        """Return the mark, or the first revision that whoever made it did not know, if that is earlier."""
        unknown = [each.in_force_from for each in self.history.revisions.get(key, []) if each.number > mark.revision]
        return min([mark.through, *unknown])

    def _newly_marked(self, key: Key, after: datetime | None, through: datetime) -> Iterator[datetime]:
        for time in self.owed.get(key, {}):
            if (after is None or after < time) and time <= through:
                yield time

    def _was_settled(self, key: Key, time: datetime, at: datetime) -> bool:
        if (key, time) in self.records or self._may_lack_record(key, self.owed[key][time]):
            return True
        return any(call.received_at <= at for call in self.runs.get((key, time), []))

    # -- what is allowed -------------------------------------------------------------------------------------------

    def _may_lack_record(self, key: Key, owed: Owed) -> bool:
        """Say whether the trigger was switched off before any worker had stored progress of it.

        A worker that comes later can't tell such a trigger from one that never asked for anything.
        """
        if owed.ended_by is None:
            return False
        write = self.history.writes.get((key, owed.ended_by))
        return write is not None and not write.had_progress

    def _raced(self, key: Key, time: datetime) -> bool:
        """Say whether a revision that ended by then would have owed `time`, and its end was hardly known yet."""
        revisions = self.history.revisions.get(key, [])
        return any(
            would_fire(revision, time) and time <= self._known_by(key, following, lanes=("database",))
            for revision, following in pairwise(revisions)
        )

    def _decided_until(self, key: Key, number: int) -> datetime:
        end = next(revision for revision in self.history.revisions[key] if revision.number == number)
        return self._known_by(key, end, lanes=("database", "worker", "service"))

    def _known_by(self, key: Key, revision: Revision, *, lanes: tuple[str, ...]) -> datetime:
        """Return when a worker must have taken in `revision`, faults of `lanes` considered."""
        write = self.history.writes.get((key, revision.number))
        known = (revision.in_force_from if write is None else write.done_at) + NOTICED_WITHIN
        for fault in self._in_order():
            if fault.lane in lanes and fault.start <= known <= fault.end + RECOVERED_WITHIN:
                known = fault.end + RECOVERED_WITHIN
        return known

    def _in_order(self) -> list[Disturbance]:
        return sorted(self.history.disturbances, key=lambda fault: fault.start)
