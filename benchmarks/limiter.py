"""How exactly the executor keeps to its rate and its burst, seen where calls leave it."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta

from benchmarks import fleet
from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading
from benchmarks.in_process import running_term, wait_until
from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.client import CreateRunAnswer, RunServiceClient

_RATES = (10, 100, 1_000)
_BURST = 20
_STRETCH_SECONDS = 30
_QUICK_STRETCH_SECONDS = 5
_APART = timedelta(seconds=3)
"""Between the beginnings of two stretches that go together: taking in fires of one would delay the other's burst."""


class _NotingClient(RunServiceClient):
    """Notes when each call leaves, by the event loop's clock, and makes it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.left_at: list[float] = []

    async def create_run(self, request: workflow_pb2.CreateRunRequest, *, timeout_seconds: float) -> CreateRunAnswer:
        self.left_at.append(asyncio.get_running_loop().time())
        return await super().create_run(request, timeout_seconds=timeout_seconds)


def _measure(bench: Bench) -> Iterator[Reading]:
    stretch_seconds = _QUICK_STRETCH_SECONDS if bench.quick else _STRETCH_SECONDS
    # The slow ones disturb nobody and go together.
    for rates in (_RATES[:-1], _RATES[-1:]):
        for rate, left_at in zip(rates, _calls(bench, rates, stretch_seconds), strict=True):
            steady = left_at[_BURST:]
            reached = (len(steady) - 1) / (steady[-1] - steady[0])
            yield Reading(
                figure=f"limiter, {rate:,} per second, off by",
                value=abs(reached / rate - 1) * 100,
                unit="%",
                bar=1.0,
                precise=3,
            )
            if rate == _RATES[0]:
                # Until half of the time that the next call has to wait.
                burst = sum(1 for time in left_at if time < left_at[0] + 0.5 / rate)
                yield Reading(
                    figure=f"limiter, burst of {_BURST}, off by", value=abs(burst - _BURST), unit="calls", bar=0.0
                )


def _calls(bench: Bench, rates: Sequence[int], stretch_seconds: int) -> list[list[float]]:
    """Return for each rate when the calls left, in order."""
    fires = [_BURST + rate * stretch_seconds for rate in rates]
    first = fleet.time_to_fire(sum(fires))
    ats = [first + number * _APART for number in range(len(rates))]
    with ExitStack() as stack:
        mock, _ = stack.enter_context(bench.stack.mock())
        databases = [
            stack.enter_context(bench.stack.database(count, fleet.due_once(at)))
            for count, at in zip(fires, ats, strict=True)
        ]
        urls = [bench.stack.postgres.url(database) for database in databases]
        return asyncio.run(_all_calls(urls, mock, rates, fires, ats))


async def _all_calls(
    urls: Sequence[str], mock: str, rates: Sequence[int], fires: Sequence[int], ats: Sequence[datetime]
) -> list[list[float]]:
    return await asyncio.gather(
        *(_calls_at(url, mock, rate, count, at) for url, rate, count, at in zip(urls, rates, fires, ats, strict=True))
    )


async def _calls_at(url: str, mock: str, rate: int, fires: int, at: datetime) -> list[float]:
    client = _NotingClient(mock)
    async with running_term(url, mock, client=client, execution_qps=str(rate), execution_burst=str(_BURST)):
        fleet.must_be_ahead(at)
        await wait_until(lambda: len(client.left_at) >= fires)
    return client.left_at


LIMITER = Family(name="limiter", measure=_measure)
