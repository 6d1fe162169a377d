"""Expressions and instants at which schedulers have been caught out, with the right fire times."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler_worker.domain.cron import parse_standard
from scheduler_worker.domain.schedule import CronRule, RateRule, Schedule, schedule_of
from scheduler_worker.domain.zones import utc_text
from scheduler_worker.errors import ScheduleError

ACTIVATED = datetime(2000, 1, 1, tzinfo=UTC)


def cron(expression: str, zone: str = "") -> Schedule:
    return schedule_of(CronRule(expression, zone), activated_at=ACTIVATED)


def times(schedule: Schedule, after: str, count: int) -> list[str]:
    fire_times: list[str] = []
    fire_time: datetime | None = datetime.fromisoformat(after)
    for _ in range(count):
        assert fire_time is not None
        fire_time = schedule.next_after(fire_time)
        assert fire_time is not None
        fire_times.append(utc_text(fire_time))
    return fire_times


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        pytest.param(
            "0 0 * * 1-5", "America/Chicago", "2021-03-12T06:00Z", ["2021-03-15T05:00:00Z"],
            id="monday midnight after a weekend in which the clocks went forward",
        ),
        pytest.param(
            "0 0 * * mon-fri", "America/Chicago", "2021-03-12T06:00Z", ["2021-03-15T05:00:00Z"],
            id="the same by names",
        ),
        pytest.param(
            "0 0 * * *", "America/New_York", "2026-03-08T05:00Z", ["2026-03-09T04:00:00Z"],
            id="the midnight after a day of 23 hours",
        ),
        pytest.param(
            "0 0 1 * *", "Europe/London", "2026-03-01T00:00Z", ["2026-03-31T23:00:00Z"],
            id="the first of the month just after the clocks went forward",
        ),
        pytest.param(
            "30 * * * *", "Europe/Helsinki", "2017-10-28T23:00Z",
            ["2017-10-28T23:30:00Z", "2017-10-29T00:30:00Z", "2017-10-29T01:30:00Z", "2017-10-29T02:30:00Z"],
            id="hourly through the hour that comes twice",
        ),
        pytest.param(
            "* * * * *", "Europe/Amsterdam", "2023-10-29T01:00:30Z", ["2023-10-29T01:01:00Z", "2023-10-29T01:02:00Z"],
            id="started within the second pass of the hour that comes twice",
        ),
        pytest.param(
            "0 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z",
            ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-26T01:00:00Z"],
            id="a reading that comes twice fires twice",
        ),
        pytest.param(
            "0 * * * *", "US/Pacific", "2026-11-01T08:00Z", ["2026-11-01T09:00:00Z"],
            id="the second pass of an hour is due an hour after the first",
        ),
        pytest.param(
            "4 16 * * *", "America/New_York", "2025-03-09T00:00Z", ["2025-03-09T20:04:00Z"],
            id="an afternoon on the day the clocks went forward",
        ),
        pytest.param(
            "0 17 * * *", "America/New_York", "2025-11-02T00:00Z", ["2025-11-02T22:00:00Z", "2025-11-03T22:00:00Z"],
            id="an afternoon on the day the clocks went back",
        ),
        pytest.param(
            "20 */4 * * *", "America/Los_Angeles", "2023-03-12T06:00Z",
            ["2023-03-12T08:20:00Z", "2023-03-12T11:20:00Z", "2023-03-12T15:20:00Z"],
            id="every four hours over the change to summer time",
        ),
        pytest.param(
            "30 2 * * *", "America/Chicago", "2024-03-09T12:00Z", ["2024-03-11T07:30:00Z"],
            id="a reading that is skipped does not fire",
        ),
        pytest.param(
            "30 1 * * *", "Europe/London", "2025-03-29T01:30Z", ["2025-03-31T00:30:00Z", "2025-04-01T00:30:00Z"],
            id="the days after a skipped reading keep their wall time",
        ),
        pytest.param(
            "0 5 * * *", "Africa/Casablanca", "2026-02-13T12:00Z", ["2026-02-14T04:00:00Z", "2026-02-15T05:00:00Z"],
            id="clocks that go back for Ramadan",
        ),
        pytest.param(
            "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00Z", ["2018-11-05T02:00:00Z"],
            id="a day without midnight in Brazil",
        ),
        pytest.param(
            "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00Z", ["2026-04-24T21:00:00Z"],
            id="a day without midnight in Egypt",
        ),
        pytest.param(
            "0 9 * * *", "America/Los_Angeles", "2026-08-06T00:00Z", ["2026-08-06T16:00:00Z"],
            id="a morning in summer time",
        ),
        pytest.param(
            "30 2 * * *", "America/New_York", "2038-03-13T12:00Z", ["2038-03-15T06:30:00Z"],
            id="past the last change that the zone files list",
        ),
        pytest.param(
            "55 * * * *", "Europe/Belgrade", "2026-03-29T21:55:01Z", ["2026-03-29T22:55:00Z"],
            id="the last hour of the day of the change",
        ),
        pytest.param(
            "0 9 29 2 *", "", "2016-02-29T09:00Z", ["2020-02-29T09:00:00Z"],
            id="leap day to leap day",
        ),
        pytest.param(
            "0 0 29 2 *", "", "2026-01-01", ["2028-02-29T00:00:00Z"],
            id="leap day, never the first of March",
        ),
        pytest.param(
            "0 0 29 2 *", "", "2096-03-01", ["2104-02-29T00:00:00Z"],
            id="leap day over a century without one",
        ),
        pytest.param(
            "0 0 29 2 *", "Europe/Berlin", "2096-03-01", ["2104-02-28T23:00:00Z"],
            id="leap day over a century without one, in a zone",
        ),
        pytest.param(
            "0 0 31 * *", "", "2026-01-31T00:00:01Z",
            ["2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z", "2026-08-31T00:00:00Z"],
            id="months without a 31st are passed over",
        ),
        pytest.param(
            "0 2 * * 0", "", "2019-12-19T12:00Z", ["2019-12-22T02:00:00Z"],
            id="weekday 0 is Sunday",
        ),
        pytest.param(
            "0 0 1,15 * 1", "", "2026-08-01T00:00:01Z",
            ["2026-08-03T00:00:00Z", "2026-08-10T00:00:00Z", "2026-08-15T00:00:00Z", "2026-08-17T00:00:00Z"],
            id="day of month or day of week",
        ),
        pytest.param(
            "CRON_TZ=Asia/Tokyo 0 9 * * *", "", "2026-02-01T12:00Z", ["2026-02-02T00:00:00Z"],
            id="zone prefix",
        ),
        pytest.param(
            "0 0 * * *", "Pacific/Apia", "2011-12-29T12:00Z", ["2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"],
            id="a whole day that is skipped",
        ),
    ],
)  # fmt: skip
def test_cron_fires_at(expression: str, zone: str, after: str, expected: list[str]) -> None:
    after_instant = after if "T" in after else f"{after}T00:00Z"
    assert times(cron(expression, zone), after_instant, len(expected)) == expected


@pytest.mark.parametrize(
    ("start", "after", "expected"),
    [
        pytest.param("2025-03-01T01:30Z", "2025-04-01T00:00Z", "2025-04-01T01:30:00Z", id="no day is skipped"),
        pytest.param("2018-11-04T07:00Z", "2018-11-04T07:00Z", "2018-11-05T07:00:00Z", id="a day is 86400 seconds"),
    ],
)
def test_a_daily_rate_knows_no_zone(start: str, after: str, expected: str) -> None:
    rate = schedule_of(RateRule(1, "day", datetime.fromisoformat(start)), activated_at=ACTIVATED)
    assert times(rate, after, 1) == [expected]


def test_nothing_is_missed_between_a_fire_and_the_next_evening() -> None:
    last, now = datetime(2024, 10, 17, 20, tzinfo=UTC), datetime(2024, 10, 18, 9, 1, tzinfo=UTC)
    fire_time = cron("0 9 * * *", "Pacific/Auckland").next_after(last)
    assert fire_time is not None
    assert fire_time > now


def test_asking_every_five_minutes_for_a_day_names_one_fire() -> None:
    schedule = cron("0 9 * * *", "America/New_York")
    start = datetime(2026, 11, 1, 12, tzinfo=UTC)
    answers = {schedule.next_after(start + timedelta(minutes=5 * step)) for step in range(24 * 12)}
    fired = {answer for answer in answers if answer is not None and answer <= start + timedelta(days=1)}
    assert fired == {datetime(2026, 11, 1, 14, tzinfo=UTC)}


def test_a_fraction_of_a_second_leaves_no_trace_over_ten_thousand_steps() -> None:
    schedule = cron("* * * * *", "Europe/Paris")
    start = datetime(2026, 1, 1, 12, 0, 0, 1042, tzinfo=UTC)
    fire_time = start
    for _ in range(10_000):
        following = schedule.next_after(fire_time)
        assert following is not None
        fire_time = following
    assert fire_time == start.replace(microsecond=0) + timedelta(minutes=10_000)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 12 31 4 *", "0 0 31 2,4,6,9,11 *", ", * * * *"])
def test_an_impossible_date_is_refused(expression: str) -> None:
    with pytest.raises(ScheduleError, match="can never fire"):
        cron(expression)


def test_weekday_seven_is_refused_and_the_remedy_named() -> None:
    with pytest.raises(ScheduleError, match=r"day of week '7' is out of range.*0 \(Sunday\) to 6"):
        parse_standard("0 0 * * 7")


@pytest.mark.parametrize("zone", ["Mars/Phobos", "America/New_Yrok"])
def test_an_unknown_zone_is_refused_by_name(zone: str) -> None:
    with pytest.raises(ScheduleError, match=f"unknown time zone '{zone}'"):
        cron("0 9 * * *", zone)


def test_no_zone_is_utc() -> None:
    assert times(cron("0 9 * * *", ""), "2026-02-01T00:00Z", 1) == ["2026-02-01T09:00:00Z"]


def test_a_zone_without_fields_is_refused() -> None:
    with pytest.raises(ScheduleError, match="is only a zone"):
        parse_standard("TZ=Europe/Rome")


def test_a_step_longer_than_the_field_leaves_its_first_value() -> None:
    assert times(cron("*/120 4-22 * * *"), "2026-01-01T05:30Z", 2) == ["2026-01-01T06:00:00Z", "2026-01-01T07:00:00Z"]
