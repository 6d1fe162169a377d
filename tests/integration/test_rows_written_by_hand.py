"""Rows may be written by anyone by SQL, also without the history and the times that Flyte writes."""

from datetime import timedelta

from scheduler_worker.domain.schedule import CronRule
from scheduler_worker.run_service.codec import encode_automation
from tests.integration.stand import MINUTE, Stand

SECOND = timedelta(seconds=1)
YEARLY = CronRule("0 0 1 1 *")


async def test_an_edit_that_moves_no_time_counts_from_when_it_is_seen(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(rule=YEARLY, at=start - timedelta(hours=5))
    await stand.start()
    await stand.move_to(start + 10 * SECOND)
    await stand.table.sql(
        "UPDATE triggers SET automation_spec = :spec, latest_revision = latest_revision + 1",
        spec=encode_automation(CronRule("* * * * *"), ""),
    )
    await stand.until(lambda: stand.term.triggers.known.get(1) == 2)
    await stand.settled()
    assert stand.runs() == []
    await stand.stop()
    stand.clock.now = start + 50 * SECOND
    await stand.start()
    await stand.settled()
    assert stand.runs() == [], "a restart must not make the edit retroactive"
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [start + MINUTE]


async def test_an_edit_without_a_snapshot_keeps_what_the_old_schedule_owed(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start(notify=False, resync_interval=timedelta(hours=1))
    stand.clock.now = start + MINUTE + 10 * SECOND  # no pass has looked yet
    await stand.table.sql(
        "UPDATE triggers SET automation_spec = :spec, latest_revision = latest_revision + 1, deployed_at = :at",
        spec=encode_automation(YEARLY, ""),
        at=start + MINUTE + 5 * SECOND,
    )
    await stand.sync()
    await stand.service.wait_for_runs(1)
    await stand.settled()
    assert stand.runs() == [start + MINUTE]


async def test_a_row_that_is_taken_out_of_the_table_fires_no_more(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.table.sql("DELETE FROM triggers")
    await stand.until(lambda: len(stand.term.scheduler.store) == 0)
    await stand.move_to(start + MINUTE)
    await stand.sync()
    await stand.settled()
    assert stand.runs() == []


async def test_a_move_of_triggered_at_alone_changes_nothing(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    await stand.table.sql("UPDATE triggers SET triggered_at = :at", at=start + 30 * MINUTE)
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [start + MINUTE]
    await stand.settled()
    assert await stand.table.sql("SELECT triggered_at FROM triggers") == [(start + 30 * MINUTE,)], "never back"


async def test_a_job_that_got_lost_is_armed_again_by_the_next_sync(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start(notify=False, resync_interval=timedelta(hours=1))
    stand.term.scheduler.disarm("1")
    await stand.move_to(start + MINUTE)
    await stand.sync()
    await stand.service.wait_for_runs(1)
    assert stand.runs() == [start + MINUTE]
    assert stand.metrics.registry.get_sample_value("scheduler_jobs_rearmed_total") == 1


async def test_ten_thousand_and_one_rows_are_all_armed(stand: Stand) -> None:
    await stand.table.deploy(rule=YEARLY, at=stand.clock.now)
    await stand.table.sql(
        """
        INSERT INTO triggers (project, domain, task_name, name, spec, automation_spec, task_version, active,
            automation_type, deployed_at, updated_at)
        SELECT project, domain, task_name, 'copy' || n, spec, automation_spec, task_version, active, automation_type,
            deployed_at, updated_at
        FROM triggers, generate_series(1, 10000) AS n
        """
    )
    await stand.start()
    assert len(stand.term.scheduler.store) == 10_001
