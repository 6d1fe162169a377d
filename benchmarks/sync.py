"""A sync that finds nothing new, in a worker at rest: what every interval costs."""

import time
from collections.abc import Iterator

from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading

_INTERVAL_SECONDS = 1
_SYNCS = 10
_QUICK_SYNCS = 3
_QUIET_SECONDS = 3.0


def _measure(bench: Bench) -> Iterator[Reading]:
    stack = bench.stack
    with (
        stack.database(bench.triggers) as database,
        stack.mock() as (mock, _),
        stack.worker(database, mock, probed=True, resync_interval=f"{_INTERVAL_SECONDS}s") as worker,
    ):
        worker.wait_for_load()
        worker.wait_until(lambda: stack.marks(database) >= bench.triggers, timeout_seconds=60.0)
        time.sleep(_QUIET_SECONDS)
        worker.metric("scheduler_sync_seconds_sum")  # a look at the metrics takes a turn of the loop, too
        before, count_before = (
            worker.metric("scheduler_sync_seconds_sum"),
            worker.metric("scheduler_sync_seconds_count"),
        )
        worker.take_longest_stall_ms()
        time.sleep(_INTERVAL_SECONDS * (_QUICK_SYNCS if bench.quick else _SYNCS))
        stall_ms = worker.take_longest_stall_ms()
        seconds = worker.metric("scheduler_sync_seconds_sum") - before
        count = worker.metric("scheduler_sync_seconds_count") - count_before
    yield Reading(
        figure=f"steady sync, {bench.fleet} unchanged",
        value=seconds / count * 1000,
        unit="ms",
        bar=bench.bar(150.0),
    )
    yield Reading(figure="steady sync, longest stall", value=stall_ms, unit="ms", bar=20.0)


SYNC = Family(name="sync", measure=_measure)
