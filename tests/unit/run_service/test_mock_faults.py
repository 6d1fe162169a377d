"""How the mock's faults are chosen."""

from typing import Any

import grpc
import pytest

from scheduler_worker.run_service.mock_faults import FaultInjector, Faults, Outage, Verdict

NO_FAULT = Verdict(0.0, None, None)
DOWN = Verdict(0.0, grpc.StatusCode.UNAVAILABLE, None)


def test_without_faults_nothing_happens() -> None:
    injector = FaultInjector(Faults())
    assert injector.judge_create_run(0.0) == NO_FAULT
    assert injector.judge_run_details(0.0) == NO_FAULT


@pytest.mark.parametrize(
    ("elapsed_seconds", "down"), [(9.9, False), (10.0, True), (14.9, True), (15.0, False), (20.0, True), (21.0, False)]
)
def test_an_outage_covers_its_window(elapsed_seconds: float, down: bool) -> None:
    injector = FaultInjector(Faults(), (Outage(10.0, 5.0), Outage(20.0, 1.0)))
    assert injector.judge_create_run(elapsed_seconds) == (DOWN if down else NO_FAULT)
    assert injector.judge_run_details(elapsed_seconds) == (DOWN if down else NO_FAULT)


def test_the_rates_are_shares_of_the_calls() -> None:
    injector = FaultInjector(Faults(error_code="INTERNAL", error_rate=0.25, lost_answer_rate=0.5), seed=1)
    verdicts = [injector.judge_create_run(0.0) for _ in range(4000)]
    refused = sum(verdict.refusal is grpc.StatusCode.INTERNAL for verdict in verdicts)
    lost = sum(verdict.lost_answer == "unavailable" for verdict in verdicts)
    assert 900 < refused < 1100
    assert 1400 < lost < 1600  # half of the calls that were not refused


def test_equal_seeds_give_equal_faults() -> None:
    faults = Faults(error_rate=0.5, jitter_ms=10.0)
    first, second = FaultInjector(faults, seed=7), FaultInjector(faults, seed=7)
    assert [first.judge_create_run(0.0) for _ in range(100)] == [second.judge_create_run(0.0) for _ in range(100)]


def test_latency_and_jitter_add_up() -> None:
    injector = FaultInjector(Faults(latency_ms=20.0, jitter_ms=10.0), seed=1)
    delays = [injector.judge_create_run(0.0).delay_seconds for _ in range(200)]
    assert min(delays) >= 0.020
    assert max(delays) <= 0.030
    assert max(delays) - min(delays) > 0.005


def test_error_rates_spare_run_details() -> None:
    injector = FaultInjector(Faults(error_rate=1.0, lost_answer_rate=1.0))
    assert injector.judge_run_details(0.0) == NO_FAULT


def test_run_details_can_be_unimplemented() -> None:
    injector = FaultInjector(Faults(run_details="unimplemented"))
    assert injector.judge_run_details(0.0).refusal is grpc.StatusCode.UNIMPLEMENTED


def test_other_faults_count_from_the_next_call() -> None:
    injector = FaultInjector(Faults())
    injector.faults = Faults(outage=True)
    assert injector.judge_create_run(0.0) == DOWN


def test_faults_come_back_from_json() -> None:
    faults = Faults(latency_ms=1.5, error_code="ABORTED", error_rate=1.0, lost_answer="silence", outage=True)
    assert Faults.from_json(faults.as_json()) == faults


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ([], "JSON object"),
        ({"latency": 1}, "'latency'; use one of latency_ms"),
        ({"latency_ms": -1}, "latency_ms is -1"),
        ({"latency_ms": "20ms"}, "latency_ms is '20ms'"),
        ({"jitter_ms": float("nan")}, "jitter_ms is nan"),
        ({"error_rate": 1.1}, "error_rate is 1.1"),
        ({"error_rate": True}, "error_rate is True"),
        ({"error_code": "OK"}, "error_code is 'OK'"),
        ({"error_code": ["OK"]}, "error_code is"),
        ({"lost_answer": "no"}, "lost_answer is 'no'; use one of unavailable, silence"),
        ({"run_details": None}, "run_details is None"),
        ({"outage": "yes"}, "outage is 'yes'"),
    ],
)
def test_faults_that_make_no_sense_are_refused_by_name(body: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Faults.from_json(body)
