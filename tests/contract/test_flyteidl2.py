"""Our bytes and the official classes' bytes are the same bytes."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler_worker.domain.schedule import CronRule, RateRule, Rule
from scheduler_worker.domain.trigger import RunInputs, Trigger, TriggerKey
from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.client import CreateRunAnswer, RunServiceClient
from scheduler_worker.run_service.codec import (
    decode_automation,
    decode_inputs,
    encode_automation,
    encode_trigger_spec,
)
from scheduler_worker.run_service.mock_server import MockRunService
from scheduler_worker.run_service.requests import create_run_request

AUTOMATION = "flyteidl2.task.TriggerAutomationSpec"
TRIGGER_SPEC = "flyteidl2.trigger.TriggerSpec"
CREATE_RUN = "flyteidl2.workflow.CreateRunRequest"

FIRE_TIME = datetime(2026, 3, 8, 7, 0, tzinfo=UTC)
KEY = TriggerKey("flytesnacks", "development", "reports.nightly", "every-night")
RUN_ID = {"org": "acme", "project": "flytesnacks", "domain": "development", "name": "r2cb8e57d1c2a90f3"}
TRIGGER_NAME = {
    "org": "acme",
    "project": "flytesnacks",
    "domain": "development",
    "name": "every-night",
    "task_name": "reports.nightly",
}
BASE_REQUEST = {
    "run_id": RUN_ID,
    "trigger_name": TRIGGER_NAME,
    "source": "RUN_SOURCE_SCHEDULE_TRIGGER",
    "run_start_time": "2026-03-08T07:00:00Z",
}

# Kinds of literals that our own files do not spell out.
FOREIGN_LITERALS = [
    {
        "name": "numbers",
        "value": {
            "collection": {
                "literals": [
                    {"scalar": {"primitive": {"integer": "1"}}},
                    {"scalar": {"primitive": {"integer": "2"}}},
                ]
            }
        },
    },
    {"name": "settings", "value": {"map": {"literals": {"a": {"scalar": {"none_type": {}}}}}}},
    {"name": "file", "value": {"scalar": {"blob": {"uri": "s3://bucket/key"}}, "hash": "abc"}},
    {"name": "packed", "value": {"scalar": {"binary": {"value": "gaFhAQ==", "tag": "msgpack"}}}},
]
CONTEXT = [{"key": "team", "value": "finance"}]

SCHEDULES: dict[str, tuple[dict[str, Any], Rule]] = {
    "cron": (
        {"cron": {"expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"}},
        CronRule("0 9 * * 1-5", "Europe/Berlin"),
    ),
    "rate": (
        {"rate": {"value": 15, "unit": "FIXED_RATE_UNIT_MINUTE"}},
        RateRule(15, "minute"),
    ),
    "rate by the hour from a start time": (
        {"rate": {"value": 4294967295, "unit": "FIXED_RATE_UNIT_HOUR", "start_time": "2026-01-01T12:00:00.500Z"}},
        RateRule(4294967295, "hour", datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)),
    ),
    "rate by the day from a start time before 1970": (
        {"rate": {"value": 1, "unit": "FIXED_RATE_UNIT_DAY", "start_time": "1969-12-31T23:59:58Z"}},
        RateRule(1, "day", datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC)),
    ),
}


def trigger(inputs: RunInputs) -> Trigger:
    return Trigger(id=1, key=KEY, revision=1, in_force_from=FIRE_TIME, schedule=None, inputs=inputs)


def sent_inputs(spec: bytes, kickoff_time_arg: str = "") -> bytes:
    request = create_run_request(
        trigger(decode_inputs(spec, kickoff_time_arg)), FIRE_TIME, org="acme", name=RUN_ID["name"]
    )
    return request.SerializeToString()


@pytest.mark.parametrize(("schedule", "rule"), SCHEDULES.values(), ids=SCHEDULES)
def test_an_official_schedule_is_decoded(official: Any, schedule: dict[str, Any], rule: Rule) -> None:
    serialized = official.write(
        AUTOMATION, {"type": "TYPE_SCHEDULE", "schedule": {**schedule, "kickoff_time_input_arg": "at"}}
    )
    assert decode_automation(serialized) == (rule, "at")


@pytest.mark.parametrize(("schedule", "rule"), SCHEDULES.values(), ids=SCHEDULES)
def test_our_schedule_is_read_officially(official: Any, schedule: dict[str, Any], rule: Rule) -> None:
    assert official.read(AUTOMATION, encode_automation(rule, "at")) == {
        "type": "TYPE_SCHEDULE",
        "schedule": {**schedule, "kickoff_time_input_arg": "at"},
    }


def test_the_deprecated_bare_cron_expression_is_decoded(official: Any) -> None:
    serialized = official.write(AUTOMATION, {"type": "TYPE_SCHEDULE", "schedule": {"cron_expression": "@daily"}})
    assert decode_automation(serialized) == (CronRule("@daily"), "")


def test_our_trigger_spec_is_read_officially(official: Any) -> None:
    serialized = encode_trigger_spec(
        active=True,
        inputs={
            "flag": True,
            "count": -(2**63),
            "share": 0.5,
            "text": "größer",
            "at": datetime(2026, 1, 1, 1, tzinfo=UTC),
            "wait": timedelta(minutes=-1, milliseconds=-500),
        },
        context={"team": "finance"},
        task_version="v7",
        description="nightly numbers",
    )
    assert official.read(TRIGGER_SPEC, serialized) == {
        "active": True,
        "inputs": {
            "literals": [
                {"name": "flag", "value": {"scalar": {"primitive": {"boolean": True}}}},
                {"name": "count", "value": {"scalar": {"primitive": {"integer": str(-(2**63))}}}},
                {"name": "share", "value": {"scalar": {"primitive": {"float_value": 0.5}}}},
                {"name": "text", "value": {"scalar": {"primitive": {"string_value": "größer"}}}},
                {"name": "at", "value": {"scalar": {"primitive": {"datetime": "2026-01-01T01:00:00Z"}}}},
                {"name": "wait", "value": {"scalar": {"primitive": {"duration": "-60.500s"}}}},
            ],
            "context": CONTEXT,
        },
        "task_version": "v7",
        "description": "nightly numbers",
    }


def test_our_offloaded_trigger_spec_is_read_officially(official: Any) -> None:
    serialized = encode_trigger_spec(active=False, offloaded_uri="s3://bucket/inputs", offloaded_hash="cafe")
    assert official.read(TRIGGER_SPEC, serialized) == {
        "offloaded_input_data": {"uri": "s3://bucket/inputs", "inputs_hash": "cafe"}
    }


def test_a_request_without_inputs_is_read_officially(official: Any) -> None:
    spec = official.write(TRIGGER_SPEC, {"active": True, "task_version": "v1"})
    assert official.read(CREATE_RUN, sent_inputs(spec)) == BASE_REQUEST


def test_offloaded_inputs_are_left_to_the_service(official: Any) -> None:
    spec = official.write(
        TRIGGER_SPEC, {"active": True, "offloaded_input_data": {"uri": "s3://bucket/inputs", "inputs_hash": "cafe"}}
    )
    assert official.read(CREATE_RUN, sent_inputs(spec, "at")) == BASE_REQUEST


def test_inline_inputs_travel_unharmed_whatever_their_kind(official: Any) -> None:
    inputs = {"literals": FOREIGN_LITERALS, "context": CONTEXT}
    spec = official.write(TRIGGER_SPEC, {"active": True, "inputs": inputs, "run_spec": {"overwrite_cache": True}})
    assert official.read(CREATE_RUN, sent_inputs(spec)) == {**BASE_REQUEST, "inputs": inputs}


def test_the_kickoff_time_joins_the_inline_inputs(official: Any) -> None:
    old_kickoff = {"name": "at", "value": {"scalar": {"primitive": {"string_value": "old"}}}}
    kickoff = {"name": "at", "value": {"scalar": {"primitive": {"datetime": "2026-03-08T07:00:00Z"}}}}
    inputs = {"literals": [old_kickoff, *FOREIGN_LITERALS], "context": CONTEXT}
    spec = official.write(TRIGGER_SPEC, {"active": True, "inputs": inputs})
    sent = official.read(CREATE_RUN, sent_inputs(spec, "at"))["inputs"]
    assert sent == {"literals": [*FOREIGN_LITERALS, kickoff], "context": CONTEXT}


def test_fields_that_we_do_not_know_survive_parsing_and_serializing(official: Any) -> None:
    content = {
        "run_id": RUN_ID,
        "task_id": {"org": "acme", "project": "p", "domain": "d", "name": "t", "version": "v"},
        "run_spec": {"overwrite_cache": True},
        "inputs": {"literals": FOREIGN_LITERALS},
    }
    serialized = official.write(CREATE_RUN, content)
    again = workflow_pb2.CreateRunRequest.FromString(serialized).SerializeToString()
    assert official.read(CREATE_RUN, again) == content


async def test_the_official_stub_is_served_by_our_mock(official: Any) -> None:
    async with MockRunService() as mock:

        async def call(method: str, content: dict[str, Any]) -> str:
            command = {"do": "call", "address": mock.address, "method": method, "json": content}
            return str((await asyncio.to_thread(official.ask, **command))["code"])

        assert await call("GetRunDetails", {"run_id": RUN_ID}) == "NOT_FOUND"
        assert await call("CreateRun", BASE_REQUEST) == "OK"
        assert await call("CreateRun", BASE_REQUEST) == "ALREADY_EXISTS"
        assert await call("GetRunDetails", {"run_id": RUN_ID}) == "OK"
        assert await call("CreateRun", {**BASE_REQUEST, "run_id": {**RUN_ID, "name": "R"}}) == "INVALID_ARGUMENT"


async def test_our_client_is_served_by_the_official_server(official: Any) -> None:
    address = official.ask(do="serve")["address"]
    request = create_run_request(trigger(RunInputs()), FIRE_TIME, org="acme", name=RUN_ID["name"])
    async with RunServiceClient(address) as client:
        assert await client.create_run(request, timeout_seconds=10) is CreateRunAnswer.CREATED
        assert await client.run_exists(*RUN_ID.values(), timeout_seconds=10)
    created, asked = official.ask(do="received")["json"]
    assert (created["method"], created["request"]) == ("CreateRun", BASE_REQUEST)
    assert (asked["method"], asked["request"]) == ("GetRunDetails", {"run_id": RUN_ID})
    assert created["metadata"]["user-agent"].startswith("scheduler-worker/")
