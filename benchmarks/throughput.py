"""CreateRun calls per second over a long backlog, beside a bare gRPC client on the same server."""

from collections.abc import Iterator
from statistics import fmean

from benchmarks import fleet
from benchmarks.bare_client import calls_per_second
from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading, percentile

_FIRES = 20_000
_QUICK_FIRES = 6_000
_SLOWEST_CALLS_PER_SECOND = 200
_BAR_SHARE = 0.85

_WARM_UP_SHARE = 0.05
"""Of the fires, the first ones: they leave while the others are still being handed out."""


def _measure(bench: Bench) -> Iterator[Reading]:
    stack = bench.stack
    fires = _QUICK_FIRES if bench.quick else _FIRES
    with stack.mock() as (mock, journal):
        # Before and after: a machine that is shared is not equally fast all the time.
        references = [calls_per_second(mock, fires // 2)]
        journal.clear()
        at = fleet.time_to_fire(fires)
        with stack.database(fires, fleet.due_once(at)) as database:
            with stack.worker(database, mock, execution_qps="unlimited") as worker:
                worker.wait_for_load()
                fleet.must_be_ahead(at)
                timeout_seconds = 60.0 + fires / _SLOWEST_CALLS_PER_SECOND
                worker.wait_until(lambda: journal.count() >= fires, timeout_seconds=timeout_seconds)
            latenesses_ms = stack.latenesses_ms(database, at)
        references.append(calls_per_second(mock, fires // 2))
    reference = fmean(references)
    warm = percentile(latenesses_ms, _WARM_UP_SHARE)
    sustained = (1 - _WARM_UP_SHARE) * fires / (max(latenesses_ms) - warm) * 1000
    yield Reading(figure="CreateRun, bare grpc.aio client", value=reference, unit="/s", precise=0)
    yield Reading(figure="CreateRun, worker, sustained", value=sustained, unit="/s", precise=0)
    yield Reading(
        figure="CreateRun, worker against bare client",
        value=sustained / reference * 100,
        unit="%",
        bar=_BAR_SHARE * 100,
        at_least=True,
    )


THROUGHPUT = Family(name="throughput", measure=_measure)
