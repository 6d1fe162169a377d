"""Says what a run came to, and a mismatch in such a form that a person can follow it and run it again."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.chaos.checker import Mismatch
from tests.chaos.drive import Outcome
from tests.chaos.history import History, Key
from tests.chaos.scenarios import Finding

AROUND = timedelta(seconds=10)
SHOWN_IN_FULL = 3


def summary(outcome: Outcome) -> str:
    """Return counts of faults and fires, and how late the runs were."""
    verdict = outcome.verdict
    lines = [f"seed {outcome.plan.seed}: settled {outcome.settled_after_seconds:.1f} s after the last fault"]
    lines += [f"  {name:45} {count:7}" for name, count in sorted(outcome.done.items())]
    lines += [f"  {name:45} {count:7}" for name, count in sorted(verdict.counts.items())]
    late = verdict.lateness_seconds
    if late:
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
        figures = [f"{name} {late[int(share * (len(late) - 1))]:.3f} s" for name, share in shares.items()]
        lines.append(f"  lateness: {', '.join(figures)}, at most {late[-1]:.1f} s")
    lines.append(f"  mismatches: {len(verdict.mismatches)}")
    return "\n".join(lines)


def explain_mismatches(outcome: Outcome) -> str:
    """Return the first mismatches with all that is known around them, and the others by kind."""
    mismatches = outcome.verdict.mismatches
    texts = ["\n".join(_explain(each, outcome.history)) for each in mismatches[:SHOWN_IN_FULL]]
    texts += [f"{each.kind}: {_place(each)} {each.words}" for each in mismatches[SHOWN_IN_FULL : SHOWN_IN_FULL + 20]]
    if len(mismatches) > SHOWN_IN_FULL + 20:
        texts.append(f"... and {len(mismatches) - SHOWN_IN_FULL - 20} more")
    return "\n".join(texts)


def finding(found: Finding) -> str:
    """Return the figures of a scenario, and what was wrong."""
    lines = [f"  {name:45} {figure:9}" for name, figure in found.figures.items()]
    lines += [f"  {each.kind}: {_place(each)} {each.words}" for each in found.mismatches[:20]]
    lines.append(f"  mismatches: {len(found.mismatches)}")
    return "\n".join(lines)


def _explain(mismatch: Mismatch, history: History) -> Iterator[str]:
    yield f"MISMATCH {mismatch.kind}: {_place(mismatch)} {mismatch.words}"
    if mismatch.key is not None:
        yield from _revisions(mismatch.key, history)
        if mismatch.time is not None:
            yield from _around(mismatch.key, mismatch.time, history)


def _revisions(key: Key, history: History) -> Iterator[str]:
    yield "  revisions:"
    for revision in history.revisions.get(key, []):
        write = history.writes.get((key, revision.number))
        known = "" if write is None else f", commit known {write.done_at.isoformat()}, progress {write.had_progress}"
        yield (
            f"    {revision.number} {revision.action} active={revision.active} in force"
            f" {revision.in_force_from.isoformat()}, updated {revision.updated_at.isoformat()}{known},"
            f" spec {revision.automation_spec!r}"
        )


def _around(key: Key, time: datetime, history: History) -> Iterator[str]:
    yield "  journal:"
    for call in history.calls:
        if call.key == key and call.fire_time is not None and abs(call.fire_time - time) <= AROUND:
            yield f"    line {call.line}: {call.fire_time.isoformat()} at {call.received_at.isoformat()} {call.outcome}"
    yield "  unfired:"
    for record in history.unfired:
        if record.key == key and abs(record.fire_time - time) <= AROUND:
            yield f"    {record.fire_time.isoformat()} {record.reason}"
    yield "  marks:"
    for sample in history.samples:
        if key in sample.marks and abs(sample.at - time) <= AROUND:
            mark = sample.marks[key]
            yield f"    at {sample.at.isoformat()} through {mark.through.isoformat()}, revision {mark.revision}"
    yield "  faults:"
    for fault in history.disturbances:
        if fault.start - AROUND <= time <= fault.end + AROUND:
            yield f"    {fault.lane}: {fault.kind} from {fault.start.isoformat()} to {fault.end.isoformat()}"


def _place(mismatch: Mismatch) -> str:
    key = "" if mismatch.key is None else "/".join(mismatch.key)
    return key if mismatch.time is None else f"{key} {mismatch.time.isoformat()}"
