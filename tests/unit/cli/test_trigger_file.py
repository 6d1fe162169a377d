"""Trigger files: what they may say, and every fault at once."""

from datetime import UTC, datetime

import pytest

from scheduler_worker.cli.trigger_file import read_trigger_file
from scheduler_worker.domain.schedule import CronRule, RateRule, Rule
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.errors import TriggerFileError
from scheduler_worker.run_service.codec import decode_automation, encode_trigger_spec

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
KEYS = "project: shop, domain: production, task_name: report, task_version: v1"


def one(schedule: str, rest: str = "") -> str:
    return f"triggers: [{{{KEYS}, name: nightly, schedule: {schedule}{rest}}}]"


def faults_of(text: str) -> list[str]:
    with pytest.raises(TriggerFileError) as caught:
        read_trigger_file(text, source="file.yaml", now=NOW)
    assert str(caught.value).startswith("file.yaml: ")
    return list(caught.value.faults)


@pytest.mark.parametrize(
    ("schedule", "rule"),
    [
        ('{cron: "0 2 * * *", timezone: Europe/Berlin}', CronRule("0 2 * * *", "Europe/Berlin")),
        ('{cron: "@daily"}', CronRule("@daily")),
        ('{cron_expression: "0 2 * * *"}', CronRule("0 2 * * *")),
        ("{rate: {value: 15, unit: minute}}", RateRule(15, "minute")),
        (
            "{rate: {value: 1, unit: day, start_time: 2026-01-01T00:00:00Z}}",
            RateRule(1, "day", datetime(2026, 1, 1, tzinfo=UTC)),
        ),
    ],
)
def test_schedules(schedule: str, rule: Rule) -> None:
    (definition,) = read_trigger_file(one(schedule, ", kickoff_time_input_arg: at"), source="f", now=NOW)
    assert definition.key == TriggerKey("shop", "production", "report", "nightly")
    assert decode_automation(definition.automation_spec) == (rule, "at")


def test_everything_else_a_trigger_says() -> None:
    text = """
project: shop
domain: production
task_name: report
name: nightly
task_version: v7
schedule: {cron: "@hourly"}
inputs: {region: eu, limit: 5, ratio: 0.5, dry: false, day: 2026-01-31, at: 2026-01-31T01:00:00+01:00}
context: {owner: data}
active: false
description: words
revision: 3
"""
    (definition,) = read_trigger_file(text, source="f", now=NOW)
    assert (definition.task_version, definition.active, definition.description) == ("v7", False, "words")
    assert definition.expected_revision == 3
    instant = datetime(2026, 1, 31, tzinfo=UTC)
    assert definition.spec == encode_trigger_spec(
        active=False,
        inputs={"region": "eu", "limit": 5, "ratio": 0.5, "dry": False, "day": instant, "at": instant},
        context={"owner": "data"},
        task_version="v7",
        description="words",
    )


@pytest.mark.parametrize("form", ["triggers:\n- {0}\n- {1}\n", "- {0}\n- {1}\n", "---\n{0}\n---\n{1}\n---\n"])
def test_forms_of_a_file(form: str) -> None:
    triggers = [f'{{{KEYS}, name: {name}, schedule: {{cron: "@daily"}}}}' for name in ("a", "b")]
    definitions = read_trigger_file(form.format(*triggers), source="f", now=NOW)
    assert [definition.key.name for definition in definitions] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it holds no trigger; write a list under 'triggers:'"),
        ("triggers: []", "it holds no trigger"),
        ("triggers: nightly", "triggers: 'nightly' is not a list; begin each trigger with '- '"),
        ("triggers: [nightly]", "triggers[0]: 'nightly' is not a trigger"),
        ("a: [", "it is not YAML: "),
        ("cron: */5 * * * *", "put a value that begins with * in quotes"),
        ("triggers: []\nowner: me", "owner: is not known beside 'triggers'; remove it"),
        (one('{cron: "61 * * * *"}'), "triggers[0].schedule: "),
        (one('{cron: "0 0 30 2 *"}'), "can never fire"),
        (one('{cron: "@daily", timezone: Mars/Phobos}'), "Mars/Phobos"),
        (one('{cron: "@daily", rate: {value: 1, unit: day}}'), "exactly one of cron, cron_expression and rate"),
        (one("{}"), "exactly one of cron, cron_expression and rate"),
        (one("{rate: {value: 1, unit: day}, timezone: UTC}"), "has a timezone, which only goes with cron"),
        (one("{rate: {value: 0, unit: day}}"), "the rate's value is 0: set 1 to"),
        (one("{rate: {value: 1, unit: weeks}}"), "'weeks'"),
        (one('{rate: {value: "1", unit: day}}'), "triggers[0].schedule.rate.value: '1' must be a valid integer"),
        (
            one("{rate: {value: 1, unit: day, start_time: 2026-01-01T00:00:00}}"),
            "has no time zone; write one, such as Z",
        ),
        (one('{cron: "@daily"}', ", inputs: {a: [1]}"), "triggers[0].inputs: input 'a' is a list"),
        (one('{cron: "@daily"}', ", revision: 0"), "triggers[0].revision: '0' must be greater than or equal to 1"),
        (one('{cron: "@daily"}', ", nmae: x"), "triggers[0].nmae: 'x' is not known; remove it, or check its spelling"),
        (one('{cron: "@daily"}', ", description: 5"), "triggers[0].description: '5' must be text; put it in quotes"),
        (one('{cron: "@daily"}', ', active: "yes"'), "triggers[0].active: 'yes' must be a valid boolean"),
        ('{name: x, schedule: {cron: "@daily"}}', "trigger.project: is missing; add it"),
    ],
)
def test_faults_name_place_value_and_remedy(text: str, fault: str) -> None:
    assert any(fault in each for each in faults_of(text)), faults_of(text)


def test_all_faults_are_told_together() -> None:
    text = f"""
triggers:
- {{{KEYS}, name: a, schedule: {{cron: "x"}}, inputs: {{b: [], c: {{}}}}}}
- {{project: p}}
- {{{KEYS}, name: good, schedule: {{cron: "@daily"}}}}
- {{{KEYS}, name: good, schedule: {{cron: "@daily"}}}}
"""
    faults = faults_of(text)
    assert [fault.partition(":")[0] for fault in faults] == [
        "triggers[0].schedule",
        "triggers[0].inputs",
        "triggers[0].inputs",
        *(f"triggers[1].{name}" for name in ("domain", "task_name", "name", "task_version", "schedule")),
        "triggers[3]",
    ]
    assert "described at triggers[2] already" in faults[-1]
