"""Jobs made without APScheduler's own constructor are whole jobs all the same."""

from collections.abc import Sequence
from datetime import UTC, datetime

from apscheduler.job import Job

from scheduler_worker.domain.schedule import CronRule, schedule_of
from scheduler_worker.scheduling.jobs import STORE, fire_job
from scheduler_worker.scheduling.scheduler import RunScheduler
from scheduler_worker.scheduling.triggers import trigger_for

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TRIGGER = trigger_for(schedule_of(CronRule("0 9 * * *"), activated_at=NOON))


def due(name: str, fire_times: Sequence[datetime] = ()) -> None:
    raise AssertionError("never called")


def test_it_has_every_attribute_that_apscheduler_gives_a_job() -> None:
    scheduler = RunScheduler(clock=lambda: NOON, on_pass=lambda _: None, on_job_failed=lambda _, error: None)
    ours = fire_job(scheduler, "7", TRIGGER, due, "a", NOON)
    scheduler.add_job(
        due,
        TRIGGER,
        args=("a",),
        id="7",
        name="7",
        next_run_time=NOON,
        misfire_grace_time=None,
        coalesce=False,
        max_instances=ours.max_instances,
    )
    scheduler._real_add_job(scheduler._pending_jobs[0][0], STORE, replace_existing=False)
    theirs = scheduler.store.lookup_job("7")
    # What a job is written down and read back by, which ours never is.
    attributes = set(Job.__slots__) - {"__weakref__", "func_ref"}
    assert {name: getattr(ours, name) for name in attributes} == {name: getattr(theirs, name) for name in attributes}
