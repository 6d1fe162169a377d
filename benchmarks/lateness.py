"""From the fire time until CreateRun is acknowledged, for one trigger and for many that are due in one second."""

from collections.abc import Iterator
from datetime import timedelta
from statistics import fmean

from benchmarks import fleet
from benchmarks.bare_client import calls_per_second
from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading, percentile

_SINGLE_FIRES = 100
_QUICK_SINGLE_FIRES = 10
_SINGLE_STEP = timedelta(seconds=1)
"""Fire times are whole seconds: a shorter step would have several due at once."""

_REFERENCE_CALLS = 5_000
_SLOWEST_CALLS_PER_SECOND = 200


def _measure_one(bench: Bench) -> Iterator[Reading]:
    fires = _QUICK_SINGLE_FIRES if bench.quick else _SINGLE_FIRES
    first = fleet.time_to_fire(fires)
    rules = fleet.due_in_turn(first, fires, _SINGLE_STEP)
    stack = bench.stack
    with (
        stack.database(fires, rules) as database,
        stack.mock() as (mock, journal),
        stack.worker(database, mock, execution_qps="unlimited") as worker,
    ):
        worker.wait_for_load()
        fleet.must_be_ahead(first)
        worker.wait_until(lambda: journal.count() >= fires, timeout_seconds=fires + 30.0)
        worker.stop()
        latenesses = stack.latenesses_ms(database)
    yield Reading(figure="lateness, 1 due, p50", value=percentile(latenesses, 0.5), unit="ms", bar=5.0, precise=2)
    yield Reading(figure="lateness, 1 due, p99", value=percentile(latenesses, 0.99), unit="ms", bar=20.0, precise=2)


def _measure_many(bench: Bench) -> Iterator[Reading]:
    yield from _due_in_one_second(bench, 1_000)
    yield from _due_in_one_second(bench, 10_000)


def _measure_fleet(bench: Bench) -> Iterator[Reading]:
    yield from _due_in_one_second(bench, bench.triggers)


def _due_in_one_second(bench: Bench, count: int) -> Iterator[Reading]:
    stack = bench.stack
    with stack.mock() as (mock, journal):
        # Before and after: a machine that is shared is not equally fast all the time.
        references = [calls_per_second(mock, _REFERENCE_CALLS)]
        journal.clear()
        at = fleet.time_to_fire(count)
        with stack.database(count, fleet.due_once(at)) as database:
            with stack.worker(database, mock, probed=True, execution_qps="unlimited") as worker:
                worker.wait_for_load()
                fleet.must_be_ahead(at)
                worker.take_longest_stall_ms()
                worker.wait_until(
                    lambda: journal.count() >= count, timeout_seconds=60.0 + count / _SLOWEST_CALLS_PER_SECOND
                )
                stall_ms = worker.take_longest_stall_ms()
            latenesses = stack.latenesses_ms(database, at)
        references.append(calls_per_second(mock, _REFERENCE_CALLS))
    if len(latenesses) != count:
        raise RuntimeError(f"{len(latenesses)} of {count} fires have a run")
    name = f"lateness, {count:,} due in one second"
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        yield Reading(figure=f"{name}, {label}", value=percentile(latenesses, share) / 1000, unit="s", precise=3)
    yield Reading(
        figure=f"{name}, all acknowledged",
        value=max(latenesses) / 1000,
        unit="s",
        bar=1.15 * count / fmean(references) + 0.3 if count == 10_000 else None,
        precise=3,
    )
    yield Reading(figure=f"{name}, longest stall", value=stall_ms, unit="ms", bar=50.0)


ONE = Family(name="lateness-1", measure=_measure_one)
MANY = Family(name="lateness-many", measure=_measure_many)
FLEET = Family(name="lateness-fleet", measure=_measure_fleet)
