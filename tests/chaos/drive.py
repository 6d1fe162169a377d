"""One run of the plan: set up, break, let it settle, and hand over what is left behind."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from scheduler_worker.errors import DatabaseUnavailableError
from tests.chaos.checker import Mismatch, Verdict, check, unsettled
from tests.chaos.faults import Faults
from tests.chaos.history import History, Key, Sample, Write, read_marks, read_revisions, read_unfired
from tests.chaos.people import People
from tests.chaos.plan import LANES, Plan, Step
from tests.chaos.stage import Stage

SAMPLE_SECONDS = 1.0
SETTLE_SECONDS = 90.0
"""Longest wait for the backlog to go after the last fault. Retries wait up to a minute."""

_SETTLE_POLL_SECONDS = 0.3
_HARMLESS_ERRORS = frozenset({"trigger_bad"})

Say = Callable[[str], None]
Writes = dict[tuple[Key, int], Write]


@dataclass(kw_only=True)
class Outcome:
    """What one run came to."""

    plan: Plan
    history: History
    verdict: Verdict
    done: Counter[str] = field(default_factory=Counter)
    settled_after_seconds: float = 0.0


async def run_plan(stage: Stage, plan: Plan, *, say: Say) -> Outcome:
    """Carry out `plan` on a fresh stage, and check what came of it."""
    people = People(stage, datetime.now(UTC))
    faults = Faults(stage, plan.seed)
    samples: list[Sample] = []
    try:
        bad_rows = await people.write_bad_rows()
        half = len(plan.first) // 2
        await people.deploy(dict(enumerate(plan.first[:half])))
        for worker in stage.workers:
            worker.start()
        await stage.owner()
        await people.deploy(dict(enumerate(plan.first[half:], start=half)))
        say(f"{len(plan.first)} triggers and {bad_rows} bad rows are deployed; {len(plan.steps)} steps begin")
        done = await _carry_out(stage, plan, people, faults, samples)
        await faults.put_everything_right()
        settling_since = time.monotonic()
        horizon = datetime.now(UTC)
        say("faults are over; waiting for the backlog to go")
        await settle(stage, horizon, people.writes)
        settled_after = time.monotonic() - settling_since
        wrong = await stop(stage)
    finally:
        await people.close()
    history = await history_of(stage, horizon, people.writes)
    history.disturbances, history.samples = faults.disturbances, samples
    verdict = check(history)
    verdict.mismatches.extend(wrong)
    return Outcome(plan=plan, history=history, verdict=verdict, done=done, settled_after_seconds=settled_after)


async def _carry_out(stage: Stage, plan: Plan, people: People, faults: Faults, samples: list[Sample]) -> Counter[str]:
    """Let every lane do its steps at their times, and look at the marks meanwhile; return how often what was done."""
    done: Counter[str] = Counter()
    started = time.monotonic()

    async def lane(steps: Sequence[Step]) -> None:
        for step in steps:
            await asyncio.sleep(started + step.at - time.monotonic())
            await (people.take(step) if step.lane == "people" else faults.apply(step))
            done[f"{step.lane}: {step.kind}"] += 1

    sampling = asyncio.create_task(_sample(stage, samples))
    try:
        async with asyncio.TaskGroup() as lanes:
            for name in LANES:
                lanes.create_task(lane([step for step in plan.steps if step.lane == name]))
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
    return done


async def _sample(stage: Stage, samples: list[Sample]) -> None:
    while True:
        with contextlib.suppress(DatabaseUnavailableError, TimeoutError):
            async with asyncio.timeout(5), stage.connection() as connection:
                samples.append(await read_marks(connection))
        await asyncio.sleep(SAMPLE_SECONDS)


async def settle(stage: Stage, horizon: datetime, writes: Writes, *, seconds: float = SETTLE_SECONDS) -> History:
    """Wait until everything owed up to `horizon` is settled and marked, or at most `seconds`; return what there is."""
    deadline = time.monotonic() + seconds
    await stage.owner()
    while True:
        history = await history_of(stage, horizon, writes)
        if unsettled(history) == 0 or time.monotonic() > deadline:
            return history
        await asyncio.sleep(_SETTLE_POLL_SECONDS)


async def stop(stage: Stage) -> list[Mismatch]:
    """Stop the workers in good order; return what their exits and logs have to say for themselves."""
    wrong = []
    for worker in stage.workers:
        worker.look()
        await worker.terminate()
        wrong += [
            Mismatch(kind="bad exit", words=f"{worker.name} exited with {code}") for code in worker.left_by_itself
        ]
    for name, event in stage.log_lines():
        level, what = event.get("level"), event.get("event")
        if (level in ("error", "critical") and what not in _HARMLESS_ERRORS) or level == "no log line":
            wrong.append(Mismatch(kind="error in the log", words=f"{name}: {event}"))
    return wrong


async def history_of(stage: Stage, horizon: datetime, writes: Writes) -> History:
    """Return what there is to see now."""
    async with stage.connection() as connection:
        revisions = await read_revisions(connection)
        unfired = await read_unfired(connection)
        marks = await read_marks(connection)
    return History(
        horizon=horizon,
        revisions=revisions,
        calls=await asyncio.to_thread(stage.calls),
        unfired=unfired,
        writes=writes,
        last_marks=marks.marks,
    )
