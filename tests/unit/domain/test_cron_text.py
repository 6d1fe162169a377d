import pytest

from scheduler_worker.domain.cron import parse_standard
from scheduler_worker.domain.cron_text import CronFields, parse_rest, split_zone
from scheduler_worker.errors import ScheduleError


def fields(text: str) -> CronFields:
    parsed = parse_rest(text)
    assert isinstance(parsed, CronFields)
    return parsed


def values(mask: int) -> list[int]:
    return [number for number in range(64) if mask >> number & 1]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("5", [5]),
        ("+5", [5]),
        ("00005", [5]),
        ("5/20", [5, 25, 45]),
        ("10-30/10", [10, 20, 30]),
        ("1-5/10", [1]),
        ("50/15", [50]),
        ("*/25", [0, 25, 50]),
        ("?/25", [0, 25, 50]),
        ("*/60", [0]),
        ("*/9223372036854775807", [0]),
        ("*/+30", [0, 30]),
        ("*-5/30", [0, 30]),
        ("*-/30", [0, 30]),
        (",3,,2,3,", [2, 3]),
        (",", []),
    ],
)
def test_the_minutes_of(part: str, expected: list[int]) -> None:
    assert values(fields(f"{part} * * * *").minutes) == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("mon/2", [1, 3, 5]),
        ("Mon-FRI", [1, 2, 3, 4, 5]),
        ("sun-mon", [0, 1]),
        ("sat,SUN", [0, 6]),
        ("mon-fri/2", [1, 3, 5]),
    ],
)
def test_the_weekdays_of(part: str, expected: list[int]) -> None:
    assert values(fields(f"* * * * {part}").weekdays) == expected


@pytest.mark.parametrize("part", ["*", "?", "*/1", "?/1", "5,*", "*-5", "*/01"])
def test_a_full_star_is(part: str) -> None:
    assert fields(f"* * {part} * *").any_day
    assert fields(f"* * * * {part}").any_weekday


@pytest.mark.parametrize("part", ["*/2", "1-6", "1,2", "1/1"])
def test_a_full_star_is_not(part: str) -> None:
    assert not fields(f"* * {part} * *").any_day
    assert not fields(f"* * * * {part}").any_weekday


@pytest.mark.parametrize(
    "blank", ["\t", "\n", "\v", "\f", "\r", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u3000"]
)
def test_fields_are_parted_by_every_blank_that_go_knows(blank: str) -> None:
    assert fields(blank + f"1{blank}2{blank * 2}3 4 5{blank}") == fields("1 2 3 4 5")


@pytest.mark.parametrize("character", ["\x1c", "\x1f", "\u180e", "\u200b", "\ufeff"])
def test_other_invisible_characters_part_nothing(character: str) -> None:
    with pytest.raises(ScheduleError):
        parse_rest(f"1{character}2 * * *")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("61 * * * *", "minute '61' is out of range at 61: use 0 to 59"),
        ("* 7-24 * * *", "hour '7-24' is out of range at 24: use 0 to 23"),
        ("* * 0 * *", "day of month '0' is out of range at 0: use 1 to 31"),
        ("* * * 13/2 *", "month '13/2' is out of range at 13: use 1 to 12 or jan to dec"),
        ("* * * * sat-sun", "day of week 'sat-sun' runs backwards from 6 to 0"),
        ("*/0 * * * *", r"minute '\*/0' has the step 0: use a step of 1 to 59"),
        ("*/ * * * *", r"minute '\*/' lacks a step"),
        ("1- * * * *", "minute '1-' lacks a value: use 0 to 59"),
        ("*/x * * * *", r"minute '\*/x' has 'x', which is no step"),
        ("1-mon * * * *", "minute '1-mon' has 'mon', which is no value"),
        ("* * 15W * *", "day of month '15W' is no value: use 1 to 31"),
        ("9223372036854775808 * * * *", "is too large: use 0 to 59"),
        ("0/15 * * * ? *", "has 6 fields instead of 5: write five fields 'minute hour day-of-month month day-of-week'"),
        ("* * * *", "has 4 fields instead of 5: write five fields"),
        ("", "is empty: write five fields"),
        ("@reboot", "unknown descriptor '@reboot': write @yearly"),
        ("@daily ", "unknown descriptor '@daily '"),
        ("@every 1d", "'@every 1d': duration '1d' has the unknown unit 'd'; write"),
    ],
)
def test_the_message_names_field_value_and_remedy(text: str, fault: str) -> None:
    with pytest.raises(ScheduleError, match=fault):
        parse_rest(text)


@pytest.mark.parametrize(
    ("text", "timezone", "zone", "rest"),
    [
        ("0 9 * * *", "", "", "0 9 * * *"),
        ("TZ=Asia/Tokyo 0 9 * * *", "", "Asia/Tokyo", "0 9 * * *"),
        ("CRON_TZ=Asia/Tokyo  @daily ", "", "Asia/Tokyo", "@daily"),
        ("TZ= 0 9 * * *", "", "", "0 9 * * *"),
        (" @daily ", "Asia/Tokyo", "Asia/Tokyo", "@daily"),
        ("0 9 * * *", "Asia/Tokyo ", "Asia/Tokyo", "0 9 * * *"),
        (" TZ=UTC 0 9 * * *", "", "", " TZ=UTC 0 9 * * *"),
    ],
)
def test_the_zone_stands_in_front(text: str, timezone: str, zone: str, rest: str) -> None:
    assert split_zone(text, timezone) == (zone, rest)


def test_a_zone_given_twice_is_refused() -> None:
    with pytest.raises(ScheduleError, match="names a zone, and the timezone 'Asia/Tokyo' is set too: keep one"):
        split_zone("CRON_TZ=UTC 0 9 * * *", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h30m", 5400), ("1.5s", 1), ("500ms", 1), ("0s", 1), ("-5s", 1), ("1h0m0.9s", 3600), ("1\u00b5s", 1)],
)
def test_every_is_cut_to_whole_seconds_and_at_least_one(text: str, seconds: int) -> None:
    parsed = parse_rest(f"@every {text}")
    assert not isinstance(parsed, CronFields)
    assert parsed.interval.total_seconds() == seconds


def test_equal_texts_share_one_schedule() -> None:
    schedule = parse_standard("7 3 * * *", "Europe/Oslo")
    assert parse_standard("7 3 * * *", "Europe/Oslo") is schedule
    assert parse_standard("7 3 * * *", "Europe/Rome") is not schedule
