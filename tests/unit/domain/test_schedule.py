from datetime import UTC, datetime, timedelta

import pytest

from scheduler_worker.domain.fixed_rate import FixedRateSchedule
from scheduler_worker.domain.schedule import CronRule, RateRule, RateUnit, Rule, describe, schedule_of
from scheduler_worker.errors import ScheduleError

ACTIVATED = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
START = datetime(2026, 4, 1, 6, 30, tzinfo=UTC)


def test_equal_cron_rules_share_one_schedule_whatever_the_activation() -> None:
    schedule = schedule_of(CronRule("0 9 * * 1-5", "Europe/Berlin"), activated_at=ACTIVATED)
    assert schedule_of(CronRule("0 9 * * 1-5", "Europe/Berlin"), activated_at=START) is schedule


def test_equal_rates_share_one_schedule() -> None:
    schedule = schedule_of(RateRule(15, "minute"), activated_at=ACTIVATED)
    assert schedule_of(RateRule(15, "minute"), activated_at=ACTIVATED) is schedule
    assert schedule_of(RateRule(15, "minute"), activated_at=START) != schedule


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        pytest.param(
            RateRule(15, "minute"), datetime(2026, 3, 1, 12, 15, tzinfo=UTC), id="an interval after activation"
        ),
        pytest.param(RateRule(1, "day", START), START, id="at the start time"),
        pytest.param(CronRule("@every 1h"), datetime(2026, 3, 1, 13, tzinfo=UTC), id="@every from activation"),
        pytest.param(
            CronRule("@every 1h", "Asia/Tokyo"), datetime(2026, 3, 1, 13, tzinfo=UTC), id="@every has no zone"
        ),
        pytest.param(CronRule("0 * * * *"), datetime(2026, 3, 1, 13, tzinfo=UTC), id="cron by the clock"),
    ],
)
def test_the_first_fire_time(rule: Rule, first: datetime) -> None:
    assert schedule_of(rule, activated_at=ACTIVATED).next_after(ACTIVATED) == first


def test_ten_years_are_the_longest_rate() -> None:
    ten_years = FixedRateSchedule(ACTIVATED, timedelta(days=3653), fires_at_anchor=False)
    assert schedule_of(RateRule(3653, "day"), activated_at=ACTIVATED) == ten_years


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (RateRule(0, "hour"), "the rate's value is 0: set 1 to 87672 hours"),
        (RateRule(-1, "hour"), "the rate's value is -1"),
        (RateRule(3654, "day"), "the rate's value is 3654: set 1 to 3653 days"),
        (RateRule(2**32 - 1, "day"), "the rate's value is 4294967295"),
        (RateRule(5, ""), "the rate's unit is not set: set minute, hour or day"),
        (CronRule("@every 99999h"), "the interval of a fixed rate is 99999h: set 1 second to 10 years"),
        (CronRule("0 0 30 2 *"), "'0 0 30 2 \\*' can never fire"),
        (CronRule("0 9 * * *", "Local"), "time zone 'Local' is that of the host"),
        (CronRule("@every 1h", "Mars/Base"), "unknown time zone 'Mars/Base'"),
        (CronRule("0 9 * *"), "4 fields"),
    ],
)
def test_a_rule_that_can_not_be_used_is_refused(rule: Rule, fault: str) -> None:
    with pytest.raises(ScheduleError, match=fault):
        schedule_of(rule, activated_at=ACTIVATED)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (CronRule("0 9 * * 1-5", "Europe/Berlin"), "cron 0 9 * * 1-5 Europe/Berlin"),
        (CronRule("@daily"), "cron @daily"),
        (CronRule(""), "cron"),
        (CronRule("0\t9\n"), r"cron '0\t9\n'"),
        (CronRule("*" * 100), f"cron '{'*' * 60}'... (100 characters)"),
        (RateRule(15, "minute"), "every 15 minutes"),
        (RateRule(1, "day", START), "every day from 2026-04-01T06:30:00Z"),
        (RateRule(0, "hour"), "every 0 hours"),
        (RateRule(5, ""), "every 5 (no unit)"),
    ],
)
def test_a_rule_in_words(rule: Rule, text: str) -> None:
    assert describe(rule) == text


@pytest.mark.parametrize("unit", ["minute", "hour", "day"])
def test_every_unit_is_its_own_length(unit: RateUnit) -> None:
    fire_time = schedule_of(RateRule(2, unit, START), activated_at=ACTIVATED).next_after(START)
    assert (
        fire_time
        == START + 2 * {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}[unit]
    )
