"""An edit that the worker did not notice for a while, because the database was away or the process slept."""

from datetime import timedelta

from scheduler_worker.domain.schedule import CronRule
from tests.integration.stand import Stand

SECOND = timedelta(seconds=1)
EVERY_FIVE = CronRule("@every 5s")
EVERY_ONE = CronRule("@every 1s")


async def fire_by_the_old_schedule(stand: Stand, *rules: CronRule) -> None:
    """Deploy every five seconds, edit to `rules` at 1.1 s, 1.2 s ..., and fire second 5 as if there were no edit."""
    start = stand.clock.now
    await stand.table.deploy(rule=EVERY_FIVE, at=start)
    await stand.start(notify=False, resync_interval=timedelta(hours=1))
    stand.term.last_look._not_before = float("inf")  # as while the database does not answer
    for number, rule in enumerate(rules, start=1):
        await stand.table.deploy(rule=rule, at=start + SECOND + number * SECOND / 10)
    await stand.move_to(start + 5 * SECOND)
    await stand.service.wait_for_runs(1)
    await stand.settled()
    assert stand.runs() == [start + 5 * SECOND]


async def test_times_of_the_new_schedule_are_owed_though_the_old_one_fired_later_ones(stand: Stand) -> None:
    start = stand.clock.now
    await fire_by_the_old_schedule(stand, EVERY_ONE)
    await stand.sync()
    await stand.service.wait_for_runs(4)
    await stand.settled()
    assert stand.runs() == [start + number * SECOND for number in (2, 3, 4, 5)]


async def test_they_are_owed_also_when_the_worker_dies_before_it_notices(stand: Stand) -> None:
    start = stand.clock.now
    await fire_by_the_old_schedule(stand, CronRule("@every 3s"), EVERY_ONE)
    await stand.crash()
    await stand.start()
    await stand.service.wait_for_runs(4)
    await stand.settled()
    assert stand.runs() == [start + number * SECOND for number in (2, 3, 4, 5)]
    stored = await stand.table.sql("SELECT confirmed_through, revision FROM scheduler_progress")
    assert stored == [(start + 5 * SECOND, 3)]


async def test_a_pause_between_two_edits_forfeits_what_it_found_open(stand: Stand) -> None:
    start = stand.clock.now
    await fire_by_the_old_schedule(stand, EVERY_ONE)
    key = await stand.table.deploy(rule=EVERY_ONE, at=start + 2.5 * SECOND)
    await stand.table.set_active(key, False, at=start + 3.5 * SECOND)
    await stand.sync()
    await stand.settled()
    assert stand.runs() == [start + 5 * SECOND], "sent before anybody could know"
    assert await stand.table.unfired() == [
        ("n", start + 2 * SECOND, "paused"),
        ("n", start + 3 * SECOND, "paused"),
    ]
