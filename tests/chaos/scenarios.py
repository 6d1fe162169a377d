"""Named scenarios, each about one promise, at any size: a backlog, an outage, two workers of which one is killed."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.chaos.checker import Mismatch, check
from tests.chaos.deployments import deploy_since
from tests.chaos.drive import Say, settle, stop
from tests.chaos.history import History
from tests.chaos.plan import Plan, Step, make_plan
from tests.chaos.stage import Stage

BACKLOG_SETTINGS = {"SCHEDULER_MAX_CATCHUP_RUNS_PER_LOOP": "100", "SCHEDULER_RESYNC_INTERVAL": "250ms"}

_LEAST_GAP_SECONDS = 1.0  # between two attempts to connect to a service that is away
_POLL_SECONDS = 0.02


@dataclass(kw_only=True)
class Finding:
    """What a scenario came to; `figures` are for people."""

    mismatches: list[Mismatch]
    figures: dict[str, float] = field(default_factory=dict)


async def backlog(stage: Stage, *, fires: int, restarts: int = 3, say: Say) -> Finding:
    """Have a worker find `fires` owed times, and kill it `restarts` times on the way."""
    minutes = 100
    now = datetime.now(UTC)
    since = now.replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    await deploy_since(stage, "* * * * *", since=since, count=fires // minutes)
    [worker, *_] = stage.workers
    started = time.monotonic()
    for restart in range(restarts):
        worker.start()
        goal = fires * (restart + 1) // (restarts + 1)
        await _until(lambda goal=goal: _runs(stage) >= goal, seconds=60 + fires / 50)  # type: ignore[misc]  # goal of this turn
        worker.kill()
        say(f"killed after {_runs(stage)} runs")
    worker.start()
    history = await settle(stage, datetime.now(UTC), {}, seconds=60 + fires / 50)
    seconds = time.monotonic() - started
    finding = await _checked(stage, history)
    finding.figures |= {"owed": check(history).counts["owed"], "runs": _runs(stage), "seconds": round(seconds, 1)}
    return finding


async def outage(stage: Stage, *, seconds: float, fires_per_minute: int, say: Say) -> Finding:
    """Take the Run Service away for `seconds`, and count who knocks at its port meanwhile."""
    per_second = max(1, round(fires_per_minute / 60))
    await deploy_since(stage, "@every 1s", since=datetime.now(UTC), count=per_second)
    [worker, *_] = stage.workers
    worker.start()
    await _until(lambda: _runs(stage) >= per_second, seconds=30)
    start = datetime.now(UTC)
    stage.service.kill()
    say(f"the service is away for {seconds:.0f} s; {per_second} fires fall due each second")
    await asyncio.sleep(seconds)
    end = datetime.now(UTC)
    await stage.start_service()
    history = await settle(stage, datetime.now(UTC), {}, seconds=60 + seconds)
    settled_after = (datetime.now(UTC) - end).total_seconds()
    finding = await _checked(stage, history)
    knocks = [at for at in stage.network.connected_at if start <= at <= end]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(knocks)]
    finding.figures |= {
        "owed": check(history).counts["owed"],
        "attempts to connect": len(knocks),
        "shortest gap between them, seconds": round(min(gaps, default=seconds), 3),
        "settled after the outage, seconds": round(settled_after, 1),
    }
    if not knocks:
        finding.mismatches.append(Mismatch(kind="no probe", words="nobody looked whether the service is back"))
    if any(gap < _LEAST_GAP_SECONDS for gap in gaps):
        finding.mismatches.append(Mismatch(kind="hammered", words=f"two attempts to connect within {min(gaps)} s"))
    return finding


def two_workers_plan(seed: int, *, seconds: float, triggers: int, kill_every_seconds: float) -> Plan:
    """Return a plan in which nothing happens but that one of the workers is killed, again and again."""
    kills = int(seconds / kill_every_seconds)
    steps = tuple(Step((number + 1) * kill_every_seconds, "worker", "kill", lasts=1.0) for number in range(kills))
    return Plan(seed, make_plan(seed, seconds=0, triggers=triggers).first, steps)


async def _checked(stage: Stage, history: History) -> Finding:
    mismatches = check(history).mismatches
    return Finding(mismatches=mismatches + await stop(stage))


def _runs(stage: Stage) -> int:
    return sum(call.outcome == "created" for call in stage.calls())


async def _until(condition: Callable[[], bool], *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - there is no event across processes
            await asyncio.sleep(_POLL_SECONDS)
