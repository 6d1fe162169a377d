"""Between a row's protobuf bytes and the domain: what its schedule and inputs are.

Decides which bytes are readable and what they mean; whether a schedule makes sense is for the domain. Equal content
shares one object, since a hundred thousand rows hold few distinct specs. Must never let anything but `SpecError` out.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from scheduler_worker.domain.schedule import CronRule, RateRule, RateUnit, Rule
from scheduler_worker.domain.trigger import NO_INPUTS, RunInputs
from scheduler_worker.errors import SpecError
from scheduler_worker.run_service._pb.flyteidl2 import core_pb2, task_pb2, trigger_pb2

InputValue = bool | int | float | str | datetime | timedelta

# Entries, not bytes: more distinct schedules than fleets have, and a few megabytes when full.
_DISTINCT_SPECS = 8192
# Larger specs are decoded anew and never kept: their rows are few, and the cache must stay small.
_LARGEST_CACHED_BYTES = 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_PER_SECOND = 1_000_000_000
_UINT32_MAX = 2**32 - 1
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_LONGEST_DURATION = timedelta(seconds=315_576_000_000)  # protobuf's own limit
_UNITS: dict[task_pb2.FixedRateUnit, RateUnit] = {
    task_pb2.FIXED_RATE_UNIT_UNSPECIFIED: "",
    task_pb2.FIXED_RATE_UNIT_MINUTE: "minute",
    task_pb2.FIXED_RATE_UNIT_HOUR: "hour",
    task_pb2.FIXED_RATE_UNIT_DAY: "day",
}
_UNIT_NUMBERS = {unit: number for number, unit in _UNITS.items()}
_TYPES = task_pb2.TriggerAutomationSpecType


def decode_automation(automation_spec: bytes | None) -> tuple[Rule, str]:
    """Return the rule and the kickoff argument ("" for none) of a serialized ``TriggerAutomationSpec``.

    An unset rate unit comes back as "": the domain refuses it. A start time comes back aware, in UTC.

    Raises:
        SpecError: the bytes can't be read, are of another type than TYPE_SCHEDULE, or hold no expression.
    """
    if automation_spec is None:
        raise SpecError("automation_spec is null; deploy the trigger with a schedule")
    if len(automation_spec) <= _LARGEST_CACHED_BYTES:
        return _decode_small_automation(automation_spec)
    return _decode_automation(automation_spec)


def decode_inputs(spec: bytes, kickoff_time_arg: str) -> RunInputs:
    """Return what the runs of a serialized ``TriggerSpec`` get as inputs.

    Raises:
        SpecError: the bytes can't be read.
    """
    try:
        message = trigger_pb2.TriggerSpec.FromString(spec)
    except DecodeError as fault:
        raise SpecError(f"spec is no readable TriggerSpec ({len(spec)} bytes): {fault}") from fault
    form = message.WhichOneof("input_wrapper")
    literals = message.inputs.SerializeToString(deterministic=True) if form == "inputs" else None
    if literals is not None and len(literals) > _LARGEST_CACHED_BYTES:
        return RunInputs(literals=literals, kickoff_time_arg=kickoff_time_arg)
    return _shared_inputs(literals, kickoff_time_arg, form == "offloaded_input_data")


def encode_automation(rule: Rule, kickoff_time_arg: str = "") -> bytes:
    """Return `rule` as a serialized ``TriggerAutomationSpec`` of TYPE_SCHEDULE; equal rules give equal bytes.

    Raises:
        SpecError: a text, or a rate's value, unit or start time, has no place in the message.
    """
    message = task_pb2.TriggerAutomationSpec(type=task_pb2.TYPE_SCHEDULE)
    with _faults_named("the schedule"):
        message.schedule.kickoff_time_input_arg = kickoff_time_arg
        if isinstance(rule, CronRule):
            message.schedule.cron.expression = rule.expression
            message.schedule.cron.timezone = rule.timezone
        else:
            _fill_rate(message.schedule.rate, rule)
    return message.SerializeToString(deterministic=True)


def encode_trigger_spec(
    *,
    active: bool,
    inputs: Mapping[str, InputValue] | None = None,
    context: Mapping[str, str] | None = None,
    offloaded_uri: str = "",
    offloaded_hash: str = "",
    task_version: str = "",
    description: str = "",
) -> bytes:
    """Return a serialized ``TriggerSpec``; equal arguments give equal bytes.

    Without `inputs`, `context` and `offloaded_uri` the spec says nothing of inputs.

    Raises:
        SpecError: an input has no literal form, or inputs are given both inline and offloaded.
    """
    inline = inputs is not None or context is not None
    if inline and offloaded_uri:
        raise SpecError("inputs are given inline and offloaded; give only one of the two")
    with _faults_named("the description, version or location of the inputs"):
        message = trigger_pb2.TriggerSpec(active=active, task_version=task_version, description=description)
        if offloaded_uri:
            message.offloaded_input_data.uri = offloaded_uri
            message.offloaded_input_data.inputs_hash = offloaded_hash
    if inline:
        message.inputs.SetInParent()
    for name, value in (inputs or {}).items():
        with _faults_named(f"input {name!r}"):
            _fill_primitive(message.inputs.literals.add(name=name).value.scalar.primitive, name, value)
    for key, text in (context or {}).items():
        with _faults_named(f"context {key!r}"):
            message.inputs.context.add(key=key, value=text)
    return message.SerializeToString(deterministic=True)


@lru_cache(maxsize=_DISTINCT_SPECS)
def _shared_inputs(literals: bytes | None, kickoff_time_arg: str, offloaded: bool) -> RunInputs:  # noqa: FBT001 - a cache key
    inputs = RunInputs(literals=literals, kickoff_time_arg=kickoff_time_arg, offloaded=offloaded)
    return NO_INPUTS if inputs == NO_INPUTS else inputs


def _decode_automation(automation_spec: bytes) -> tuple[Rule, str]:
    try:
        message = task_pb2.TriggerAutomationSpec.FromString(automation_spec)
    except DecodeError as fault:
        size = len(automation_spec)
        raise SpecError(f"automation_spec is no readable TriggerAutomationSpec ({size} bytes): {fault}") from fault
    if message.type != task_pb2.TYPE_SCHEDULE:
        raise SpecError(f"automation_spec has type {_type_name(message.type)}; only TYPE_SCHEDULE can be scheduled")
    if not message.HasField("schedule"):
        raise SpecError("automation_spec has type TYPE_SCHEDULE but no schedule; set cron or rate")
    return _rule_of(message.schedule), message.schedule.kickoff_time_input_arg


_decode_small_automation = lru_cache(maxsize=_DISTINCT_SPECS)(_decode_automation)


def _rule_of(schedule: task_pb2.Schedule) -> Rule:
    form = schedule.WhichOneof("expression")
    if form == "cron":
        return CronRule(schedule.cron.expression, schedule.cron.timezone)
    if form == "cron_expression":
        return CronRule(schedule.cron_expression)
    if form == "rate":
        return _rate_of(schedule.rate)
    raise SpecError("the schedule has no expression; set cron or rate")


def _rate_of(rate: task_pb2.FixedRate) -> RateRule:
    unit = _UNITS.get(rate.unit)
    if unit is None:
        raise SpecError(f"rate.unit is {int(rate.unit)}, which is no known unit; use minute, hour or day")
    return RateRule(rate.value, unit, _instant_of(rate.start_time) if rate.HasField("start_time") else None)


def _instant_of(timestamp: Timestamp) -> datetime:
    if not 0 <= timestamp.nanos < _NANOS_PER_SECOND:
        raise SpecError(f"rate.start_time has {timestamp.nanos} nanoseconds; they must be 0 to 999999999")
    try:
        return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)
    except OverflowError as fault:
        raise SpecError(f"rate.start_time is {timestamp.seconds} s from 1970, outside the years 1 to 9999") from fault


def _type_name(number: int) -> str:
    return _TYPES.Name(number) if number in _TYPES.values() else str(int(number))


def _fill_rate(rate: task_pb2.FixedRate, rule: RateRule) -> None:
    if not 0 <= rule.value <= _UINT32_MAX:
        raise SpecError(f"rate value {rule.value} is out of range; it must be 0 to {_UINT32_MAX}")
    number = _UNIT_NUMBERS.get(rule.unit)
    if number is None:
        raise SpecError(f"rate unit {rule.unit!r} is unknown; use minute, hour or day")
    rate.value = rule.value
    rate.unit = number
    if rule.start_time is not None:
        rate.start_time.FromDatetime(_aware("rate start_time", rule.start_time))


def _fill_primitive(primitive: core_pb2.Primitive, name: str, value: InputValue) -> None:
    # bool before int: in Python a bool is an int.
    if isinstance(value, bool):
        primitive.boolean = value
    elif isinstance(value, int):
        if not _INT64_MIN <= value <= _INT64_MAX:
            raise SpecError(f"input {name!r} is {value}, which does not fit 64 bits; give it as text")
        primitive.integer = value
    elif isinstance(value, float):
        primitive.float_value = value
    elif isinstance(value, str):
        primitive.string_value = value
    elif isinstance(value, datetime):
        primitive.datetime.FromDatetime(_aware(f"input {name!r}", value))
    elif isinstance(value, timedelta):
        if abs(value) > _LONGEST_DURATION:
            raise SpecError(f"input {name!r} is longer than the 10,000 years a duration can have")
        primitive.duration.FromTimedelta(value)
    else:
        raise SpecError(
            f"input {name!r} is a {type(value).__name__}; "
            "only booleans, integers, floats, texts, instants and durations have a literal form"
        )


@contextmanager
def _faults_named(subject: str) -> Iterator[None]:
    """Turn what protobuf and datetime say of values they can't hold into an error that names the value's place."""
    try:
        yield
    except UnicodeEncodeError as fault:
        raise SpecError(f"{subject} holds a lone surrogate, which is no text; remove it") from fault
    except OverflowError as fault:
        raise SpecError(f"{subject} holds an instant outside the years 1 to 9999 in UTC; use one inside") from fault


def _aware(subject: str, instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise SpecError(f"{subject} is {instant.isoformat()}, which has no zone; add one, such as Z for UTC")
    return instant
