"""`python -m tests.chaos`: break things by a seeded plan and check that every owed fire became exactly one run."""

import argparse
import asyncio
import sys
from pathlib import Path

from tests.chaos.drive import run_plan
from tests.chaos.plan import Plan, make_plan
from tests.chaos.report import explain_mismatches, summary
from tests.chaos.stage import stage


def main() -> int:
    """Run the command line; return 1 on a mismatch."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the plan is a function of it")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--triggers", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--pace", type=float, default=1.0, help="2 has twice as many faults per minute")
    parser.add_argument("--duplicates", choices=("reject", "ok"), default="reject", help="what a repeat is answered")
    parser.add_argument("--plan-only", action="store_true", help="print the plan and end")
    options = parser.parse_args()
    plan = make_plan(
        options.seed,
        seconds=options.minutes * 60,
        triggers=options.triggers,
        pace=options.pace,
        doubles_count=options.duplicates == "ok",
    )
    _say("\n".join(str(step) for step in plan.steps if options.plan_only or step.lane != "people"))
    if options.plan_only:
        return 0
    return asyncio.run(_run(plan, options.workers, options.duplicates))


async def _run(plan: Plan, workers: int, duplicates: str) -> int:
    keep: list[bool] = []
    async with stage(workers=workers, duplicates=duplicates, keep=keep) as opened:
        outcome = await run_plan(opened, plan, say=_say)
        _say(summary(outcome))
        if not outcome.verdict.mismatches:
            return 0
        keep.append(True)
        _say(explain_mismatches(outcome))
        _say(f"logs and journal: {Path(opened.folder)}; run it again: {' '.join(sys.orig_argv[1:])}")
        return 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
