from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.job import Job
from apscheduler.triggers.base import BaseTrigger

from scheduler_worker.domain.schedule import CronRule, RateRule, Rule, Schedule, schedule_of
from scheduler_worker.scheduling.triggers import LIVE_WINDOW, CronTrigger, IntervalTrigger, trigger_for

NOW = datetime(2026, 3, 8, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def schedule(rule: Rule) -> Schedule:
    return schedule_of(rule, activated_at=NOW)


def trigger(rule: Rule) -> BaseTrigger:
    return trigger_for(schedule(rule))


def test_jobs_of_one_schedule_share_one_trigger() -> None:
    assert trigger(CronRule("* * * * *")) is trigger(CronRule("* * * * *"))
    assert isinstance(trigger(CronRule("* * * * *")), CronTrigger)
    assert isinstance(trigger(RateRule(1, "minute")), IntervalTrigger)
    assert isinstance(trigger(CronRule("@every 1m")), IntervalTrigger)


def test_a_trigger_carries_nothing_but_its_schedule() -> None:
    assert not hasattr(trigger(CronRule("* * * * *")), "__dict__")


def test_the_first_fire_time_is_strictly_after_now() -> None:
    assert trigger(CronRule("* * * * *")).get_next_fire_time(None, NOW) == NOW + MINUTE


def test_the_next_fire_time_follows_the_previous_one_not_now() -> None:
    late = NOW + timedelta(seconds=59)
    assert trigger(CronRule("* * * * *")).get_next_fire_time(NOW, late) == NOW + MINUTE


def test_a_clock_that_stepped_back_repeats_nothing() -> None:
    earlier = NOW - timedelta(hours=3)
    assert trigger(CronRule("* * * * *")).get_next_fire_time(NOW, earlier) == NOW + MINUTE


@pytest.mark.parametrize(
    "rule", [CronRule("* * * * *"), CronRule("@every 1s"), RateRule(1, "minute", NOW - 900 * MINUTE)]
)
def test_a_long_sleep_brings_no_more_than_the_live_window_in_one_pass(rule: Rule) -> None:
    slept_from = NOW + 10 * MINUTE
    woken = slept_from + timedelta(days=3650)
    job = Job.__new__(Job)
    job.__setstate__(
        {
            "version": 1, "id": "1", "func": f"{__name__}:schedule", "trigger": trigger(rule), "executor": "default",
            "args": (), "kwargs": {}, "name": "", "misfire_grace_time": None, "coalesce": False, "max_instances": 1,
            "next_run_time": slept_from,
        }
    )  # fmt: skip
    run_times = job._get_run_times(woken)
    assert run_times[0] == slept_from
    assert all(woken - LIVE_WINDOW < time <= woken for time in run_times[1:])
    assert 2 <= len(run_times) <= 2 + LIVE_WINDOW // timedelta(seconds=1)


def test_a_fire_time_at_the_edge_of_the_live_window_is_not_jumped_over() -> None:
    every_second = trigger(CronRule("@every 1s"))
    previous = NOW + 10 * MINUTE
    assert every_second.get_next_fire_time(previous, previous + LIVE_WINDOW) == previous + timedelta(seconds=1)


def test_none_means_never_again() -> None:
    end = datetime.max.replace(tzinfo=UTC)
    for rule in (CronRule("* * * * *", "Pacific/Kiritimati"), RateRule(1, "day", NOW)):
        assert trigger(rule).get_next_fire_time(None, end) is None
        assert trigger(rule).get_next_fire_time(end, end) is None


def test_the_earliest_instants_raise_nothing() -> None:
    start = datetime.min.replace(tzinfo=UTC)
    for zone in ("", "America/New_York", "Asia/Tokyo"):
        fire_time = trigger(CronRule("* * * * *", zone)).get_next_fire_time(start, start)
        assert fire_time is not None
        assert fire_time > start


def test_a_trigger_says_what_it_stands_for() -> None:
    assert (
        repr(trigger(CronRule("5 4 * * *", "Asia/Tokyo")))
        == "<CronTrigger over <CronSchedule '5 4 * * *' in Asia/Tokyo>>"
    )
