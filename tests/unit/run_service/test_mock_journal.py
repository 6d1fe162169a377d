"""The mock's journal: one line per CreateRun, readable after any end of the process."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scheduler_worker.run_service.mock_journal import Journal, JournalEntry, RunKey


def entry(name: str, outcome: str = "created", run_start_time: datetime | None = None) -> JournalEntry:
    return JournalEntry(
        received_at=datetime(2026, 1, 1, 0, 0, 1, 5, tzinfo=UTC),
        run_name=name,
        project="p",
        domain="d",
        task_name="t",
        trigger="n",
        run_start_time=run_start_time,
        outcome=outcome,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_a_line_has_the_documented_fields(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(entry("r1", run_start_time=datetime(2026, 1, 1, tzinfo=UTC)))
    assert json.loads(path.read_text()) == {
        "received_at": "2026-01-01T00:00:01.000005+00:00",
        "run_name": "r1",
        "project": "p",
        "domain": "d",
        "task_name": "t",
        "trigger": "n",
        "run_start_time": "2026-01-01T00:00:00.000000+00:00",
        "outcome": "created",
    }


def test_a_missing_start_time_is_null() -> None:
    assert json.loads(entry("r1").as_line())["run_start_time"] is None


def test_a_line_is_in_the_file_before_the_journal_is_closed(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(entry("r1"))
        assert path.read_bytes().endswith(b"\n")


def test_created_runs_are_known_after_a_restart(path: Path) -> None:
    with Journal(path) as journal:
        for name, outcome in (("r1", "created"), ("r2", "UNAVAILABLE"), ("r1", "already_exists"), ("r3", "created")):
            journal.append(entry(name, outcome))
    with Journal(path) as journal:
        assert list(journal.created_runs()) == [RunKey("p", "d", "r1"), RunKey("p", "d", "r3")]


@pytest.mark.parametrize("length", [1, 15, 20, 100])
def test_a_line_torn_by_a_kill_is_cut_off(path: Path, length: int) -> None:
    path.write_bytes(entry("r1").as_line() + entry("r2").as_line()[:length])
    with Journal(path) as journal:
        assert list(journal.created_runs()) == [RunKey("p", "d", "r1")]
        journal.append(entry("r3"))
    assert path.read_bytes() == entry("r1").as_line() + entry("r3").as_line()


@pytest.mark.parametrize("line", ["hello", "[]", "{}", '"text"'])
def test_a_file_that_is_no_journal_is_refused_by_line(path: Path, line: str) -> None:
    path.write_bytes(entry("r1").as_line() + line.encode() + b"\n")
    with Journal(path) as journal, pytest.raises(ValueError, match=f"{path}, line 2: no journal entry"):
        list(journal.created_runs())


def test_somebody_elses_last_line_is_not_cut_off(path: Path) -> None:
    path.write_text("hello")
    with Journal(path) as journal, pytest.raises(ValueError, match="line 1: no journal entry"):
        list(journal.created_runs())
    assert path.read_text() == "hello"
