import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler_worker.domain.run_name import run_name
from scheduler_worker.domain.trigger import TriggerKey

VECTORS = Path(__file__).parents[1] / "vectors" / "run_names.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]
KEY = TriggerKey("flytesnacks", "development", "env.hello", "nightly")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["run_name"])
def test_a_run_is_named_as_go_names_it(row: dict[str, Any]) -> None:
    key = TriggerKey(row["project"], row["domain"], row["task_name"], row["name"])
    assert run_name(key, datetime.fromisoformat(row["fire_time"])) == row["run_name"]


def test_some_golden_name_is_unpadded() -> None:
    assert any(len(row["run_name"]) < 17 for row in ROWS)


def test_the_name_is_of_the_instant_not_of_the_zone() -> None:
    here = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    there = datetime.fromisoformat("2026-10-25T02:30:00.999+02:00")
    assert run_name(KEY, here) == run_name(KEY, there)


def test_the_two_fires_of_a_reading_that_comes_twice_have_two_names() -> None:
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert run_name(KEY, first) != run_name(KEY, second)


def test_keys_that_differ_only_in_where_a_colon_stands_share_a_name() -> None:
    fire_time = datetime(2026, 1, 1, tzinfo=UTC)
    left, right = TriggerKey("p", "d", "a:b", "c"), TriggerKey("p", "d", "a", "b:c")
    assert run_name(left, fire_time) == run_name(right, fire_time)


def test_a_naive_fire_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no UTC offset"):
        run_name(KEY, datetime(2026, 1, 1))  # noqa: DTZ001  that is the fault
