"""From deploy to delete: what a trigger fires, and what it must not."""

from datetime import timedelta

from scheduler_worker.domain.schedule import CronRule, RateRule
from scheduler_worker.run_service.codec import encode_trigger_spec
from tests.integration.stand import MINUTE, Stand

SECOND = timedelta(seconds=1)


async def test_deploy_edit_pause_resume_delete(stand: Stand) -> None:
    start = stand.clock.now
    await stand.start()
    key = await stand.table.deploy(at=start + 10 * SECOND)
    await stand.until(lambda: len(stand.term.scheduler.store) == 1)
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)

    await stand.table.deploy(rule=CronRule("*/2 * * * *"), at=start + MINUTE + SECOND)
    await stand.until(lambda: stand.term.triggers.known.get(1) == 2)
    for minutes in (2, 3, 4):
        await stand.move_to(start + minutes * MINUTE)
    every_second = [start + n * MINUTE for n in range(1, 5) if n == 1 or (start + n * MINUTE).minute % 2 == 0]
    await stand.service.wait_for_runs(len(every_second))
    assert stand.runs() == every_second

    await stand.table.set_active(key, False, at=start + 4 * MINUTE + SECOND)
    await stand.until(lambda: len(stand.term.scheduler.store) == 0)
    await stand.move_to(start + 5 * MINUTE)
    await stand.move_to(start + 6 * MINUTE)
    await stand.table.set_active(key, True, at=start + 6 * MINUTE + SECOND)
    await stand.until(lambda: len(stand.term.scheduler.store) == 1)
    await stand.move_to(start + 7 * MINUTE)
    await stand.move_to(start + 8 * MINUTE)
    resumed = [start + n * MINUTE for n in (7, 8) if (start + n * MINUTE).minute % 2 == 0]
    await stand.service.wait_for_runs(len(every_second) + len(resumed))

    await stand.table.delete(key, at=start + 8 * MINUTE + SECOND)
    await stand.until(lambda: len(stand.term.scheduler.store) == 0)
    await stand.move_to(start + 9 * MINUTE)
    await stand.move_to(start + 10 * MINUTE)
    await stand.sync()
    await stand.settled()
    assert stand.runs() == every_second + resumed
    assert await stand.table.unfired() == []


async def test_a_trigger_first_seen_after_its_fire_time_still_fires(stand: Stand) -> None:
    start = stand.clock.now
    await stand.start(notify=False)
    await stand.table.deploy(at=start + 50 * SECOND)
    await stand.move_to(start + 65 * SECOND)
    await stand.sync()
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [start + MINUTE]


async def test_an_edit_followed_by_a_restart_fires_nothing_from_before_the_edit(stand: Stand) -> None:
    start = stand.clock.now
    hour = start.replace(minute=0)
    stand.clock.now = hour
    await stand.table.deploy(rule=CronRule("0 0 1 1 *"), at=hour - timedelta(days=1))
    await stand.start()
    await stand.table.deploy(at=hour + 61 * SECOND)
    await stand.until(lambda: stand.term.triggers.known.get(1) == 2)
    await stand.stop()
    stand.clock.now = hour + 119 * SECOND
    await stand.start()
    await stand.settled()
    assert stand.runs() == []
    await stand.move_to(hour + 2 * MINUTE)
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [hour + 2 * MINUTE]


async def test_what_was_open_when_a_trigger_was_paused_is_recorded_and_not_sent(stand: Stand) -> None:
    start = stand.clock.now
    key = await stand.table.deploy(at=start - SECOND)
    await stand.start()
    await stand.stop()
    await stand.table.set_active(key, False, at=start + 130 * SECOND)
    stand.clock.now = start + 10 * MINUTE
    await stand.start()
    await stand.settled()
    paused = [start, start + MINUTE, start + 2 * MINUTE]
    assert stand.runs() == paused[:1]
    assert await stand.table.unfired() == [("n", time, "paused") for time in paused[1:]]


async def test_a_bad_row_harms_only_itself_and_recovers_with_an_edit(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy("good", at=start - SECOND)
    await stand.table.deploy("zone", CronRule("* * * * *", "Mars/Phobos"), at=start - SECOND)
    await stand.table.deploy("cron", CronRule("0 0 30 2 *"), at=start - SECOND)
    await stand.table.deploy("rate", RateRule(0, "minute"), at=start - SECOND)
    await stand.table.deploy("bytes", automation_spec=b"\xff\xff\xff", at=start - SECOND)
    await stand.table.deploy("empty", automation_spec=b"", at=start - SECOND)
    await stand.start()
    assert len(stand.term.triggers.bad_rows) == 5
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(2)
    assert {request.trigger_name.name for request in stand.service.requests} == {"good"}
    await stand.table.deploy("zone", at=start + MINUTE + SECOND)
    await stand.until(lambda: len(stand.term.triggers.bad_rows) == 4)
    await stand.move_to(start + 2 * MINUTE)
    await stand.service.wait_for_runs(4)
    assert stand.runs("zone") == [start + 2 * MINUTE]


async def test_inputs_reach_the_run_with_the_fire_time(stand: Stand) -> None:
    start = stand.clock.now
    spec = encode_trigger_spec(active=True, inputs={"x": 1, "when": "replaced"}, context={"who": "me"})
    await stand.table.deploy(at=start - SECOND, spec=spec, kickoff="when")
    await stand.start()
    await stand.service.wait_for_runs(1)
    (request,) = stand.service.requests
    literals = {literal.name: literal.value.scalar.primitive for literal in request.inputs.literals}
    assert literals["x"].integer == 1
    assert literals["when"].datetime.ToSeconds() == start.timestamp() == request.run_start_time.ToSeconds()
    assert [(pair.key, pair.value) for pair in request.inputs.context] == [("who", "me")]


async def test_two_triggers_whose_run_names_collide_do_not_both_fire(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy("a:b", at=start - SECOND)
    await stand.table.sql("UPDATE triggers SET task_name = 't:a', name = 'b' WHERE name = 'a:b'")
    await stand.table.sql("UPDATE trigger_revisions SET task_name = 't:a', name = 'b' WHERE name = 'a:b'")
    await stand.table.deploy("a:b", at=start - SECOND)
    await stand.start()
    assert len(stand.term.scheduler.store) == 1
    (fault,) = stand.term.triggers.bad_rows.values()
    assert "run names" in fault
