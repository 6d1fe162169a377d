"""From the fire time until all fires of a fleet that is due in one second are in the queue."""

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime

from benchmarks import fleet
from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading
from benchmarks.in_process import running_term, wait_until
from benchmarks.stall import StallProbe

_READY_SECONDS = 0.005


def _measure(bench: Bench) -> Iterator[Reading]:
    at = fleet.time_to_fire(bench.triggers)
    with bench.stack.database(bench.triggers, fleet.due_once(at)) as database, bench.stack.mock() as (mock, _):
        url = bench.stack.postgres.url(database)
        seconds, stall_ms = asyncio.run(_hand_out(url, mock, at, bench.triggers))
    name = f"hand-out, {bench.fleet} due in one second"
    yield Reading(figure=f"{name}, all queued", value=seconds, unit="s", bar=bench.bar(2.5), precise=3)
    yield Reading(figure=f"{name}, longest stall", value=stall_ms, unit="ms", bar=50.0)


async def _hand_out(url: str, mock: str, at: datetime, count: int) -> tuple[float, float]:
    async with running_term(url, mock, held=True, max_queued_fires=str(2 * count)) as term, StallProbe() as probe:
        await wait_until(lambda: not term.progress.pending)
        fleet.must_be_ahead(at)
        await asyncio.sleep(at.timestamp() - time.time() - _READY_SECONDS)
        probe.take_longest_ms()
        await wait_until(lambda: term.queue.live >= count)
        return time.time() - at.timestamp(), probe.take_longest_ms()


HAND_OUT = Family(name="hand-out", measure=_measure)
