import json
from pathlib import Path

import pytest

from scheduler_worker.cli import main
from scheduler_worker.config import Settings


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULER_DATABASE_URL", "postgresql://me:hunter2@db/flyte?sslmode=disable")
    monkeypatch.setenv("SCHEDULER_RUN_SERVICE_URL", "runs:8090")
    monkeypatch.delenv("SCHEDULER_CONFIG_FILE", raising=False)


def exit_code(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as exit_info:
        main.run(["config", *arguments])
    return exit_info.value.code


def test_fine_settings_are_said_to_be_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("check") == 0
    assert capsys.readouterr().out == "The settings are fine.\n"
    assert exit_code("check", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "faults": []}


def test_faulty_settings_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SCHEDULER_RESYNC_INTERVAL", "30")
    monkeypatch.setenv("SCHEDULER_NOTIFY", "si")

    assert exit_code("check") == main.EXIT_BAD_INPUT
    shown = capsys.readouterr().err
    assert "2 faults" in shown
    assert "SCHEDULER_RESYNC_INTERVAL: " in shown
    assert exit_code("check", "--json") == main.EXIT_BAD_INPUT
    assert len(json.loads(capsys.readouterr().out)["faults"]) == 2


def test_every_setting_is_shown_with_its_origin_and_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("runs: {triggerScheduler: {resyncInterval: 1m}}")

    assert exit_code("show", "--json", "--config", str(file)) == 0
    text = capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads(text)}
    assert list(rows) == list(Settings.model_fields)
    assert rows["database_url"]["value"] == "postgresql://me@db/flyte"
    assert rows["resync_interval"]["value"] == "1m"
    assert rows["resync_interval"]["origin"] == f"runs.triggerScheduler.resyncInterval in {file}"
    assert rows["catchup_window"] == {
        "name": "catchup_window",
        "value": "unlimited",
        "origin": "default",
        "variable": "SCHEDULER_CATCHUP_WINDOW",
        "meaning": Settings.model_fields["catchup_window"].description,
    }
    assert all(row["meaning"] for row in rows.values())

    assert exit_code("show") == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in text + shown
    assert "SCHEDULER_RUN_SERVICE_URL" in shown


def test_settings_are_listed_even_when_they_are_faulty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCHEDULER_TYPO", "1")

    assert exit_code("list", "--json") == 0
    rows = {row["variable"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["SCHEDULER_RESYNC_INTERVAL"]["default"] == "30s"
    assert rows["SCHEDULER_CATCHUP_WINDOW"]["default"] == "unlimited"
    assert rows["SCHEDULER_DATABASE_URL"]["default"] is None
    assert exit_code("list") == 0
    assert "SCHEDULER_RESYNC_INTERVAL" in capsys.readouterr().out
