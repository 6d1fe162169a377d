"""Cron text: the five-field form, descriptors and zone prefix of Go's robfig/cron `ParseStandard`.

Decides what every text means, as bit masks, or why it means nothing. Must raise nothing but `ScheduleError`, and must
take time and memory in proportion to the text, whatever the text is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, NoReturn

from scheduler_worker.domain.go_duration import parse_go_duration
from scheduler_worker.domain.quoting import quoted
from scheduler_worker.errors import ScheduleError

# Go's unicode.IsSpace. Python's own idea of blanks differs (it has U+001C to U+001F among them).
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_NOT_BLANKS = re.compile(f"[^{_BLANKS}]+")
_OUTER_BLANKS = re.compile(f"^[{_BLANKS}]+|[{_BLANKS}]+$")

_ZONE_PREFIXES = ("TZ=", "CRON_TZ=")
_EVERY = "@every "
_SHORTEST_INTERVAL = timedelta(seconds=1)

_LARGEST_DIGITS = 19
"""Digits of the largest number that Go's 64 bits hold; a longer one is refused before it is turned into a number."""
_LARGEST_NUMBER = 2**63 - 1

_FORM = "minute hour day-of-month month day-of-week"
_FIVE_FIELDS = f"write five fields '{_FORM}', such as '0 9 * * 1-5'"

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Every:
    """What `@every` says: a fixed rate of `interval`, in whole seconds and at least one."""

    interval: timedelta


class CronFields(NamedTuple):
    """The sets of a cron expression, as bit masks: bit n stands for the value n.

    Attributes:
        days: days of the month, 1 to 31.
        weekdays: days of the week, 0 (Sunday) to 6.
        any_day: whether the day-of-month field carries a full star, so that both day fields must match.
        any_weekday: the same for the day-of-week field.
    """

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    any_day: bool
    any_weekday: bool


class CronText(NamedTuple):
    """A cron text taken apart: the zone's name ("" when none is named) and what is left of the text."""

    zone: str
    rest: str


class _Field(NamedTuple):
    name: str
    lowest: int
    highest: int
    names: Mapping[str, int]
    hint: str


_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_WEEKDAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}

_MINUTE = _Field("minute", 0, 59, {}, "use 0 to 59")
_HOUR = _Field("hour", 0, 23, {}, "use 0 to 23")
_DAY = _Field("day of month", 1, 31, {}, "use 1 to 31")
_MONTH = _Field("month", 1, 12, _MONTHS, "use 1 to 12 or jan to dec")
_WEEKDAY = _Field("day of week", 0, 6, _WEEKDAYS, "use 0 (Sunday) to 6, or sun to sat")
_STEP_HINT = "use a step of 1 to 59"


def split_zone(text: str, timezone: str) -> CronText:
    """Take the zone from `timezone`, or from the ``TZ=`` or ``CRON_TZ=`` prefix of `text`.

    Raises:
        ScheduleError: the zone is given twice, or nothing follows the prefix.
    """
    prefix = next((prefix for prefix in _ZONE_PREFIXES if text.startswith(prefix)), None)
    if timezone:
        if prefix:
            raise ScheduleError(
                f"cron expression {quoted(text)} names a zone, and the timezone {quoted(timezone)} is set too: keep one"
            )
        # Blanks around are forgiven where a zone stands before them, and only spaces end a zone's name: Go joins the
        # two with a space and parses them as one text.
        return CronText(timezone.rstrip(" "), _OUTER_BLANKS.sub("", text))
    if not prefix:
        return CronText("", text)
    zone, space, rest = text.removeprefix(prefix).partition(" ")
    if not space:
        raise ScheduleError(f"cron expression {quoted(text)} is only a zone: after it and a space, {_FIVE_FIELDS}")
    return CronText(zone, _OUTER_BLANKS.sub("", rest))


def parse_rest(text: str) -> CronFields | Every:
    """Read what stands behind the zone: five fields, or a descriptor.

    Raises:
        ScheduleError: naming the field, the value and the remedy.
    """
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return _every(text)
        fields = _DESCRIPTORS.get(text)
        if fields is None:
            known = ", ".join(_DESCRIPTORS)
            raise ScheduleError(f"unknown descriptor {quoted(text)}: write {known} or '@every 1h30m', in lower case")
        return _parse_fields(text, fields.split())
    return _parse_fields(text, _NOT_BLANKS.findall(text))


def _every(text: str) -> Every:
    try:
        delay = parse_go_duration(text.removeprefix(_EVERY))
    except ScheduleError as fault:
        raise ScheduleError(f"cron expression {quoted(text)}: {fault}") from fault
    return Every(max(_SHORTEST_INTERVAL, delay - delay % timedelta(seconds=1)))


def _parse_fields(text: str, fields: list[str]) -> CronFields:
    if len(fields) != 5:
        found = f"{quoted(text)} has {len(fields)} fields instead of 5" if fields else "is empty"
        more = " (seconds and years have no field)" if len(fields) in {6, 7} else ""
        raise ScheduleError(f"cron expression {found}: {_FIVE_FIELDS}{more}, or a descriptor such as @daily")
    minutes, _ = _parse_field(fields[0], _MINUTE)
    hours, _ = _parse_field(fields[1], _HOUR)
    days, any_day = _parse_field(fields[2], _DAY)
    months, _ = _parse_field(fields[3], _MONTH)
    weekdays, any_weekday = _parse_field(fields[4], _WEEKDAY)
    return CronFields(minutes, hours, days, months, weekdays, any_day, any_weekday)


def _parse_field(text: str, field: _Field) -> tuple[int, bool]:
    """Return the mask of a list, and whether a part of it is a full star. Empty parts mean nothing."""
    mask = 0
    full_star = False
    # Each distinct part once: a long list repeats few of them.
    for part in dict.fromkeys(text.split(",")):
        if part:
            values, is_star = _parse_part(part, field)
            mask |= values
            full_star = full_star or is_star
    return mask, full_star


def _parse_part(part: str, field: _Field) -> tuple[int, bool]:
    """Return the mask of ``*``, ``N``, ``A-B`` or one of them with ``/step``, and whether it is a full star."""
    span, slash, step_text = part.partition("/")
    low_text, hyphen, high_text = span.partition("-")
    is_star = low_text in {"*", "?"}
    if is_star:
        # What follows a star up to the slash has no meaning, and is no fault either.
        low, high = field.lowest, field.highest
    else:
        low = _value(low_text, part, field)
        high = low
        if hyphen:
            high = _value(high_text, part, field)
        elif slash:
            high = field.highest
    step = 1
    if slash:
        step = _number(step_text, part, field, "step", _STEP_HINT)
    if step == 0:
        _refuse(part, field, "has the step 0", _STEP_HINT)
    for value in (low, high):
        if not field.lowest <= value <= field.highest:
            _refuse(part, field, f"is out of range at {value}", field.hint)
    if low > high:
        _refuse(part, field, f"runs backwards from {low} to {high}", "put the smaller value first, or list two ranges")
    if step == 1:
        return (2 << high) - (1 << low), is_star
    return sum(1 << value for value in range(low, high + 1, step)), False


def _value(text: str, part: str, field: _Field) -> int:
    named = field.names.get(text.lower())
    if named is not None:
        return named
    return _number(text, part, field, "value", field.hint)


def _number(text: str, part: str, field: _Field, what: str, remedy: str) -> int:
    digits = text.removeprefix("+")
    if not text:
        _refuse(part, field, f"lacks a {what}", remedy)
    if not (digits.isascii() and digits.isdecimal()):
        where = "is" if text == part else f"has {quoted(text)}, which is"
        _refuse(part, field, f"{where} no {what}", f"{remedy}, and the signs * ? , - / only")
    digits = digits.lstrip("0") or "0"
    if len(digits) > _LARGEST_DIGITS or int(digits) > _LARGEST_NUMBER:
        _refuse(part, field, f"has a {what} that is too large", remedy)
    return int(digits)


def _refuse(part: str, field: _Field, fault: str, remedy: str) -> NoReturn:
    raise ScheduleError(f"{field.name} {quoted(part)} {fault}: {remedy}")
