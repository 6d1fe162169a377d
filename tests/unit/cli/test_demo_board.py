import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console, RenderableType

from scheduler_worker.cli.demo_board import board, lateness_in_words, run_in_words
from scheduler_worker.cli.demo_tally import DemoRun, Tally
from scheduler_worker.cli.trigger_view import State, TriggerView

NOW = datetime(2026, 12, 1, 13, 30, 6, 400_000, tzinfo=UTC)
READY = {"role": "owner", "armed_triggers": 3, "queued_fires": 2}
KEY = "p/d/samples.heartbeat/every-five-seconds"


def view(**changes: Any) -> TriggerView:
    values: dict[str, Any] = {
        **dict.fromkeys(TriggerView.__dataclass_fields__),
        "project": "p",
        "domain": "d",
        "task_name": "samples.heartbeat",
        "name": "every-five-seconds",
        "state": State.ACTIVE,
        "schedule": "cron 30 8 * * MON-FRI Europe/Berlin",
        "next_fire": NOW.replace(second=9, microsecond=0),
        "last_fire": NOW.replace(second=0, microsecond=0),
        "last_run_name": "r-written",
        "last_lateness_ms": 4.2,
        **changes,
    }
    return TriggerView(**values)


def tally_of(*runs: tuple[datetime, str, float]) -> Tally:
    """Return the tally of a worker that started at NOW and settled these: fire time, run name, seconds late."""
    tally = Tally()
    tally.take_in({"event": "worker_started", "timestamp": NOW.isoformat(), "http": "127.0.0.1:1"})
    for fire_time, name, lateness in runs:
        tally.take_in(
            {
                "event": "run_created",
                "timestamp": (fire_time + timedelta(seconds=lateness)).isoformat(),
                "trigger": KEY,
                "fire_time": fire_time.isoformat(),
                "run_name": name,
                "outcome": "created",
                "lateness_seconds": lateness,
            }
        )
    return tally


def seen(picture: RenderableType, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(picture)
    return captured.get()


def test_a_narrow_terminal_sees_everything_of_a_trigger() -> None:
    text = seen(board([view()], READY, tally_of(), [], now=NOW))
    assert "Worker: owner · 3 armed · 0 runs · 0 of them caught up · 2 waiting" in text
    for part in ("every-five-seconds", "samples.heartbeat", "13:30:09Z", "in 3s", "13:30:00Z", "r-written", "4ms"):
        assert part in text
    assert "…" not in text


def test_the_latest_run_is_shown_before_it_is_written_down_and_not_after_a_later_one() -> None:
    ahead = tally_of((NOW.replace(second=4, microsecond=0), "r-seen", 0.012))
    behind = tally_of((NOW.replace(minute=29, second=55, microsecond=0), "r-seen", 0.012))
    assert "r-seen" in seen(board([view()], READY, ahead, [], now=NOW))
    assert "r-seen" not in seen(board([view()], READY, behind, [], now=NOW))
    assert "r-written" in seen(board([view()], READY, behind, [], now=NOW))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"state": State.PAUSED, "next_fire": None}, "paused"),
        ({"state": State.BAD, "next_fire": None}, "bad"),
        ({"next_fire": None}, "never"),
        ({"next_fire": datetime(2026, 12, 2, 7, 30, tzinfo=UTC)}, "Dec 02 07:30:00Z"),
        ({"next_fire": NOW - timedelta(seconds=1)}, "in 0s"),
        ({"schedule": "[red]markup[/]"}, "[red]markup[/]"),
    ],
)
def test_a_trigger_is_shown_as_it_is(changes: dict[str, Any], shown: str) -> None:
    assert shown in seen(board([view(**changes)], READY, tally_of(), [], now=NOW))


def test_a_worker_that_is_not_ready_says_why() -> None:
    assert "Worker: not answering · 0 runs" in seen(board([], {}, tally_of(), [], now=NOW))
    late = {"role": "owner", "reasons": ["no sync succeeded since yesterday"]}
    assert "no sync succeeded since yesterday" in seen(board([], late, tally_of(), [], now=NOW))


def test_only_fire_times_before_the_start_are_caught_up() -> None:
    before, after = NOW - timedelta(seconds=30), NOW + timedelta(seconds=2)
    settled: list[DemoRun] = []
    tally = Tally(on_run=settled.append)
    for event in (
        {"event": "sync_done"},
        {"event": "worker_started", "timestamp": NOW.isoformat(), "http": "127.0.0.1:1"},
        {"event": "fire_given_up"},
    ):
        tally.take_in(event)
    for fire_time, late in ((before, 31.0), (after, 0.25)):
        tally.take_in(
            {
                "event": "run_created",
                "timestamp": (fire_time + timedelta(seconds=late)).isoformat(),
                "trigger": KEY,
                "fire_time": fire_time.isoformat(),
                "run_name": "r1",
                "outcome": "already_exists",
                "lateness_seconds": late,
            }
        )

    assert (tally.runs[KEY], tally.caught_up[KEY], tally.unfired) == (2, 1, 1)
    assert tally.first_run_after == timedelta(seconds=1)
    assert tally.worst_live_lateness == timedelta(seconds=0.25)
    assert [run.is_caught_up for run in settled] == [True, False]
    assert run_in_words(settled[0]) == f"2026-12-01T13:29:36Z  {KEY}  r1  already_exists, 31s late (caught up)"


@pytest.mark.parametrize(
    ("lateness", "words"),
    [(0.0042, "4ms"), (-0.0042, "-4ms"), (9.8764, "9.876s"), (63.4, "1m3s"), (0.0, "0s")],
)
def test_a_lateness_has_no_more_digits_than_it_needs(lateness: float, words: str) -> None:
    assert lateness_in_words(timedelta(seconds=lateness)) == words
