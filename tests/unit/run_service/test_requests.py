"""What the worker sends for one fire."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduler_worker.domain.trigger import NO_INPUTS, RunInputs, Trigger, TriggerKey
from scheduler_worker.run_service._pb.flyteidl2 import core_pb2, task_pb2, workflow_pb2
from scheduler_worker.run_service.codec import InputValue, decode_inputs, encode_trigger_spec
from scheduler_worker.run_service.requests import create_run_request

FIRE_TIME = datetime(2026, 3, 8, 7, tzinfo=UTC)
FIRE_SECONDS = int(FIRE_TIME.timestamp())


def request(inputs: RunInputs = NO_INPUTS, *, fire_time: datetime = FIRE_TIME) -> workflow_pb2.CreateRunRequest:
    trigger = Trigger(
        id=1, key=TriggerKey("p", "d", "t", "n"), revision=3, in_force_from=FIRE_TIME, schedule=None, inputs=inputs
    )
    return create_run_request(trigger, fire_time, org="acme", name="r1f")


def inline(values: dict[str, InputValue], kickoff: str = "", context: dict[str, str] | None = None) -> RunInputs:
    return decode_inputs(encode_trigger_spec(active=True, inputs=values, context=context), kickoff)


def test_the_run_and_its_trigger_are_named() -> None:
    sent = request()
    run, trigger = sent.run_id, sent.trigger_name
    assert (run.org, run.project, run.domain, run.name) == ("acme", "p", "d", "r1f")
    assert (trigger.org, trigger.project, trigger.domain) == ("acme", "p", "d")
    assert (trigger.task_name, trigger.name) == ("t", "n")
    assert sent.source == workflow_pb2.RUN_SOURCE_SCHEDULE_TRIGGER


@pytest.mark.parametrize(
    "fire_time", [FIRE_TIME, FIRE_TIME.astimezone(timezone(timedelta(hours=-5)))], ids=["utc", "other zone"]
)
def test_the_run_starts_at_its_fire_time(fire_time: datetime) -> None:
    start = request(fire_time=fire_time).run_start_time
    assert (start.seconds, start.nanos) == (FIRE_SECONDS, 0)


def test_a_fire_time_before_1970_is_sent() -> None:
    assert request(fire_time=datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC)).run_start_time.seconds == -2


def test_without_inputs_none_are_sent() -> None:
    assert request().WhichOneof("input_wrapper") is None


def test_with_offloaded_inputs_none_are_sent_not_even_the_kickoff_time() -> None:
    assert request(RunInputs(kickoff_time_arg="at", offloaded=True)).WhichOneof("input_wrapper") is None


def test_empty_inline_inputs_are_sent_as_such() -> None:
    sent = request(RunInputs(literals=b""))
    assert sent.WhichOneof("input_wrapper") == "inputs"
    assert sent.inputs == task_pb2.Inputs()


def test_inline_inputs_are_sent_with_their_context() -> None:
    sent = request(inline({"x": 1, "y": "two"}, context={"team": "finance"})).inputs
    assert [(literal.name, literal.value.scalar.primitive.WhichOneof("value")) for literal in sent.literals] == [
        ("x", "integer"),
        ("y", "string_value"),
    ]
    assert list(sent.context) == [core_pb2.KeyValuePair(key="team", value="finance")]


def test_the_kickoff_time_is_sent_alone_when_there_are_no_other_inputs() -> None:
    (literal,) = request(RunInputs(kickoff_time_arg="at")).inputs.literals
    assert literal.name == "at"
    assert literal.value.scalar.primitive.datetime.seconds == FIRE_SECONDS


def test_the_kickoff_time_replaces_inputs_of_its_name() -> None:
    inputs = task_pb2.Inputs()
    for name in ("at", "x", "at"):
        inputs.literals.add(name=name).value.scalar.primitive.integer = 1
    sent = request(RunInputs(literals=inputs.SerializeToString(), kickoff_time_arg="at")).inputs
    assert [literal.name for literal in sent.literals] == ["x", "at"]
    assert sent.literals[1].value.scalar.primitive.WhichOneof("value") == "datetime"


def test_the_kickoff_time_leaves_the_context_alone() -> None:
    sent = request(inline({}, "at", context={"at": "text"})).inputs
    assert [literal.name for literal in sent.literals] == ["at"]
    assert list(sent.context) == [core_pb2.KeyValuePair(key="at", value="text")]


def test_requests_do_not_share_their_inputs() -> None:
    inputs = inline({"x": 1}, "at")
    request(inputs).inputs.literals[0].name = "changed"
    assert request(inputs).inputs.literals[0].name == "x"
