"""A short run of faults by a plan; `python -m tests.chaos` makes long ones."""

import sys

import pytest

from tests.chaos.drive import run_plan
from tests.chaos.plan import make_plan
from tests.chaos.report import explain_mismatches, summary
from tests.chaos.stage import stage

SECONDS = 14.0
TRIGGERS = 60


@pytest.mark.timeout(150)
async def test_every_owed_fire_becomes_exactly_one_run_whatever_breaks() -> None:
    plan = make_plan(34, seconds=SECONDS, triggers=TRIGGERS, pace=3)
    keep: list[bool] = []
    async with stage(workers=2, keep=keep) as opened:
        outcome = await run_plan(opened, plan, say=_say)
        _say(summary(outcome))
        if outcome.verdict.mismatches:
            keep.append(True)
            pytest.fail(f"{explain_mismatches(outcome)}\nlogs and journal: {opened.folder}")
    assert outcome.verdict.counts["runs"] > 2 * TRIGGERS, "hardly anything was due: the run shows nothing"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
