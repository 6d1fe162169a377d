"""Durations as Go writes them: `1h30m`, `1.5s`, `500ms`.

Decides what counts as such a text and what it means. Must never guess a unit: a bare number is refused.
"""

import re
from datetime import timedelta

from scheduler_worker.domain.quoting import quoted
from scheduler_worker.errors import ScheduleError

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # micro sign
    "\u03bcs": 1_000,  # Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LARGEST_NANOSECONDS = 2**63 - 1
"""What Go's 64 bits hold: about 292 years."""
_LARGEST_DIGITS = 19
"""Digits of the largest number of nanoseconds; more of them are refused before they are turned into a number."""
_FRACTION_DIGITS = 19
"""What stands further behind the point is below a nanosecond in every unit."""
_FRACTION_SCALE = 10**19

_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)")
_REMEDY = "write numbers with units, such as 30s, 1m30s or 1.5h (units: ns, us, ms, s, m, h)"

_MICROSECOND = timedelta(microseconds=1)


def parse_go_duration(text: str) -> timedelta:
    """Read a duration in the grammar of Go's ``time.ParseDuration``: ``1h30m``, ``-1.5s``, ``500ms``, ``0``.

    What is finer than a microsecond is cut off towards zero.

    Raises:
        ScheduleError: naming the text, the fault and the remedy.
    """
    unsigned = text[1:] if text[:1] in {"-", "+"} else text
    if unsigned == "0":
        return timedelta()
    if not unsigned:
        raise ScheduleError(f"duration {quoted(text)} has no number; {_REMEDY}")
    nanoseconds = 0
    position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        assert part is not None  # every piece of the pattern may be empty
        nanoseconds += _nanoseconds_of(part, text)
        if nanoseconds > _LARGEST_NANOSECONDS:
            raise ScheduleError(f"duration {quoted(text)} is longer than 292 years; {_REMEDY}")
        position = part.end()
    duration = timedelta(microseconds=nanoseconds // 1_000)
    return -duration if text[0] == "-" else duration


def _nanoseconds_of(part: re.Match[str], text: str) -> int:
    whole, fraction, unit = part[1].lstrip("0"), part[2] or "", part[3]
    if not part[1] and not fraction:
        raise ScheduleError(f"duration {quoted(text)} has no number before {quoted(unit or '.')}; {_REMEDY}")
    if not unit:
        raise ScheduleError(f"duration {quoted(text)} has no unit after {quoted(part[0])}; {_REMEDY}")
    if unit not in _NANOSECONDS:
        raise ScheduleError(f"duration {quoted(text)} has the unknown unit {quoted(unit)}; {_REMEDY}")
    if len(whole) > _LARGEST_DIGITS:
        raise ScheduleError(f"duration {quoted(text)} is longer than 292 years; {_REMEDY}")
    scale = _NANOSECONDS[unit]
    fraction = fraction[:_FRACTION_DIGITS].ljust(_FRACTION_DIGITS, "0")
    return int(whole or "0") * scale + int(fraction) * scale // _FRACTION_SCALE


def format_go_duration(duration: timedelta) -> str:
    """Return the short text that `parse_go_duration` reads as `duration`: ``1h30m``, ``1.5s``, ``500ms``, ``0s``."""
    total = abs(duration) // _MICROSECOND
    sign = "-" if duration < timedelta() else ""
    if not total:
        return "0s"
    if total < 1_000:
        return f"{sign}{total}us"
    if total < 1_000_000:
        return f"{sign}{_decimal(total, 1_000)}ms"
    minutes, microseconds = divmod(total, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    parts = [
        f"{hours}h" if hours else "",
        f"{minutes}m" if minutes else "",
        f"{_decimal(microseconds, 1_000_000)}s" if microseconds else "",
    ]
    return sign + "".join(parts)


def _decimal(number: int, divisor: int) -> str:
    whole, rest = divmod(number, divisor)
    digits = str(rest).zfill(len(str(divisor)) - 1).rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
