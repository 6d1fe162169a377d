"""What happens just before, at and just after a fire time."""

from datetime import timedelta

import pytest

from scheduler_worker.catch_up import CatchUpPolicy, CatchUpRules
from scheduler_worker.domain.schedule import CronRule
from scheduler_worker.run_service.mock_faults import Faults
from tests.integration.stand import MINUTE, Stand

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


async def test_a_timer_that_wakes_a_little_early_fires_once_and_names_the_full_minute(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.move_to(start + MINUTE - timedelta(milliseconds=3))
    await stand.sync()
    assert stand.runs() == []
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    await stand.settled()
    assert stand.runs() == [start + MINUTE]


async def test_a_pass_that_is_seconds_late_is_no_missed_time_for_the_policy(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start(rules=CatchUpRules(policy=CatchUpPolicy.NONE))
    await stand.move_to(start + MINUTE + 2 * SECOND)
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [start + MINUTE]
    assert await stand.table.unfired() == []


async def test_a_sync_right_after_a_fire_does_not_send_it_again(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    stand.clock.now += SECOND / 2
    await stand.sync()  # before the mark is written
    await stand.settled()
    assert stand.service.calls == 1


@pytest.mark.parametrize("same", [True, False], ids=["unchanged", "changed"])
async def test_jobs_that_are_replaced_across_a_fire_time_fire_it(stand: Stand, same: bool) -> None:
    start = stand.clock.now
    names = [f"n{number}" for number in range(20)]
    for name in names:
        await stand.table.deploy(name, at=start)
    await stand.start(notify=False, resync_interval=HOUR)
    for name in names:
        rule = CronRule("* * * * *" if same else "*/1 * * * *")
        await stand.table.deploy(name, rule, at=start + MINUTE - SECOND / 10)
    stand.clock.now = start + MINUTE + 4 * SECOND / 10  # no pass has looked at the full minute yet
    await stand.sync()
    await stand.service.wait_for_runs(20)
    await stand.settled()
    assert stand.runs() == [start + MINUTE] * 20
    assert {stand.runs(name)[0] for name in names} == {start + MINUTE}


async def test_two_triggers_with_one_schedule_are_two_runs(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy("one", at=start)
    await stand.table.deploy("two", at=start)
    await stand.start()
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(2)
    assert stand.runs("one") == stand.runs("two") == [start + MINUTE]
    assert len({request.run_id.name for request in stand.service.requests}) == 2


async def test_calls_that_outlast_the_interval_do_not_hold_the_next_fires(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    stand.service.faults = Faults(latency_ms=400)
    for number in range(1, 6):
        await stand.move_to(start + number * MINUTE)
        await stand.until(lambda number=number: stand.service.calls == number)  # type: ignore[misc]  # of this turn
    assert stand.service.in_flight > 1, "one after the other: nothing is shown"
    await stand.service.wait_for_runs(5)
    await stand.settled()
    assert stand.runs() == [start + number * MINUTE for number in range(1, 6)]


async def test_a_mark_that_could_not_be_written_once_is_written_later(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.table.sql("ALTER TABLE scheduler_progress ADD CONSTRAINT refuse CHECK (last_run_name IS NULL)")
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    await stand.until(lambda: stand.term.progress.pending != 0)
    assert not await stand.term.progress.try_to_write()
    await stand.table.sql("ALTER TABLE scheduler_progress DROP CONSTRAINT refuse")
    await stand.move_to(start + 2 * MINUTE)
    await stand.service.wait_for_runs(2)
    await stand.settled()
    assert stand.runs() == [start + MINUTE, start + 2 * MINUTE]
    assert await stand.table.sql("SELECT confirmed_through FROM scheduler_progress") == [(start + 2 * MINUTE,)]


async def test_missed_times_that_policy_skips_are_counted_once(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start - 101 * MINUTE)
    await stand.start(rules=CatchUpRules(policy=CatchUpPolicy.LATEST))
    await stand.service.wait_for_runs(1)
    for _ in range(3):
        await stand.sync()
    await stand.settled()
    assert stand.runs() == [start]
    assert len(await stand.table.unfired()) == 100
    labels = {"reason": "catchup_policy_latest"}
    counted = stand.metrics.registry.get_sample_value("scheduler_unfired_total", labels)
    assert counted == 100


async def test_a_schedule_moved_away_from_tonight_does_not_fire_tonight(stand: Stand) -> None:
    noon = stand.clock.now.replace(hour=12, minute=0)
    stand.clock.now = noon - HOUR
    await stand.table.deploy(rule=CronRule("0 23 * * *"), at=noon - HOUR)
    await stand.start()
    await stand.table.deploy(rule=CronRule("0 5 * * *"), at=noon)
    await stand.sync()
    await stand.move_to(noon + 12 * HOUR)
    await stand.sync()
    assert stand.runs() == []
    await stand.move_to(noon + 17 * HOUR)
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [noon + 17 * HOUR]


async def test_a_paused_time_is_not_made_up_for(stand: Stand) -> None:
    start = stand.clock.now
    key = await stand.table.deploy(at=start)
    await stand.start()
    await stand.table.set_active(key, False, at=start + 30 * SECOND)
    await stand.sync()
    await stand.move_to(start + 3 * MINUTE + 20 * SECOND)
    await stand.sync()
    await stand.table.set_active(key, True, at=start + 3 * MINUTE + 30 * SECOND)
    stand.clock.now = start + 3 * MINUTE + 31 * SECOND
    await stand.sync()
    await stand.move_to(start + 4 * MINUTE)
    await stand.service.wait_for_runs(1)
    await stand.settled()
    assert stand.runs() == [start + 4 * MINUTE]
    assert await stand.table.unfired() == []


async def test_a_name_that_is_deployed_again_owes_nothing_of_its_former_life(stand: Stand) -> None:
    start = stand.clock.now
    key = await stand.table.deploy(at=start)
    await stand.start()
    await stand.table.delete(key, at=start + 30 * SECOND)
    await stand.sync()
    await stand.stop()
    await stand.table.deploy(at=start + 3 * MINUTE + 30 * SECOND)
    stand.clock.now = start + 3 * MINUTE + 40 * SECOND
    await stand.start()
    await stand.settled()
    assert stand.runs() == []
    await stand.move_to(start + 4 * MINUTE)
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [start + 4 * MINUTE]


async def test_the_difference_to_the_databases_clock_is_measured(stand: Stand) -> None:
    stand.clock.now += HOUR
    await stand.start()
    skew = stand.metrics.registry.get_sample_value("scheduler_database_clock_skew_seconds")
    assert skew == pytest.approx(-3600, abs=61)  # the clock of the stand stands at the start of the minute
