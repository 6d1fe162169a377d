"""What answers of the Run Service mean, and how long a fire waits before it is tried again."""

from datetime import timedelta

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.domain.outcomes import (
    BACKOFF_CEILING,
    BACKOFF_FLOOR,
    Failure,
    backoff,
    failure_of,
    may_have_created_a_run,
)


@pytest.mark.parametrize(
    ("codes", "failure"),
    [
        ("INVALID_ARGUMENT UNIMPLEMENTED OUT_OF_RANGE", Failure.PERMANENT),
        ("UNAVAILABLE DEADLINE_EXCEEDED RESOURCE_EXHAUSTED ABORTED CANCELLED", Failure.PASSING),
        ("UNAUTHENTICATED PERMISSION_DENIED NOT_FOUND FAILED_PRECONDITION", Failure.DOUBTFUL),
        ("UNKNOWN INTERNAL DATA_LOSS", Failure.DOUBTFUL),
    ],
)
def test_every_code_has_its_meaning(codes: str, failure: Failure) -> None:
    for code in codes.split():
        assert code in grpc.StatusCode.__members__
        assert failure_of(code) is failure


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "UNKNOWN", "ABORTED"])
def test_after_an_unclear_end_the_run_may_exist(code: str) -> None:
    assert may_have_created_a_run(code)


@pytest.mark.parametrize("code", ["PERMISSION_DENIED", "UNAUTHENTICATED", "NOT_FOUND", "RESOURCE_EXHAUSTED"])
def test_after_a_clear_refusal_it_does_not(code: str) -> None:
    assert not may_have_created_a_run(code)


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_back_off_stays_between_floor_and_ceiling(attempts: int, jitter: float) -> None:
    assert BACKOFF_FLOOR <= backoff(attempts, jitter=jitter) <= BACKOFF_CEILING


def test_the_back_off_doubles_up_to_the_ceiling() -> None:
    waits = [backoff(attempts, jitter=0.999_999_999) for attempts in range(1, 10)]
    expected = [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [round(wait / timedelta(seconds=1), 3) for wait in waits] == expected
