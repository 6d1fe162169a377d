from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import generate_latest

from scheduler_worker.domain.outcomes import Outcome, UnfiredReason
from scheduler_worker.telemetry.metrics import Metrics

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class SettableClock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(START)


@pytest.fixture
def metrics(clock: SettableClock) -> Metrics:
    return Metrics(clock=clock)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_every_name_begins_with_the_prefix(metrics: Metrics) -> None:
    names = {line.split(" ")[2] for line in generate_latest(metrics.registry).decode().splitlines() if "# TYPE" in line}

    assert "scheduler_armed_triggers" in names
    assert [name for name in names if not name.startswith("scheduler_")] == []
    assert [name for name in names if name.endswith("_created")] == []


def test_two_workers_in_one_process_do_not_share_a_registry(metrics: Metrics) -> None:
    other = Metrics()
    other.armed_triggers.set(7)

    assert value(metrics, "scheduler_armed_triggers") == 0
    assert value(other, "scheduler_armed_triggers") == 7


@pytest.mark.parametrize(
    ("name", "label", "values"),
    [
        ("scheduler_fires_total", "outcome", ["created", "already_exists", "found"]),
        ("scheduler_unfired_total", "reason", [reason.value for reason in UnfiredReason]),
        ("scheduler_syncs_total", "outcome", ["ok", "database_away", "error"]),
        ("scheduler_call_errors_total", "code", ["UNAVAILABLE", "INTERNAL", "UNKNOWN"]),
        ("scheduler_queue_depth", "kind", ["live", "late", "retry"]),
    ],
)
def test_labelled_series_are_there_before_anything_happened(
    metrics: Metrics, name: str, label: str, values: list[str]
) -> None:
    assert [value(metrics, name, **{label: each}) for each in values] == [0.0] * len(values)


def test_a_settled_fire_is_counted_with_its_lateness(metrics: Metrics) -> None:
    metrics.fire_settled(Outcome.CREATED, 0.004)
    metrics.fire_settled(Outcome.FOUND, -0.5)  # our clock went back

    assert value(metrics, "scheduler_fires_total", outcome="created") == 1
    assert value(metrics, "scheduler_fires_total", outcome="found") == 1
    assert value(metrics, "scheduler_fire_lateness_seconds_bucket", le="0.005") == 2
    assert value(metrics, "scheduler_fire_lateness_seconds_bucket", le="0.0025") == 1
    assert value(metrics, "scheduler_fire_lateness_seconds_sum") == pytest.approx(0.004)


def test_an_unfired_fire_is_counted_by_reason(metrics: Metrics) -> None:
    metrics.fire_unfired(UnfiredReason.PAUSED)

    assert value(metrics, "scheduler_unfired_total", reason="paused") == 1
    assert value(metrics, "scheduler_unfired_total", reason="deleted") == 0


def test_a_call_error_of_an_unknown_code_makes_no_new_series(metrics: Metrics) -> None:
    metrics.call_failed("UNAVAILABLE")
    metrics.call_failed("StatusCode(99)")

    assert value(metrics, "scheduler_call_errors_total", code="UNAVAILABLE") == 1
    assert value(metrics, "scheduler_call_errors_total", code="UNKNOWN") == 1
    assert value(metrics, "scheduler_call_errors_total", code="StatusCode(99)") is None


def test_the_age_of_the_last_sync_grows_from_the_start_and_from_each_success(
    metrics: Metrics, clock: SettableClock
) -> None:
    clock.now += timedelta(seconds=40)
    assert value(metrics, "scheduler_sync_age_seconds") == 40

    metrics.sync_succeeded_at(clock.now)
    clock.now += timedelta(seconds=3)
    assert value(metrics, "scheduler_sync_age_seconds") == 3


def test_syncs_and_calls_are_timed(metrics: Metrics) -> None:
    metrics.sync_ended("database_away", 3.0)
    metrics.call_ended(0.02)
    metrics.loop_stalled(0.2)

    assert value(metrics, "scheduler_syncs_total", outcome="database_away") == 1
    assert value(metrics, "scheduler_sync_seconds_sum") == 3.0
    assert value(metrics, "scheduler_create_run_seconds_bucket", le="0.025") == 1
    assert value(metrics, "scheduler_event_loop_stall_seconds_count") == 1


def test_the_queue_is_read_when_it_is_looked_at(metrics: Metrics) -> None:
    waiting = [1, 2, 3]
    metrics.watch_queue(live=lambda: len(waiting), late=lambda: 5, retry=lambda: 6)
    metrics.watch_calls_in_flight(lambda: 9)
    waiting.append(4)

    assert value(metrics, "scheduler_queue_depth", kind="live") == 4
    assert value(metrics, "scheduler_queue_depth", kind="late") == 5
    assert value(metrics, "scheduler_queue_depth", kind="retry") == 6
    assert value(metrics, "scheduler_calls_in_flight") == 9


def test_the_release_and_the_process_are_shown(metrics: Metrics) -> None:
    text = generate_latest(metrics.registry).decode()

    assert "scheduler_build_info{" in text
    assert 'version="' in text
