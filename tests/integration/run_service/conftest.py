"""A request and its run, for the tests of the client and the mock."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from scheduler_worker.domain.trigger import NO_INPUTS, RunInputs, Trigger, TriggerKey
from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.requests import create_run_request

FIRE_TIME = datetime(2026, 3, 8, 7, tzinfo=UTC)

MakeRequest = Callable[..., workflow_pb2.CreateRunRequest]


@pytest.fixture
def make_request() -> MakeRequest:
    """Return what makes the request of a run by its name."""

    def make(name: str = "r1", inputs: RunInputs = NO_INPUTS) -> workflow_pb2.CreateRunRequest:
        trigger = Trigger(
            id=1,
            key=TriggerKey("p", "d", "t", "n"),
            revision=1,
            in_force_from=FIRE_TIME,
            schedule=None,
            inputs=inputs,
        )
        return create_run_request(trigger, FIRE_TIME, org="", name=name)

    return make
