import io
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from scheduler_worker.cli import next as next_command
from scheduler_worker.cli.next import MOST_FIRE_TIMES, answers, app

NOW = datetime(2026, 2, 27, 23, 58, 30, tzinfo=UTC)
VECTORS = Path(__file__).parents[1] / "vectors" / "cron.jsonl"


def call(*args: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(args), input=stdin)


def answer(line: bytes) -> dict[str, Any]:
    (text,) = answers([line], now=NOW)
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_fire_times_are_printed_one_a_line() -> None:
    result = call("0 9 * * 1-5", "--tz", "Europe/Berlin", "--after", "2026-02-27T23:58:30Z", "--count", "2")
    assert (result.exit_code, result.stdout) == (0, "2026-03-02T08:00:00Z\n2026-03-03T08:00:00Z\n")


def test_five_fire_times_after_now_are_the_default() -> None:
    before = datetime.now(UTC)
    result = call("* * * * *", "--json")
    times = [datetime.fromisoformat(time) for time in json.loads(result.stdout)["next"]]
    assert len(times) == 5
    assert times[0] > before


def test_every_counts_from_the_given_instant() -> None:
    result = call("@every 1h30m", "--after", "2026-01-01T00:00:00.9Z", "--count", "1", "--json")
    assert json.loads(result.stdout) == {"next": ["2026-01-01T01:30:00Z"]}


@pytest.mark.parametrize("after", ["2026-01-01", "2026-01-01T00:00", "2026-01-01T01:00+01:00", "2026-01-01T00:00:00Z"])
def test_an_instant_without_an_offset_is_in_utc(after: str) -> None:
    assert call("0 * * * *", "--after", after, "--count", "1").stdout == "2026-01-01T01:00:00Z\n"


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        (["0 9 * *"], "4 fields instead of 5"),
        (["0 9 * * *", "--tz", "Mars/Base"], "unknown time zone 'Mars/Base'"),
        (["0 9 * * *", "--after", "soon"], "after 'soon' is no instant"),
        (["0 0 30 2 *"], "never fires"),
        (["@every 99999h"], "set 1 second to 10 years"),
        ([], "EXPR"),
        (["0 9 * * *", "--count", "-1"], "count"),
        (["0 9 * * *", "--jsonl"], "not both"),
    ],
)
def test_bad_input_ends_with_code_two_and_a_message(args: list[str], fault: str) -> None:
    result = call(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert fault in result.stderr


def test_a_fault_is_json_too_when_asked_for() -> None:
    result = call("0 9 * *", "--json")
    assert result.exit_code == 2
    assert "4 fields" in json.loads(result.stdout)["error"]


def test_every_line_has_its_answer_in_order() -> None:
    lines = [
        b'{"expr": "0 9 * * *", "tz": "Asia/Tokyo", "after": "2026-02-27T23:58:30Z", "count": 1}',
        b"nonsense",
        b"",
        b'{"expr": "0 0 30 2 *", "count": 3}',
        b'{"expr": "* * * * *", "tz": null, "after": null, "count": 1, "id": "ignored"}',
    ]
    result = call("--jsonl", stdin=b"\n".join(lines))
    first, second, third, fourth, fifth = map(json.loads, result.stdout.splitlines())
    assert first == {"next": ["2026-02-28T00:00:00Z"]}
    assert second.keys() == third.keys() == {"error"}
    assert fourth == {"next": []}
    assert len(fifth["next"]) == 1
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"[1]", "no JSON object"),
        (b"{}", 'no "expr"'),
        (b'{"expr": 5}', "expr '5' is no text"),
        (b'{"expr": "* * * * *", "tz": 1}', "tz '1' is no text"),
        (b'{"expr": "* * * * *", "after": "then"}', "after 'then' is no instant"),
        (b'{"expr": "* * * * *", "count": true}', "count 'true' is no count"),
        (b'{"expr": "* * * * *", "count": 1.5}', "count '1.5' is no count"),
        (b'{"expr": "* * * * *", "count": -1}', "count '-1' is no count"),
        (b'{"expr": "* * * * *", "count": %d}' % (MOST_FIRE_TIMES + 1), "is no count"),
        (b'{"expr": "* * * * *", "count": %s}' % (b"9" * 5000), "no JSON"),
        (b'{"expr": "*\\ud800 * * * *"}', "is no value"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_a_malformed_line_is_answered_with_its_fault(line: bytes, fault: str) -> None:
    assert fault in answer(line)["error"]


def test_the_answer_is_written_before_the_next_question_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()

    class Questions:
        def __iter__(self) -> Iterator[bytes]:
            for number in range(3):
                assert written.getvalue().count("\n") == number
                yield b'{"expr": "* * * * *", "count": 1}'

    class Stdin:
        buffer = Questions()

    monkeypatch.setattr(sys, "stdin", Stdin())
    monkeypatch.setattr(sys, "stdout", written)
    next_command.next_fire_times(jsonl=True)
    assert written.getvalue().count("\n") == 3


def test_the_golden_questions_have_their_answers() -> None:
    rows = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()][:300]
    questions = [
        json.dumps({"expr": row["expr"], "tz": row["tz"], "after": row["after"], "count": len(row.get("next", []))})
        for row in rows
    ]
    found = [json.loads(line) for line in answers((question.encode() for question in questions), now=NOW)]
    for row, given in zip(rows, found, strict=True):
        assert given.keys() == {"error"} if row.get("error") else given == {"next": row["next"]}, row["id"]


def test_the_command_starts_without_the_heavy_parts() -> None:
    code = "import sys, scheduler_worker.cli.next; print(*{'grpc', 'sqlalchemy', 'apscheduler'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
