from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_worker.domain.go_duration import format_go_duration, parse_go_duration
from scheduler_worker.errors import ScheduleError

PROPERTY = settings(derandomize=True, deadline=None, database=None)
LONGEST = timedelta(days=106_751)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("1m30s", timedelta(seconds=90)),
        ("1h30m10s", timedelta(hours=1, minutes=30, seconds=10)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("1.s", timedelta(seconds=1)),
        ("500ms", timedelta(milliseconds=500)),
        ("1us", timedelta(microseconds=1)),
        ("1\u00b5s", timedelta(microseconds=1)),
        ("1\u03bcs", timedelta(microseconds=1)),
        ("1999ns", timedelta(microseconds=1)),
        ("-1.5s", timedelta(seconds=-1.5)),
        ("+5s", timedelta(seconds=5)),
        ("0", timedelta()),
        ("-0", timedelta()),
        ("5s5s1m", timedelta(seconds=70)),
        ("0.000000000000000000000000000001h", timedelta()),
        ("0000000000000000000000000000001s", timedelta(seconds=1)),
        ("9223372036854775807ns", timedelta(microseconds=9223372036854775)),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, expected: timedelta) -> None:
    assert parse_go_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'' has no number"),
        ("-", "'-' has no number"),
        ("5", "'5' has no unit after '5'"),
        ("1h30", "'1h30' has no unit after '30'"),
        ("1d", "unknown unit 'd'"),
        ("1H", "unknown unit 'H'"),
        ("1h 30m", "unknown unit 'h '"),
        ("1h\n", r"unknown unit 'h\\n'"),
        (".s", "no number before 's'"),
        (".", "no number before '.'"),
        ("h", "no number before 'h'"),
        ("--5s", "no number before '-'"),
        ("\u0663s", "no number before"),
        ("1.2.3s", "no unit after '1.2'"),
        ("9223372036854775808ns", "longer than 292 years"),
        ("3000000h", "longer than 292 years"),
        ("9" * 10_000 + "h", r"\(10001 characters\) is longer than 292 years"),
        ("1\ud800", r"unknown unit '\\ud800'"),
    ],
)
def test_a_fault_is_named_with_the_remedy(text: str, fault: str) -> None:
    with pytest.raises(ScheduleError, match=f"{fault}.*; write numbers with units"):
        parse_go_duration(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=30), "30s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(hours=24), "24h"),
        (timedelta(hours=1, seconds=0.25), "1h0.25s"),
        (timedelta(milliseconds=1.5), "1.5ms"),
        (timedelta(microseconds=999), "999us"),
        (timedelta(seconds=-5), "-5s"),
    ],
)
def test_a_duration_is_written_short(duration: timedelta, text: str) -> None:
    assert format_go_duration(duration) == text


@given(st.timedeltas(-LONGEST, LONGEST))
@PROPERTY
def test_what_is_written_is_read_back(duration: timedelta) -> None:
    assert parse_go_duration(format_go_duration(duration)) == duration


def is_refused(text: str) -> bool:
    try:
        parse_go_duration(text)
    except ScheduleError:
        return True
    return False


@given(st.text(st.characters(exclude_categories=())))
@PROPERTY
def test_text_without_a_digit_is_refused_and_nothing_else_raised(text: str) -> None:
    assert is_refused(text) or any(character in "0123456789" for character in text)
