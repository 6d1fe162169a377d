"""A worker that is killed at the worst moments: what it left open becomes one run, started once.

The mock answers OK to a repeated name and starts it again, as Flyte does, so that a second start would show.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from tests.chaos.checker import check
from tests.chaos.deployments import deploy_since, forget_triggers
from tests.chaos.drive import settle
from tests.chaos.history import History
from tests.chaos.process import Process
from tests.chaos.stage import Stage
from tests.chaos.stage import stage as open_stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(60)]

# Little enough for catch-up to take several syncs.
SETTINGS = {"SCHEDULER_MAX_CATCHUP_RUNS_PER_LOOP": "20", "SCHEDULER_RESYNC_INTERVAL": "200ms"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Stage]:
    async with open_stage(workers=2, duplicates="ok", settings=SETTINGS) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stage(opened: Stage) -> AsyncIterator[Stage]:
    """The stage of all tests here, without triggers and workers."""
    yield opened
    for worker in opened.workers:
        worker.kill()
    await opened.misbehave({})
    await forget_triggers(opened)


def one_that_dies(stage: Stage, point: str, count: int = 1) -> Process:
    """Return the first worker's twin, which kills itself at the `count`-th time it comes to `point`."""
    command = (sys.executable, "-m", "tests.chaos.worker_that_dies", point, str(count))
    return replace(stage.workers[0], command=command, output=stage.folder / f"{point} {count}.log")


async def death_of(process: Process) -> None:
    assert process.handle is not None
    code = await asyncio.to_thread(process.handle.wait, 30)
    assert code == -signal.SIGKILL, process.output.read_text()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - there is no event across processes
            await asyncio.sleep(0.01)


async def aftermath(stage: Stage, prefix: str) -> History:
    """Start the worker anew, and return what there is when all that is owed until now is settled."""
    stage.workers[0].start()
    history = await settle(stage, datetime.now(UTC), {}, seconds=20)
    history.calls = [call for call in history.calls if call.key.name.startswith(prefix)]
    assert check(history).mismatches == []
    return history


@pytest.mark.parametrize(
    ("point", "count"),
    [
        pytest.param("before the call", 8, id="before the call"),
        pytest.param("after the answer", 8, id="after the answer and before progress is written"),
        pytest.param("after the answer", 25, id="in mid-batch"),
        pytest.param("before the commit", 1, id="before progress is committed"),
        pytest.param("after the commit", 2, id="after progress is committed"),
    ],
)
async def test_killed_while_firing(stage: Stage, point: str, count: int, request: pytest.FixtureRequest) -> None:
    prefix = f"{request.node.callspec.id}-"
    await deploy_since(stage, "@every 1s", since=datetime.now(UTC), count=20, prefix=prefix)
    worker = one_that_dies(stage, point, count)
    worker.start()
    await death_of(worker)
    assert len((await aftermath(stage, prefix)).calls) >= 20


async def test_killed_after_the_call_and_before_the_answer(stage: Stage) -> None:
    await stage.misbehave({"lost_answer_rate": 1.0, "lost_answer": "silence"})
    await deploy_since(stage, "@every 1s", since=datetime.now(UTC), count=5, prefix="unanswered-")
    stage.workers[0].start()
    await until(lambda: any(call.key.name.startswith("unanswered-") for call in stage.calls()))
    stage.workers[0].kill()
    await stage.misbehave({})
    await aftermath(stage, "unanswered-")


async def test_killed_during_catch_up(stage: Stage) -> None:
    since = datetime.now(UTC) - timedelta(minutes=10)
    await deploy_since(stage, "* * * * *", since=since, count=10, prefix="late-")
    worker = one_that_dies(stage, "catch-up", 50)
    worker.start()
    await death_of(worker)
    assert len((await aftermath(stage, "late-")).calls) >= 100


@pytest.mark.parametrize("point", ["lease acquired", "first load"])
async def test_killed_during_takeover(stage: Stage, point: str) -> None:
    prefix = f"{point}-"
    owner, standby = stage.workers[1], one_that_dies(stage, point)
    await deploy_since(stage, "@every 1s", since=datetime.now(UTC), count=10, prefix=prefix)
    owner.start()
    await stage.owner()
    standby.start()
    await until(lambda: "lease_waiting" in standby.output.read_text())
    owner.kill()
    await death_of(standby)
    assert len((await aftermath(stage, prefix)).calls) >= 10
