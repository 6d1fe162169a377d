"""Which stored bytes are readable, what they mean, and that equal content shares one object."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_worker.domain.schedule import CronRule, RateRule, Rule
from scheduler_worker.domain.trigger import NO_INPUTS, RunInputs
from scheduler_worker.errors import SpecError
from scheduler_worker.run_service._pb.flyteidl2 import task_pb2, trigger_pb2
from scheduler_worker.run_service.codec import (
    decode_automation,
    decode_inputs,
    encode_automation,
    encode_trigger_spec,
)

# A busy machine may take any time over one example.
ALWAYS_THE_SAME = settings(derandomize=True, deadline=None)

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def automation(**fields: Any) -> bytes:
    return task_pb2.TriggerAutomationSpec(**{"type": task_pb2.TYPE_SCHEDULE, **fields}).SerializeToString()


def rate(**fields: Any) -> bytes:
    return automation(schedule={"rate": fields})


def inline_spec(count: int, text: str = "x") -> bytes:
    return encode_trigger_spec(active=True, inputs={f"input{number}": text for number in range(count)})


@pytest.mark.parametrize(
    "rule",
    [
        CronRule("*/5 * * * *", "Europe/Berlin"),
        CronRule("@daily"),
        CronRule(""),
        RateRule(0, "minute"),
        RateRule(1, ""),
        RateRule(90, "day", NEW_YEAR),
        RateRule(1, "hour", datetime(1, 1, 1, tzinfo=UTC)),
        RateRule(1, "hour", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
    ids=repr,
)
def test_a_rule_comes_back_as_it_was_written(rule: Rule) -> None:
    assert decode_automation(encode_automation(rule, "at")) == (rule, "at")


def test_the_bare_cron_expression_has_no_zone() -> None:
    assert decode_automation(automation(schedule={"cron_expression": "0 * * * *"})) == (CronRule("0 * * * *"), "")


def test_a_start_time_comes_back_in_utc() -> None:
    tokyo = NEW_YEAR.astimezone(timezone(timedelta(hours=9)))
    rule, _ = decode_automation(encode_automation(RateRule(1, "hour", tokyo)))
    assert isinstance(rule, RateRule)
    assert rule.start_time is not None
    assert (rule.start_time, rule.start_time.tzinfo) == (NEW_YEAR, UTC)


@pytest.mark.parametrize(
    ("serialized", "fault"),
    [
        (None, "is null"),
        (b"", "type TYPE_UNSPECIFIED"),
        (b"\xff\xff", r"no readable TriggerAutomationSpec \(2 bytes\)"),
        (automation()[:-1] + b"\x12\x7f", "no readable"),
        (automation(type=task_pb2.TYPE_NONE), "type TYPE_NONE"),
        (automation(type=task_pb2.TYPE_ARTIFACT, schedule={"cron": {"expression": "@daily"}}), "type TYPE_ARTIFACT"),
        (automation(type=17), "type 17"),
        (automation(), "no schedule"),
        (automation(schedule={}), "no expression"),
        (automation(schedule={"kickoff_time_input_arg": "at"}), "no expression"),
        (rate(value=1, unit=9), "rate.unit is 9"),
        (rate(value=1, unit=1, start_time={"nanos": -1}), "-1 nanoseconds"),
        (rate(value=1, unit=1, start_time={"nanos": 1_000_000_000}), "1000000000 nanoseconds"),
        (rate(value=1, unit=1, start_time={"seconds": 2**62}), "outside the years"),
        (rate(value=1, unit=1, start_time={"seconds": -(2**62)}), "outside the years"),
        # A text that is no UTF-8 (field `cron_expression` of field `schedule`).
        (b"\x08\x02\x12\x04\x12\x02\xc3\x28", "no readable"),
    ],
)
def test_what_holds_no_schedule_is_refused_by_its_fault(serialized: bytes | None, fault: str) -> None:
    with pytest.raises(SpecError, match=fault):
        decode_automation(serialized)


@ALWAYS_THE_SAME
@given(st.binary())
@example(encode_automation(CronRule("@daily"))[:-3])
def test_random_bytes_are_decoded_or_refused_as_automation(serialized: bytes) -> None:
    try:
        decode_automation(serialized)
    except SpecError as fault:
        assert str(fault)  # noqa: PT017 # either end is right; no other error may come out


@ALWAYS_THE_SAME
@given(st.binary(), st.text())
def test_random_bytes_are_decoded_or_refused_as_spec(serialized: bytes, kickoff: str) -> None:
    try:
        assert decode_inputs(serialized, kickoff).kickoff_time_arg == kickoff
    except SpecError as fault:
        assert str(fault)  # noqa: PT017 # as above


@ALWAYS_THE_SAME
@given(st.data())
def test_a_spec_with_changed_bytes_is_decoded_or_refused(data: st.DataObject) -> None:
    spec = bytearray(inline_spec(3))
    for _ in range(data.draw(st.integers(1, 4))):
        spec[data.draw(st.integers(0, len(spec) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_inputs(bytes(spec), "")
    except SpecError as fault:
        assert "no readable TriggerSpec" in str(fault)  # noqa: PT017 # as above


@ALWAYS_THE_SAME
@given(
    st.builds(CronRule, st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
    | st.builds(
        RateRule,
        st.integers(0, 2**32 - 1),
        st.sampled_from(["", "minute", "hour", "day"]),
        st.none() | st.datetimes(timezones=st.just(UTC)),
    ),
    st.text(st.characters(codec="utf-8")),
)
def test_any_rule_comes_back_as_it_was_written(rule: Rule, kickoff: str) -> None:
    assert decode_automation(encode_automation(rule, kickoff)) == (rule, kickoff)


def test_equal_automation_is_decoded_once() -> None:
    serialized = encode_automation(CronRule("7 7 * * *", "Asia/Tokyo"), "at")
    assert decode_automation(bytes(bytearray(serialized)))[0] is decode_automation(bytes(bytearray(serialized)))[0]


def test_large_automation_is_not_kept() -> None:
    large = encode_automation(CronRule("0 0 * * *" + " " * 5000))
    assert decode_automation(large) == decode_automation(large)
    assert decode_automation(large)[0] is not decode_automation(large)[0]


def test_equal_small_inputs_share_one_object() -> None:
    assert decode_inputs(inline_spec(2), "at") is decode_inputs(inline_spec(2), "at")


def test_the_rest_of_a_spec_does_not_hinder_sharing() -> None:
    first = encode_trigger_spec(active=True, inputs={"x": 1}, description="one", task_version="v1")
    second = encode_trigger_spec(active=True, inputs={"x": 1}, description="two" * 10_000, task_version="v2")
    assert decode_inputs(first, "") is decode_inputs(second, "")


def test_large_inputs_are_not_kept() -> None:
    large = inline_spec(1, text="x" * 100_000)
    assert decode_inputs(large, "") == decode_inputs(large, "")
    assert decode_inputs(large, "") is not decode_inputs(large, "")


@pytest.mark.parametrize(
    "serialized", [b"", encode_trigger_spec(active=True, task_version="v1", description="no inputs")]
)
def test_a_spec_without_inputs_has_none(serialized: bytes) -> None:
    assert decode_inputs(serialized, "") is NO_INPUTS


def test_the_kickoff_argument_alone_is_an_input() -> None:
    assert decode_inputs(b"", "at") == RunInputs(kickoff_time_arg="at")


def test_empty_inline_inputs_are_not_the_same_as_none() -> None:
    assert decode_inputs(encode_trigger_spec(active=True, inputs={}), "") == RunInputs(literals=b"")


def test_offloaded_inputs_are_only_noted() -> None:
    spec = encode_trigger_spec(active=True, offloaded_uri="s3://bucket/key", offloaded_hash="cafe")
    assert decode_inputs(spec, "at") == RunInputs(kickoff_time_arg="at", offloaded=True)


def test_inputs_and_context_are_kept_in_order() -> None:
    spec = encode_trigger_spec(active=True, inputs={"b": 1, "a": 2}, context={"k": "v"})
    literals = decode_inputs(spec, "").literals
    assert literals is not None
    inputs = task_pb2.Inputs.FromString(literals)
    assert [literal.name for literal in inputs.literals] == ["b", "a"]
    assert [(pair.key, pair.value) for pair in inputs.context] == [("k", "v")]


def test_an_unreadable_spec_is_refused() -> None:
    with pytest.raises(SpecError, match=r"no readable TriggerSpec \(1 bytes\)"):
        decode_inputs(b"\x0a", "")


def test_each_kind_of_value_becomes_its_kind_of_literal() -> None:
    spec = trigger_pb2.TriggerSpec.FromString(
        encode_trigger_spec(
            active=True,
            inputs={"b": True, "i": 2**63 - 1, "f": 1.0, "s": "", "t": NEW_YEAR, "d": timedelta(seconds=-1.5)},
        )
    )
    values = {literal.name: literal.value.scalar.primitive for literal in spec.inputs.literals}
    assert {name: value.WhichOneof("value") for name, value in values.items()} == {
        "b": "boolean",
        "i": "integer",
        "f": "float_value",
        "s": "string_value",
        "t": "datetime",
        "d": "duration",
    }
    assert values["i"].integer == 2**63 - 1
    assert values["t"].datetime.seconds == int(NEW_YEAR.timestamp())
    assert (values["d"].duration.seconds, values["d"].duration.nanos) == (-1, -500_000_000)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (2**63, "does not fit 64 bits"),
        (-(2**63) - 1, "does not fit 64 bits"),
        (None, "is a NoneType"),
        ([1], "is a list"),
        (datetime(2026, 1, 1), "has no zone"),  # noqa: DTZ001 # the fault
        (timedelta.max, "10,000 years"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))), "outside the years"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_a_value_without_a_literal_form_is_refused_by_name(value: Any, fault: str) -> None:
    with pytest.raises(SpecError, match=fault) as caught:
        encode_trigger_spec(active=True, inputs={"speed": value})
    assert "'speed'" in str(caught.value)


def test_inputs_both_inline_and_offloaded_are_refused() -> None:
    with pytest.raises(SpecError, match="only one of the two"):
        encode_trigger_spec(active=True, context={}, offloaded_uri="s3://bucket/key")


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (RateRule(-1, "minute"), "rate value -1"),
        (RateRule(2**32, "minute"), "rate value 4294967296"),
        (RateRule(1, "week"), "rate unit 'week'"),  # type: ignore[arg-type] # the fault
        (RateRule(1, "day", datetime(2026, 1, 1)), "has no zone"),  # noqa: DTZ001 # the fault
        (CronRule("\ud800"), "lone surrogate"),
    ],
)
def test_a_rule_that_has_no_place_in_the_message_is_refused(rule: Rule, fault: str) -> None:
    with pytest.raises(SpecError, match=fault):
        encode_automation(rule)


def test_encoding_is_deterministic() -> None:
    assert encode_automation(RateRule(5, "minute", NEW_YEAR)) == encode_automation(RateRule(5, "minute", NEW_YEAR))
    assert inline_spec(20) == inline_spec(20)
