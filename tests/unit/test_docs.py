import re
from pathlib import Path

import pytest

from scheduler_worker.cli.config import default_of
from scheduler_worker.cli.main import COMMANDS
from scheduler_worker.config import Settings
from scheduler_worker.config.sources import FLYTE_KEYS
from scheduler_worker.domain.outcomes import UnfiredReason
from scheduler_worker.telemetry.events import EVENTS
from scheduler_worker.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SUFFIXES = {"counter": "_total", "info": "_info"}


def table(header: str, text: str = README) -> list[list[str]]:
    """Return the rows of the table that begins with `header`."""
    lines = text[text.index(f"\n{header}\n") + 1 :].splitlines()
    rows: list[list[str]] = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def written_default(name: str) -> str:
    if Settings.model_fields[name].is_required():
        return "required"
    default = default_of(name)
    if default is None or default == "":
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_every_setting_is_described_as_it_is() -> None:
    expected = [
        [f"`{name}`", written_default(name), field.description or ""] for name, field in Settings.model_fields.items()
    ]

    assert table("| setting | default | meaning |") == expected


def test_flytes_keys_are_listed() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in table("| Flyte's key | setting |")}

    assert {key: name for key, name in listed.items() if "triggerScheduler" in key} == {
        f"runs.triggerScheduler.{key}": name for key, name in FLYTE_KEYS.items()
    }


def test_every_command_is_listed() -> None:
    expected = [[f"`{name}`", command.summary] for name, command in COMMANDS.items()]

    assert table("| command | does |") == expected


def test_every_metric_is_described_as_it_is() -> None:
    expected = [
        [f"`{metric.name}{SUFFIXES.get(metric.type, '')}`", metric.type, metric.documentation]
        for metric in Metrics().registry.collect()
        if not metric.name.startswith("scheduler_process")
    ]

    assert table("| metric | kind | meaning |")[:-1] == expected


def test_alerts_are_built_on_metrics_that_are_there() -> None:
    known = {metric.name + SUFFIXES.get(metric.type, "") for metric in Metrics().registry.collect()}
    named = {
        name.removesuffix("_bucket")
        for row in table("| alert | when | what to do |")
        for name in re.findall(r"scheduler_\w+", " ".join(row[1:]))
    }

    assert named
    assert named <= known


def test_every_event_and_every_reason_is_listed() -> None:
    assert table("| event | meaning |") == [[f"`{name}`", meaning] for name, meaning in EVENTS.items()]
    reasons = {name for row in table("| reason | meaning |") for name in re.findall(r"`(\w+)`", row[0])}
    assert reasons == {reason.value for reason in UnfiredReason}


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_commands_targets_and_paths_that_are_named_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))

    assert set(re.findall(r"(?:`|^ {4})make ([a-z]+)", text, flags=re.MULTILINE)) <= targets
    assert set(re.findall(r"scheduler-worker ([a-z][a-z-]*)", text)) <= {*COMMANDS, "config"}
    for path in re.findall(r"`((?:scheduler_worker|tests|migrations|protos|\.ci)/[\w./]*)`", text):
        assert (ROOT / path).exists(), path
