"""Cron schedules against a slow and obvious oracle, and against any text at all."""

import time
from datetime import UTC, datetime, timedelta, timezone
from importlib import import_module
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_worker.domain.cron import CronSchedule, parse_standard
from scheduler_worker.domain.cron_text import Every
from scheduler_worker.errors import ScheduleError

# The same examples in every run, however slow the machine is.
PROPERTY = settings(derandomize=True, deadline=None, database=None, max_examples=200)

# Half an hour, two hours, a skipped day, changes at midnight, offsets with seconds, rules past 2037, none at all.
ZONES = [
    "UTC", "Africa/Cairo", "Africa/Casablanca", "America/Caracas", "America/Havana", "America/New_York",
    "America/Nuuk", "America/Sao_Paulo", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Beirut",
    "Asia/Gaza", "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Tehran", "Australia/Lord_Howe", "Europe/Amsterdam",
    "Europe/Dublin", "Europe/London", "Europe/Volgograd", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Norfolk",
]  # fmt: skip

WINDOW = timedelta(days=2)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def changes_of(zone: str) -> list[datetime]:
    read = import_module("zoneinfo._zoneinfo").ZoneInfo.no_cache(zone)
    return [EPOCH + timedelta(seconds=seconds) for seconds in read._trans_utc if seconds > -3_000_000_000]


CHANGES = [(zone, change) for zone in ZONES for change in changes_of(zone)]


class Field(NamedTuple):
    text: str
    values: frozenset[int]
    full_star: bool


@st.composite
def fields(draw: st.DrawFn, lowest: int, highest: int) -> Field:
    everything = frozenset(range(lowest, highest + 1))
    kind = draw(st.sampled_from(["star", "star", "step", "range", "list"]))
    if kind == "star":
        return Field("*", everything, full_star=True)
    if kind == "step":
        step = draw(st.integers(2, highest - lowest + 1))
        return Field(f"*/{step}", frozenset(range(lowest, highest + 1, step)), full_star=False)
    if kind == "range":
        low = draw(st.integers(lowest, highest))
        high = draw(st.integers(low, highest))
        return Field(f"{low}-{high}", frozenset(range(low, high + 1)), full_star=False)
    values = draw(st.sets(st.integers(lowest, highest), min_size=1, max_size=4))
    return Field(",".join(map(str, values)), frozenset(values), full_star=False)


class Question(NamedTuple):
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    zone: str
    after: datetime

    def schedule(self) -> CronSchedule:
        parsed = parse_standard(" ".join(field.text for field in self[:5]), self.zone)
        assert isinstance(parsed, CronSchedule)
        return parsed

    def matches(self, wall: datetime) -> bool:
        by_day = wall.day in self.day.values
        by_weekday = wall.isoweekday() % 7 in self.weekday.values
        both = self.day.full_star or self.weekday.full_star
        return (
            wall.second == 0
            and wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.month in self.month.values
            and (by_day and by_weekday if both else by_day or by_weekday)
        )


instants = st.datetimes(datetime(1890, 1, 1), datetime(2090, 1, 1)).map(lambda instant: instant.replace(tzinfo=UTC))  # noqa: DTZ001  hypothesis wants naive bounds
near_changes = st.tuples(st.sampled_from(CHANGES), st.timedeltas(-WINDOW, WINDOW / 4)).map(
    lambda drawn: (drawn[0][0], drawn[0][1] + drawn[1])
)
places = near_changes | st.tuples(st.sampled_from(ZONES), instants)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    zone, after = draw(places)
    return Question(
        draw(fields(0, 59)),
        draw(fields(0, 23)),
        draw(fields(1, 31)),
        draw(fields(1, 12)),
        draw(fields(0, 6)),
        zone,
        after,
    )


def fire_times_by_walking(question: Question) -> list[datetime]:
    """Look at the clock at every second at which it can show a full minute."""
    zone = ZoneInfo(question.zone)
    found = []
    instant = question.after.replace(microsecond=0) + timedelta(seconds=1)
    while instant <= question.after + WINDOW:
        wall = instant.astimezone(zone)
        if question.matches(wall):
            found.append(instant)
        following = instant + timedelta(seconds=60 - wall.second)
        if following.astimezone(zone).utcoffset() != wall.utcoffset():
            following = instant + timedelta(seconds=1)
        instant = following
    return found


def fire_times_by_stepping(question: Question) -> list[datetime]:
    schedule = question.schedule()
    found = []
    fire_time = schedule.next_after(question.after)
    while fire_time is not None and fire_time <= question.after + WINDOW:
        found.append(fire_time)
        fire_time = schedule.next_after(fire_time)
    return found


@given(questions())
@PROPERTY
def test_the_fire_times_are_the_instants_whose_reading_matches(question: Question) -> None:
    assert fire_times_by_stepping(question) == fire_times_by_walking(question)


@given(questions(), st.integers(0, 10**6))
@PROPERTY
def test_between_two_fire_times_every_instant_leads_to_the_later_one(question: Question, millionths: int) -> None:
    schedule = question.schedule()
    for earlier, later in pairwise([question.after, *fire_times_by_stepping(question)[:20]]):
        assert earlier < later
        between = earlier + (later - earlier) * millionths // 10**6
        if between < later:
            assert schedule.next_after(between) == later


@given(
    questions(),
    st.datetimes(timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))),
)
@PROPERTY
def test_any_instant_of_any_year_has_a_later_answer_or_none(question: Question, instant: datetime) -> None:
    answer = question.schedule().next_after(instant)
    assert answer is None or (answer > instant and answer.tzinfo is UTC and answer.microsecond == 0)


@pytest.mark.parametrize("zone", ["", "America/New_York", "Pacific/Kiritimati", "Asia/Kolkata"])
@pytest.mark.parametrize("expression", ["* * * * *", "0 0 1 1 *", "59 23 31 12 *", "0 0 29 2 *"])
def test_the_ends_of_time_are_no_fault(expression: str, zone: str) -> None:
    schedule = parse_standard(expression, zone)
    assert isinstance(schedule, CronSchedule)
    for offset_hours in (0, 23):
        ahead, behind = timezone(timedelta(hours=offset_hours)), timezone(-timedelta(hours=offset_hours))
        assert schedule.next_after(datetime.max.replace(tzinfo=behind)) is None
        first = schedule.next_after(datetime.min.replace(tzinfo=ahead))
        assert first is not None
        assert first.year <= 4


def test_an_answer_does_not_depend_on_the_question_before() -> None:
    schedule = parse_standard("*/7 1,2 * * *", "Europe/Berlin")
    assert isinstance(schedule, CronSchedule)
    start = datetime(2026, 10, 24, 20, tzinfo=UTC)
    asked = [start + timedelta(minutes=11 * step) for step in range(60)]
    forwards = [schedule.next_after(instant) for instant in asked]
    backwards = [schedule.next_after(instant) for instant in reversed(asked)]
    twice = [(schedule.next_after(instant), schedule.next_after(instant)) for instant in asked]
    assert forwards == backwards[::-1] == [first for first, _ in twice] == [second for _, second in twice]


def test_a_naive_instant_is_refused() -> None:
    schedule = parse_standard("* * * * *")
    assert isinstance(schedule, CronSchedule)
    with pytest.raises(ValueError, match="no UTC offset"):
        schedule.next_after(datetime(2026, 1, 1))  # noqa: DTZ001  that is the fault


PIECES = [
    *("*", "?", ",", "-", "/", "+", " ", "\t", "\xa0", "0", "5", "7", "31", "59", "mon", "JAN", "\u0663", "9" * 5000),
    *("TZ=", "CRON_TZ=", "UTC", "Local", "America", "/etc/passwd", "../", "@every ", "@daily", "1h", "\x00", "\ud800"),
]
any_text = st.text(st.characters(exclude_categories=()), max_size=40)
cron_like_text = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def understood(expression: str, zone: str) -> CronSchedule | Every | ScheduleError:
    try:
        return parse_standard(expression, zone)
    except ScheduleError as fault:
        return fault


@given(any_text | cron_like_text, st.just("") | any_text | cron_like_text)
@settings(PROPERTY, max_examples=1000)
def test_any_text_is_understood_or_refused(expression: str, zone: str) -> None:
    answer = understood(expression, zone)
    if isinstance(answer, ScheduleError):
        assert str(answer).encode(), "a message that can be logged and stored"
        assert len(str(answer)) < 1000
    elif isinstance(answer, CronSchedule):
        answer.next_after(EPOCH)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("*," * 5000, id="one long list"),
        pytest.param("*," * 5000 + " * * * *", id="a long list among five fields"),
        pytest.param(",".join(str(number) for number in range(2500)) + " * * * *", id="many values out of range"),
        pytest.param(",".join(f"{n % 60}-59/{n}" for n in range(1, 1200)) + " * * * *", id="many different ranges"),
        pytest.param("9" * 10_000 + " * * * *", id="a huge number"),
        pytest.param("*/" + "9" * 10_000 + " * * * *", id="a huge step"),
        pytest.param("* " * 5000, id="many fields"),
        pytest.param("@every " + "1h" * 5000, id="a long duration"),
        pytest.param("@every " + "9" * 10_000 + "h", id="a huge duration"),
        pytest.param("TZ=" + "../" * 3000 + " * * * * *", id="a long zone"),
        pytest.param("(" * 10_000, id="brackets"),
        pytest.param("0 0 30 2 *", id="an impossible date"),
    ],
)
def test_ten_kilobytes_are_answered_within_a_tenth_of_a_second(text: str) -> None:
    parse_standard("* * * * *", "Europe/Berlin")  # the names of the zones are read once
    start = time.process_time()
    answer = understood(text, "")
    if isinstance(answer, CronSchedule):
        answer.next_after(EPOCH)
    assert time.process_time() - start < 0.1
