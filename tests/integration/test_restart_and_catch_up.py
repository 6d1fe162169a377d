"""What is owed over restarts, crashes and outages: everything, once, and never more at a time than the cap."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler_worker.catch_up import CatchUpPolicy, CatchUpRules
from scheduler_worker.domain.schedule import CronRule, RateRule
from scheduler_worker.run_service.mock_faults import Faults
from tests.integration.stand import MINUTE, OPTIONS, Stand

SECOND = timedelta(seconds=1)


async def test_a_restart_catches_up_in_portions_until_nothing_is_owed(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start - 200 * MINUTE - SECOND)
    stand.options = replace(OPTIONS, rules=CatchUpRules(max_runs=50), resync_interval=timedelta(hours=1))
    await stand.start(notify=False)
    await stand.settled()
    assert len(stand.runs()) == 50
    await stand.stop()
    await stand.start(notify=False)
    await stand.settled()
    assert len(stand.runs()) == 100
    await stand.crash()
    await stand.start(notify=False)
    for _ in range(3):
        await stand.settled()
        await stand.sync()
    await stand.settled()
    assert stand.runs() == [start - n * MINUTE for n in reversed(range(201))]


async def test_live_fires_go_before_a_backlog_of_another_trigger(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy("backlog", at=start - 5000 * MINUTE - SECOND)
    await stand.table.deploy("live", RateRule(1, "minute", start + MINUTE), at=start)
    limits = replace(OPTIONS.limits, qps=5.0, burst=1)
    await stand.start(limits=limits, rules=CatchUpRules(max_runs=5000))
    await stand.service.wait_for_runs(3)
    already_sent = len(stand.runs())
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.runs("live") == [start + MINUTE])
    assert len(stand.runs("backlog")) - already_sent <= 3


@pytest.mark.parametrize(
    ("policy", "fired", "recorded"),
    [(CatchUpPolicy.ALL, 11, 0), (CatchUpPolicy.LATEST, 1, 10), (CatchUpPolicy.NONE, 0, 11)],
)
async def test_the_policy_decides_what_becomes_of_missed_times(
    stand: Stand, policy: CatchUpPolicy, fired: int, recorded: int
) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start - 10 * MINUTE - SECOND)
    await stand.start(rules=CatchUpRules(policy=policy))
    await stand.settled()
    assert len(stand.runs()) == fired
    assert len(await stand.table.unfired()) == recorded
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(fired + 1)
    assert stand.runs()[-1] == start + MINUTE


async def test_progress_of_another_scheduler_is_taken_over(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start - 60 * MINUTE)
    await stand.table.sql("UPDATE triggers SET triggered_at = :at", at=start - 3 * MINUTE + SECOND)
    await stand.start()
    await stand.settled()
    assert stand.runs() == [start - 2 * MINUTE, start - MINUTE, start]


async def test_a_run_by_hand_hides_no_owed_time(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start - 5 * MINUTE)
    await stand.start()
    await stand.settled()
    await stand.stop()
    sent = len(stand.runs())
    stand.clock.now = start + 5 * MINUTE
    await stand.table.sql("UPDATE triggers SET triggered_at = :at", at=start + 4 * MINUTE)
    await stand.start()
    await stand.settled()
    assert stand.runs()[sent:] == [start + n * MINUTE for n in range(1, 6)]


async def test_a_run_by_hand_hides_nothing_of_a_trigger_that_was_only_armed_yet(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.stop()
    stand.clock.now = start + 5 * MINUTE
    await stand.table.sql("UPDATE triggers SET triggered_at = :at", at=start + 4 * MINUTE)
    await stand.start()
    await stand.settled()
    assert stand.runs() == [start + n * MINUTE for n in range(1, 6)]


async def test_a_fixed_rate_keeps_its_grid_over_a_restart(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(rule=RateRule(10, "minute"), at=start - 7 * MINUTE)
    await stand.start()
    await stand.move_to(start + 3 * MINUTE)
    await stand.service.wait_for_runs(1)
    await stand.stop()
    stand.clock.now = start + 27 * MINUTE
    await stand.start()
    await stand.settled()
    assert stand.runs() == [start + n * MINUTE for n in (3, 13, 23)]


async def test_a_trigger_that_never_was_due_fires_nothing_at_a_restart(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(rule=CronRule("0 0 29 2 *"), at=start)
    await stand.start()
    await stand.stop()
    await stand.start()
    await stand.settled()
    assert stand.runs() == []


async def test_missed_times_are_asked_for_before_they_are_sent(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start - 2 * MINUTE - SECOND)
    await stand.start()
    await stand.settled()
    await stand.crash()
    await stand.table.sql("DELETE FROM scheduler_progress")
    await stand.table.sql("UPDATE triggers SET triggered_at = NULL")
    calls = stand.service.calls
    await stand.start()
    await stand.settled()
    assert stand.service.calls == calls
    assert await stand.table.sql("SELECT last_outcome FROM scheduler_progress") == [("found",)]


async def test_a_repeated_name_is_settled_as_a_success(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    await stand.crash()
    await stand.table.sql("DELETE FROM scheduler_progress")
    await stand.table.sql("UPDATE triggers SET triggered_at = NULL")
    stand.service.faults = Faults(run_details="unimplemented")
    await stand.start()
    await stand.settled()
    assert stand.service.calls == 2
    assert await stand.table.sql("SELECT last_outcome FROM scheduler_progress") == [("already_exists",)]


async def test_a_process_that_slept_catches_up_within_the_cap(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start(rules=CatchUpRules(max_runs=100), resync_interval=timedelta(hours=1), notify=False)
    await stand.move_to(start + timedelta(days=1))
    await stand.until(lambda: len(stand.runs()) >= 100)
    await stand.settled()
    assert len(stand.runs()) <= 102
    for _ in range(15):
        await stand.sync()
        await stand.settled()
    assert stand.runs() == [start + n * MINUTE for n in range(1, 1441)]


async def test_a_clock_that_goes_back_fires_nothing_twice(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    await stand.move_to(start + MINUTE - 30 * SECOND)
    await stand.sync()
    await stand.move_to(start + MINUTE + SECOND)
    await stand.move_to(start + 2 * MINUTE)
    await stand.service.wait_for_runs(2)
    assert stand.runs() == [start + MINUTE, start + 2 * MINUTE]
