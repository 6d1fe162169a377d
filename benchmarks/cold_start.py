"""From the start of the process until every trigger is armed, and the memory they hold then."""

import time
from collections.abc import Iterator

from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading

_MILLION = 1_000_000
_SETTLING_SECONDS = 5.0
"""The first marks of all triggers are written after the load; memory is read when that is done."""

_MIB = 2**20


def _measure(bench: Bench) -> Iterator[Reading]:
    seconds, resident, _ = _start(bench, bench.triggers, probed=False)
    _, idle, _ = _start(bench, 1, probed=False)
    yield Reading(
        figure=f"cold start, {bench.fleet} armed",
        value=seconds,
        unit="s",
        bar=bench.bar(6.0),
        precise=2,
    )
    yield Reading(
        figure=f"resident memory, {bench.fleet} armed",
        value=resident / _MIB,
        unit="MiB",
        bar=bench.bar(250.0),
    )
    yield Reading(figure="resident memory per trigger", value=(resident - idle) / bench.triggers, unit="B", precise=0)
    _, _, stall_ms = _start(bench, bench.triggers, probed=True)
    yield Reading(figure="cold start, longest stall", value=stall_ms, unit="ms", bar=50.0)


def _measure_million(bench: Bench) -> Iterator[Reading]:
    if not bench.million:
        return
    seconds, resident, stall_ms = _start(bench, _MILLION, probed=True)
    yield Reading(figure="cold start, 1,000,000 armed", value=seconds, unit="s", bar=60.0)
    yield Reading(figure="resident memory, 1,000,000 armed", value=resident / _MIB, unit="MiB", bar=1536.0, precise=0)
    yield Reading(figure="cold start, 1,000,000 armed, longest stall", value=stall_ms, unit="ms", bar=50.0)


def _start(bench: Bench, count: int, *, probed: bool) -> tuple[float, int, float]:
    """Return the seconds until all are armed, the bytes resident once the first marks are written, and the stall."""
    stack = bench.stack
    with (
        stack.database(count) as database,
        stack.mock() as (mock, _),
        stack.worker(database, mock, probed=probed) as worker,
    ):
        seconds = worker.wait_for_load()
        worker.wait_until(lambda: stack.marks(database) >= count, timeout_seconds=300.0)
        if not bench.quick:
            time.sleep(_SETTLING_SECONDS)
        return seconds, worker.resident_bytes(), worker.take_longest_stall_ms() if probed else 0.0


COLD_START = Family(name="cold-start", measure=_measure)
MILLION = Family(name="million", measure=_measure_million)
