"""The commands migrate, triggers and unfired, as they are typed."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.cli.main import run
from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.progress_store import ProgressStore, ProgressUpdate
from scheduler_worker.database.unfired_store import UnfiredFire, UnfiredStore
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.embedded_postgres import EmbeddedPostgres

T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
FILE = """
triggers:
- {project: shop, domain: production, task_name: report, name: nightly, task_version: v1,
   schedule: {cron: "0 2 * * *", timezone: Europe/Berlin}, kickoff_time_input_arg: at, inputs: {region: eu}}
- {project: shop, domain: production, task_name: a/b, name: often, task_version: v1,
   schedule: {rate: {value: 15, unit: minute}}, active: false}
"""
NIGHTLY = "shop/production/report/nightly"


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Type = Callable[..., Answer]


@pytest.fixture
def type_in(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Type:
    monkeypatch.delenv("SCHEDULER_DATABASE_URL", raising=False)

    def type_in(*arguments: str) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            run(arguments)
        captured = capsys.readouterr()
        code = exit_.value.code
        return Answer(code if isinstance(code, int) else 0, captured.out, captured.err)

    return type_in


@pytest.fixture
def database(database_url: str, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SCHEDULER_DATABASE_URL", database_url)
    return database_url


@pytest.fixture
def deployed(database: str, type_in: Type, tmp_path: Path) -> str:
    file = tmp_path / "triggers.yaml"
    file.write_text(FILE)
    assert type_in("triggers", "apply", str(file)).code == 0
    return database


def in_engine(url: str, work: Callable[[AsyncEngine], Any]) -> Any:
    async def run_it() -> Any:
        engine = create_engine(url)
        try:
            return await work(engine)
        finally:
            await engine.dispose()

    return asyncio.run(run_it())


# -- migrate -------------------------------------------------------------------------------------------------------


def test_migrate_says_what_it_did(empty_database_url: str, type_in: Type) -> None:
    url = ("--database-url", empty_database_url)
    assert type_in("migrate", "--check", *url).code == 1
    answer = type_in("migrate", "--no-notify", *url)
    assert answer.code == 0
    assert "The database is at revision 0002.\nApplied: 0001, 0002." in answer.out
    assert "not notified" in answer.out
    assert type_in("migrate", "--json", *url).json == {
        "revision": "0002",
        "applied": [],
        "pending": [],
        "hooks": "on",
    }
    assert type_in("migrate", "--check", *url).code == 0
    assert type_in("migrate", "--down-to", "base", "--json", *url).json["pending"] == ["0001", "0002"]


def test_bad_input_and_an_absent_database_have_their_own_codes(type_in: Type) -> None:
    for command in (["migrate"], ["triggers", "list"], ["unfired", "list"]):
        missing = type_in(*command)
        assert (missing.code, "SCHEDULER_DATABASE_URL" in missing.err) == (2, True)
        assert type_in(*command, "--database-url", "mysql://h").code == 2
        absent = type_in(*command, "--database-url", "postgresql://u:s3cr3t@/d?host=/nowhere")
        assert (absent.code, "s3cr3t" in absent.err) == (1, False)


def test_a_database_that_is_not_migrated_is_named_with_the_remedy(empty_database_url: str, type_in: Type) -> None:
    answer = type_in("triggers", "list", "--database-url", empty_database_url)
    assert answer.code == 1
    assert "bring it up to date with: scheduler-worker migrate" in answer.err


def test_a_user_without_rights_is_told_so(deployed: str, postgres: EmbeddedPostgres, type_in: Type) -> None:
    database = deployed.partition("?")[0].rpartition("/")[2]
    postgres.execute("CREATE ROLE nobody_special LOGIN", database)
    try:
        answer = type_in("triggers", "list", "--database-url", deployed.replace("postgres@", "nobody_special@"))
        assert (answer.code, "grant the right" in answer.err) == (1, True)
    finally:
        postgres.execute("DROP ROLE nobody_special", database)


# -- triggers ------------------------------------------------------------------------------------------------------


def test_apply_is_idempotent(database: str, type_in: Type, tmp_path: Path) -> None:
    file = tmp_path / "triggers.yaml"
    file.write_text(FILE)
    first = type_in("triggers", "apply", str(file), "--json").json
    assert [(each["name"], each["change"], each["revision"]) for each in first] == [
        ("nightly", "created", 1),
        ("often", "created", 1),
    ]
    assert [each["change"] for each in type_in("triggers", "apply", str(file), "--json").json] == ["unchanged"] * 2
    assert "created" not in type_in("triggers", "apply", str(file)).out


def test_a_conflict_and_a_bad_file_write_nothing(deployed: str, type_in: Type, tmp_path: Path) -> None:
    file = tmp_path / "triggers.yaml"
    file.write_text(FILE.replace("task_version: v1", "revision: 7, task_version: v2"))
    conflict = type_in("triggers", "apply", str(file))
    assert (conflict.code, "is at revision 1, not at revision 7" in conflict.err) == (1, True)
    file.write_text(FILE.replace("minute", "weeks").replace("0 2", "99 2"))
    bad = type_in("triggers", "apply", str(file))
    assert (bad.code, "2 faults" in bad.err) == (2, True)
    assert type_in("triggers", "apply", str(tmp_path / "missing.yaml")).code == 2
    assert {each["revision"] for each in type_in("triggers", "list", "--json").json} == {1}


def test_list_and_show_tell_state_schedule_and_times(deployed: str, type_in: Type) -> None:
    often, nightly = type_in("triggers", "list", "--json").json
    assert (nightly["state"], nightly["schedule"]) == ("active", "cron 0 2 * * * Europe/Berlin")
    assert nightly["next_fire"].endswith(("T00:00:00Z", "T01:00:00Z"))
    assert (often["state"], often["schedule"], often["next_fire"]) == ("paused", "every 15 minutes", None)
    assert [each["name"] for each in type_in("triggers", "list", "--json", "--task", "report").json] == ["nightly"]
    limited = type_in("triggers", "list", "--json", "--limit", "1")
    assert (len(limited.json), "more than these 1" in limited.err) == (1, True)
    update = ProgressUpdate(
        trigger_id=nightly["id"],
        confirmed_through=T0,
        revision=1,
        last_fire_time=T0,
        last_run_name="r1",
        last_outcome="created",
    )
    in_engine(deployed, lambda engine: ProgressStore(engine).write([update], touch_triggered_at=False))
    shown = type_in("triggers", "show", NIGHTLY, "--json").json
    assert (shown["last_fire"], shown["last_run_name"], shown["last_outcome"]) == (
        "2026-05-01T12:00:00Z",
        "r1",
        "created",
    )
    assert shown["inputs"].endswith("fire time as at")
    table = type_in("triggers", "list").out
    assert "nightly" in table
    assert "Europe/Berlin" in type_in("triggers", "show", NIGHTLY).out


def test_a_bad_row_is_listed_with_its_fault(deployed: str, postgres: EmbeddedPostgres, type_in: Type) -> None:
    database = deployed.partition("?")[0].rpartition("/")[2]
    postgres.execute("UPDATE triggers SET automation_spec = '\\xff' WHERE name = 'nightly'", database)
    shown = type_in("triggers", "show", NIGHTLY, "--json").json
    assert (shown["state"], shown["next_fire"]) == ("bad", None)
    assert "automation_spec" in shown["fault"]


def test_pause_resume_delete(deployed: str, type_in: Type) -> None:
    def change(command: str) -> tuple[str, int]:
        (written,) = type_in("triggers", command, NIGHTLY, "--json").json
        return written["change"], written["revision"]

    assert change("pause") == ("paused", 2)
    assert change("pause") == ("unchanged", 2)
    assert change("resume") == ("resumed", 3)
    assert change("delete") == ("deleted", 4)
    again = type_in("triggers", "delete", NIGHTLY)
    assert (again.code, NIGHTLY in again.err) == (1, True)
    assert [each["name"] for each in type_in("triggers", "list", "--json").json] == ["often"]
    assert len(type_in("triggers", "list", "--json", "--all").json) == 2


def test_keys_with_slashes_are_given_part_by_part(deployed: str, type_in: Type) -> None:
    slashed = type_in("triggers", "resume", "shop/production/a/b/often")
    assert (slashed.code, "--task" in slashed.err) == (2, True)
    parts = ("--project", "shop", "--domain", "production", "--task", "a/b", "--name", "often")
    assert type_in("triggers", "resume", *parts, "--json").json[0]["change"] == "resumed"
    assert type_in("triggers", "resume", NIGHTLY, *parts).code == 2
    assert type_in("triggers", "resume").code == 2
    assert type_in("triggers", "show", NIGHTLY, "a/b/c/d").code == 2


# -- unfired -------------------------------------------------------------------------------------------------------


def test_unfired_are_listed_and_asked_for(deployed: str, type_in: Type) -> None:
    key = TriggerKey("shop", "production", "report", "nightly")
    fires = [
        UnfiredFire(
            trigger_id=1,
            key=key,
            fire_time=T0.replace(hour=hour),
            run_name=f"r{hour}",
            reason="gave_up",
            code="UNKNOWN",
        )
        for hour in range(3)
    ]
    in_engine(deployed, lambda engine: UnfiredStore(engine).record(fires))
    newest, *_ = listed = type_in("unfired", "list", "--json").json
    assert len(listed) == 3
    assert (newest["fire_time"], newest["reason"], newest["code"]) == ("2026-05-01T02:00:00Z", "gave_up", "UNKNOWN")
    assert len(type_in("unfired", "list", "--json", "--until", "2026-05-01T02:00:00").json) == 2
    assert "gave_up" in type_in("unfired", "list", "--limit", "1").out
    assert type_in("unfired", "list", "--since", "yesterday").code == 2
    assert type_in("unfired", "list", "--reason", "boredom").code == 2

    assert type_in("unfired", "retry").code == 2
    assert type_in("unfired", "retry", str(newest["id"]), "--json").json == {"requested": 1}
    assert type_in("unfired", "retry", str(newest["id"])).code == 1
    assert type_in("unfired", "retry", "--all").out == "2 fire times are asked for.\n"
    assert all(each["retry_requested_at"] for each in type_in("unfired", "list", "--json").json)
