"""`python -m tests.chaos`: break things by a seeded plan and check that every owed fire became exactly one run."""

import argparse
import asyncio
import signal
import sys

from tests.chaos.drive import run_plan
from tests.chaos.plan import Plan, make_plan
from tests.chaos.report import explain_mismatches, finding, summary
from tests.chaos.scenarios import BACKLOG_SETTINGS, backlog, outage, two_workers_plan
from tests.chaos.stage import Stage, stage


def main() -> int:
    """Run the command line; return 1 on a mismatch."""
    options = _options()
    # As Ctrl-C, so that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    if options.scenario in ("backlog", "outage"):
        return asyncio.run(_scenario(options))
    plan = _plan(options)
    _say("\n".join(str(step) for step in plan.steps if options.plan_only or step.lane != "people"))
    return 0 if options.plan_only else asyncio.run(_run(plan, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the plan is a function of it")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long things break; of an outage, its length")
    parser.add_argument("--triggers", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--kill-every", type=float, metavar="SECONDS", help="kill a worker so often, and no other faults"
    )
    parser.add_argument("--pace", type=float, default=1.0, help="2 has twice as many faults per minute")
    parser.add_argument("--duplicates", choices=("reject", "ok"), default="reject", help="what a repeat is answered")
    parser.add_argument("--plan-only", action="store_true", help="print the plan and end")
    parser.add_argument(
        "--scenario",
        choices=("plan", "backlog", "outage", "two-workers"),
        default="plan",
        help="two-workers is --workers 2 --kill-every 20",
    )
    parser.add_argument("--fires", type=int, default=10_000, help="size of the backlog; of an outage, fires per minute")
    options = parser.parse_args()
    if options.scenario == "two-workers":
        options.workers, options.kill_every = max(2, options.workers), options.kill_every or 20.0
    return options


def _plan(options: argparse.Namespace) -> Plan:
    seconds = options.minutes * 60
    if options.kill_every is not None:
        return two_workers_plan(
            options.seed, seconds=seconds, triggers=options.triggers, kill_every_seconds=options.kill_every
        )
    return make_plan(
        options.seed,
        seconds=seconds,
        triggers=options.triggers,
        pace=options.pace,
        doubles_count=options.duplicates == "ok",
    )


async def _run(plan: Plan, options: argparse.Namespace) -> int:
    keep: list[bool] = []
    async with stage(workers=options.workers, duplicates=options.duplicates, keep=keep) as opened:
        outcome = await run_plan(opened, plan, say=_say)
        _say(summary(outcome))
        if not outcome.verdict.mismatches:
            return 0
        _say(explain_mismatches(outcome))
        return _failed(opened, keep)


async def _scenario(options: argparse.Namespace) -> int:
    keep: list[bool] = []
    settings = BACKLOG_SETTINGS if options.scenario == "backlog" else {}
    async with stage(workers=1, duplicates="ok", settings=settings, keep=keep) as opened:
        if options.scenario == "backlog":
            found = await backlog(opened, fires=options.fires, say=_say)
        else:
            found = await outage(opened, seconds=options.minutes * 60, fires_per_minute=options.fires, say=_say)
        _say(finding(found))
        return _failed(opened, keep) if found.mismatches else 0


def _failed(opened: Stage, keep: list[bool]) -> int:
    keep.append(True)
    _say(f"logs and journal: {opened.folder}; run it again: {' '.join(sys.orig_argv)}")
    return 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
