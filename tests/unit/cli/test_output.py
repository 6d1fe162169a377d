import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

import pytest

from scheduler_worker.cli.output import cell, print_json, print_json_line, print_table


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Shown:
    name: str
    at: datetime


def test_json_has_one_form_for_each_kind_of_value(capsys: pytest.CaptureFixture[str]) -> None:
    taipei = timezone(timedelta(hours=8))
    print_json(
        {
            "at": datetime(2026, 3, 1, 20, 0, tzinfo=taipei),
            "fine": datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC),
            "every": timedelta(minutes=1, seconds=30),
            "spec": b"\x00\xff",
            "colour": Colour.RED,
            "tags": {"b", "a"},
            "shown": Shown("é", datetime(2026, 3, 1, tzinfo=UTC)),
        }
    )

    text = capsys.readouterr().out
    assert "é" in text
    assert text.endswith("}\n")
    assert json.loads(text) == {
        "at": "2026-03-01T12:00:00Z",
        "fine": "2026-03-01T12:00:00.000005Z",
        "every": "1m30s",
        "spec": "00ff",
        "colour": "red",
        "tags": ["a", "b"],
        "shown": {"name": "é", "at": "2026-03-01T00:00:00Z"},
    }


def test_a_json_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json_line({"next": [1, 2]})

    assert capsys.readouterr().out == '{"next": [1, 2]}\n'


def test_a_value_without_a_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        print_json({"odd": object()})


def test_a_table_in_a_pipe_is_neither_cut_nor_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    long_name = "n" * 500
    print_table("Triggers", ["name", "active", "next"], [[long_name, True, None], ["[red]markup[/red]", False, 3]])

    text = capsys.readouterr().out
    assert "Triggers" in text
    assert long_name in text
    assert "[red]markup[/red]" in text
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00Z"),
        (timedelta(hours=1), "1h"),
        (b"\x01", "01"),
        (Colour.RED, "red"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert cell(value) == shown
