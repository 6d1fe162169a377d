"""Does to the processes what the plan says, one lane after the other's own pace, and notes what was in effect when."""

import asyncio
import contextlib
import random
import signal
from collections.abc import Sequence
from datetime import UTC, datetime

import psutil

from scheduler_worker.errors import DatabaseUnavailableError
from tests.chaos.history import Disturbance
from tests.chaos.plan import Step
from tests.chaos.stage import Stage


class Faults:
    """Applies faults to a stage.

    Attributes:
        disturbances: what was in effect when, with the time it took to put it right.
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._chance = random.Random(f"{seed} targets")
        self.disturbances: list[Disturbance] = []

    async def apply(self, step: Step) -> None:
        """Apply one fault, wait as long as it lasts, and put it right."""
        start = datetime.now(UTC)
        if step.lane == "worker":
            await self._hit_worker(step)
        elif step.lane == "database":
            await self._hit_database(step)
        else:
            await self._hit_service(step)
        self.disturbances.append(Disturbance(lane=step.lane, kind=step.kind, start=start, end=datetime.now(UTC)))

    async def put_everything_right(self) -> None:
        """Take back every fault and start what is not running."""
        self._stage.network.let_through()
        await asyncio.to_thread(self._stage.postgres.start)
        await self._stage.start_service()
        for worker in self._stage.workers:
            worker.thaw()
            worker.look()
            worker.start()

    async def _hit_worker(self, step: Step) -> None:
        worker = self._chance.choice(self._stage.workers)
        if step.kind == "kill":
            worker.kill()
        elif step.kind == "terminate":
            await worker.terminate()
        else:
            worker.freeze()
        await asyncio.sleep(step.lasts)
        worker.thaw()
        worker.start()

    async def _hit_database(self, step: Step) -> None:
        postgres = self._stage.postgres
        if step.kind == "cut connections":
            with contextlib.suppress(DatabaseUnavailableError):  # our own was cut too
                await self._stage.cut_connections()
        elif step.kind == "freeze":
            frozen = self._stage.database_processes()
            _signal_all(frozen, signal.SIGSTOP)
            try:
                await asyncio.sleep(step.lasts)
            finally:
                _signal_all(frozen, signal.SIGCONT)
        else:
            await asyncio.to_thread(postgres.stop if step.kind == "stop" else postgres.kill)
            await asyncio.sleep(step.lasts)
            await asyncio.to_thread(postgres.start)

    async def _hit_service(self, step: Step) -> None:
        stage = self._stage
        if step.kind == "kill":
            stage.service.kill()
            await asyncio.sleep(step.lasts)
            await stage.start_service()
        elif step.kind == "misbehave":
            await stage.misbehave(dict(step.faults))
            await asyncio.sleep(step.lasts)
            await stage.misbehave({})
        elif step.kind == "reset connections":
            stage.network.reset()
        else:
            stage.network.hold_up()
            await asyncio.sleep(step.lasts)
            if step.kind == "cut the network":
                stage.network.reset()
            stage.network.let_through()


def _signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
