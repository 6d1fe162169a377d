"""The golden file: expressions with the fire times that the Go library and the rule of time zones give."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler_worker.domain.cron import CronSchedule, parse_standard
from scheduler_worker.domain.cron_text import Every
from scheduler_worker.domain.fixed_rate import FixedRateSchedule
from scheduler_worker.domain.schedule import CronRule, Schedule, schedule_of
from scheduler_worker.domain.zones import utc_text
from scheduler_worker.errors import ScheduleError

VECTORS = Path(__file__).parents[1] / "vectors" / "cron.jsonl"
ROWS: dict[str, dict[str, Any]] = {row["id"]: row for row in map(json.loads, VECTORS.read_text("utf-8").splitlines())}

# These rows ask `@daily` what their twins ask `0 0 * * *`, but carry the answer of the Go library, which loses the
# first midnight after the change. The twins carry the answer of the rule, and both texts mean the same.
TWINS = {"dst-168": "dst-156", "dst-187": "dst-175", "dst-605": "dst-593"}


def expected_times(row: dict[str, Any]) -> list[str]:
    times: list[str] = ROWS[TWINS.get(row["id"], row["id"])]["next"]
    return times


def schedule_for(row: dict[str, Any]) -> Schedule:
    parsed = parse_standard(row["expr"], row["tz"])
    if isinstance(parsed, Every):
        return FixedRateSchedule(datetime.fromisoformat(row["after"]), parsed.interval, fires_at_anchor=False)
    return parsed


def times_of(row: dict[str, Any]) -> list[str]:
    schedule = schedule_for(row)
    times: list[str] = []
    fire_time: datetime | None = datetime.fromisoformat(row["after"])
    for _ in expected_times(row):
        assert fire_time is not None
        fire_time = schedule.next_after(fire_time)
        assert fire_time is not None
        assert fire_time.tzinfo is UTC
        assert fire_time.microsecond == 0
        times.append(utc_text(fire_time))
    return times


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.get("next")], ids=lambda row: row["id"])
def test_a_schedule_fires_at_the_recorded_times(row: dict[str, Any]) -> None:
    assert times_of(row) == expected_times(row)


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.get("error")], ids=lambda row: row["id"])
def test_a_faulty_expression_is_refused_with_its_fault(row: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_standard(row["expr"], row["tz"])
    assert ":" in str(caught.value) or ";" in str(caught.value), "a fault and its remedy"


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.get("ends")], ids=lambda row: row["id"])
def test_an_expression_that_never_fires_is_refused_as_a_schedule(row: dict[str, Any]) -> None:
    after = datetime.fromisoformat(row["after"])
    parsed = parse_standard(row["expr"], row["tz"])
    assert isinstance(parsed, CronSchedule)
    assert parsed.next_after(after) is None
    with pytest.raises(ScheduleError, match="can never fire"):
        schedule_of(CronRule(row["expr"], row["tz"]), activated_at=after)


def test_the_rows_with_a_twin_ask_the_same_question() -> None:
    for row_id, twin_id in TWINS.items():
        row, twin = ROWS[row_id], ROWS[twin_id]
        assert (row["expr"], twin["expr"]) == ("@daily", "0 0 * * *")
        assert (row["tz"], row["after"]) == (twin["tz"], twin["after"])


@pytest.fixture(params=["Europe/London", "Australia/Sydney", "America/New_York"])
def host_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_the_zone_of_the_host_has_no_say(host_zone: str) -> None:
    assert time.tzname != ("UTC", "UTC")
    for row in ROWS.values():
        if row.get("next"):
            assert times_of(row) == expected_times(row), row["id"]
