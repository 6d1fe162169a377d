from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_worker.domain.fixed_rate import LONGEST_INTERVAL, FixedRateSchedule
from scheduler_worker.errors import ScheduleError

PROPERTY = settings(derandomize=True, deadline=None, database=None)
ANCHOR = datetime(2026, 3, 1, 12, 3, 0, 700_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)

instants = st.datetimes(datetime(1800, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  hypothesis wants naive bounds
intervals = st.integers(1, LONGEST_INTERVAL // SECOND).map(lambda seconds: seconds * SECOND)


def test_a_start_time_is_itself_the_first_fire() -> None:
    schedule = FixedRateSchedule(ANCHOR, timedelta(minutes=10), fires_at_anchor=True)
    first = ANCHOR.replace(microsecond=0)
    assert schedule.next_after(first - timedelta(days=400)) == first
    assert schedule.next_after(first - timedelta.resolution) == first
    assert schedule.next_after(first) == first + timedelta(minutes=10)


def test_an_activation_is_no_fire_itself() -> None:
    schedule = FixedRateSchedule(ANCHOR, timedelta(minutes=10), fires_at_anchor=False)
    first = ANCHOR.replace(microsecond=0) + timedelta(minutes=10)
    assert schedule.next_after(ANCHOR - timedelta(days=400)) == first
    assert schedule.next_after(ANCHOR) == first
    assert schedule.next_after(first) == first + timedelta(minutes=10)


def test_the_grid_does_not_shift_over_a_stop() -> None:
    schedule = FixedRateSchedule(datetime(2026, 3, 1, 11, 53, tzinfo=UTC), timedelta(minutes=10), fires_at_anchor=False)
    assert schedule.next_after(datetime(2026, 3, 1, 12, 27, tzinfo=UTC)) == datetime(2026, 3, 1, 12, 33, tzinfo=UTC)


@given(instants, intervals, st.booleans(), instants)
@PROPERTY
def test_fire_times_lie_on_the_grid_and_follow_closely(
    anchor: datetime, interval: timedelta, fires_at_anchor: bool, instant: datetime
) -> None:
    schedule = FixedRateSchedule(anchor, interval, fires_at_anchor=fires_at_anchor)
    fire_time = schedule.next_after(instant)
    assert fire_time is not None
    assert fire_time > instant
    assert (fire_time - schedule.anchor) % interval == timedelta()
    assert fire_time.tzinfo is UTC
    assert fire_time.microsecond == 0
    first = schedule.anchor if fires_at_anchor else schedule.anchor + interval
    assert fire_time == first or (fire_time > first and fire_time - interval <= instant)


def test_a_second_since_the_year_one_is_counted_without_walking() -> None:
    schedule = FixedRateSchedule(datetime.min.replace(tzinfo=UTC), SECOND, fires_at_anchor=True)
    assert schedule.next_after(ANCHOR) == ANCHOR.replace(microsecond=0) + SECOND


def test_past_the_last_year_there_is_none() -> None:
    schedule = FixedRateSchedule(ANCHOR, timedelta(days=30), fires_at_anchor=True)
    assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_an_anchor_in_another_zone_is_the_same_instant() -> None:
    there = ANCHOR.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert FixedRateSchedule(there, SECOND, fires_at_anchor=True) == FixedRateSchedule(
        ANCHOR, SECOND, fires_at_anchor=True
    )


@pytest.mark.parametrize("interval", [timedelta(), -SECOND, timedelta(milliseconds=999), LONGEST_INTERVAL + SECOND])
def test_an_interval_out_of_bounds_is_refused(interval: timedelta) -> None:
    with pytest.raises(ScheduleError, match="set 1 second to 10 years"):
        FixedRateSchedule(ANCHOR, interval, fires_at_anchor=True)


def test_a_naive_anchor_is_refused() -> None:
    with pytest.raises(ValueError, match="no UTC offset"):
        FixedRateSchedule(ANCHOR.replace(tzinfo=None), SECOND, fires_at_anchor=True)
