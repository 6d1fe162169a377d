"""Cron schedules: the instants whose wall-clock reading in a zone matches an expression.

Decides the next fire time. A reading that a change of the clocks skips never fires, and one that comes twice fires
twice. Must never walk minutes, must never raise for an aware instant, and must never use the zone of the host.

A wall-clock reading is carried as a datetime labelled UTC, so that going from instants to readings and back is plain
addition of the offset.
"""

from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from weakref import WeakValueDictionary

from scheduler_worker.domain.cron_text import CronFields, Every, parse_rest, split_zone
from scheduler_worker.domain.quoting import quoted
from scheduler_worker.domain.zones import TICK, Zone, in_utc, zone_named

_LARGEST_OFFSET = timedelta(days=1)
"""No zone is further ahead of or behind UTC: Python's own limit."""
_LONGEST_REPEAT = 2 * _LARGEST_OFFSET
"""A reading comes again at most this long after its first time: when the clocks go from one limit to the other."""

_ALL_DAYS = 0xFFFF_FFFE
"""Bits 1 to 31."""
_DAYS_OF_MONTH = tuple(
    _ALL_DAYS & ((2 << length) - 1) for length in (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
)
"""Mask of the days that a month has, by its number; February as in a common year."""
_DAYS_OF_LEAP_FEBRUARY = _DAYS_OF_MONTH[2] | 1 << 29

_KEPT_DAY_SETS = 1024
"""Most expressions name one of a few sets of days, and working one out is most of what reading an expression costs."""


class CronSchedule:
    """The fire times of one cron expression in one zone. Get it from `parse_standard`, which shares it.

    Attributes:
        never_fires: whether no date matches, such as 30 February, or a field is an empty set.
    """

    __slots__ = (
        "__weakref__",
        "_days_by_first_weekday",
        "_first_hour",
        "_first_minute",
        "_hours",
        "_memo",
        "_minutes",
        "_months",
        "_text",
        "_zone",
        "never_fires",
    )

    def __init__(self, fields: CronFields, zone: Zone | None, text: str) -> None:
        """Take the sets of the expression, the zone they are read in (None for UTC), and the text for `repr`."""
        self._zone = zone
        self._text = text
        self._minutes = fields.minutes
        self._hours = fields.hours
        self._first_minute = _lowest(fields.minutes)
        self._first_hour = _lowest(fields.hours)
        self._days_by_first_weekday = _days_by_first_weekday(
            fields.days, fields.weekdays, both=fields.any_day or fields.any_weekday
        )
        self._months = _months_with_days(fields.months, self._days_by_first_weekday)
        self.never_fires = not (self._months and fields.hours and fields.minutes)
        # The answer to the last question: many triggers share a schedule and ask it about the same instant.
        self._memo: tuple[datetime | None, datetime | None] = (None, None)

    def __repr__(self) -> str:
        return f"<CronSchedule {quoted(self._text)} in {self._zone.name if self._zone else 'UTC'}>"

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time strictly later than `instant`, in UTC, or None if there is none up to year 9999.

        Raises:
            ValueError: `instant` is naive.
        """
        asked, answer = self._memo
        if instant == asked:
            return answer
        if instant.tzinfo is not UTC:
            instant = in_utc(instant)
        if self.never_fires:
            answer = None
        elif self._zone is None:
            answer = self._reading_after(instant)
        else:
            answer = self._next_in_zone(instant, self._zone)
        self._memo = (instant, answer)
        return answer

    def _next_in_zone(self, instant: datetime, zone: Zone) -> datetime | None:
        stretch = zone.stretch_at(instant)
        try:
            reading = self._reading_after(instant + stretch.offset)
        except OverflowError:
            # Clocks read a year before the first or after the last one.
            reading = self._reading_from(1, 1) if stretch.offset < timedelta() else None
        while reading is not None:
            try:
                fire_time = reading - stretch.offset
            except OverflowError:
                return None
            if fire_time < stretch.end:
                return fire_time
            # Up to the end of the stretch nothing matches. Go on with what the clocks read from there, its very start
            # included: that may be earlier than what they read before.
            start = stretch.end
            if start - instant > _LONGEST_REPEAT:
                # No reading comes again any more, so nothing matches before the clocks may read `reading`.
                start = max(start, reading - _LARGEST_OFFSET)
            instant = start
            stretch = zone.stretch_at(start)
            reading = self._reading_after(start + stretch.offset - TICK)
        return None

    def _reading_after(self, wall: datetime) -> datetime | None:
        """Return the first matching reading strictly later than `wall`, or None if there is none."""
        year, month, day = wall.year, wall.month, wall.day
        if self._months >> month & 1:
            days = self._days_in(year, month)
            if days >> day & 1:
                hour = wall.hour
                if self._hours >> hour & 1:
                    minute = wall.minute + 1
                    later = self._minutes >> minute
                    if later:
                        return datetime(year, month, day, hour, minute + _lowest(later), tzinfo=UTC)
                hour += 1
                later = self._hours >> hour
                if later:
                    return datetime(year, month, day, hour + _lowest(later), self._first_minute, tzinfo=UTC)
            day += 1
            later = days >> day
            if later:
                return datetime(year, month, day + _lowest(later), self._first_hour, self._first_minute, tzinfo=UTC)
        return self._reading_from(year, month + 1)

    def _reading_from(self, year: int, month: int) -> datetime | None:
        """Return the first matching reading in `month` (1 to 13, which is the next January) or later."""
        while True:
            later = self._months >> month
            if later:
                month += _lowest(later)
            elif year == MAXYEAR:
                return None
            else:
                year, month = year + 1, _lowest(self._months)
            days = self._days_in(year, month)
            if days:
                return datetime(year, month, _lowest(days), self._first_hour, self._first_minute, tzinfo=UTC)
            month += 1

    def _days_in(self, year: int, month: int) -> int:
        days = self._days_by_first_weekday[date(year, month, 1).weekday()]
        if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
            return days & _DAYS_OF_LEAP_FEBRUARY
        return days & _DAYS_OF_MONTH[month]


def _lowest(mask: int) -> int:
    """Return the number of the lowest bit that is set, -1 if none is."""
    return (mask & -mask).bit_length() - 1


@lru_cache(maxsize=_KEPT_DAY_SETS)
def _days_by_first_weekday(days: int, weekdays: int, *, both: bool) -> tuple[int, ...]:
    """Return, by the weekday of the first (0 for Monday), the days that match in a month of 31 days."""
    masks = []
    for first_weekday in range(7):
        on_weekdays = 0
        for day in range(1, 32):
            weekday_from_sunday = (first_weekday + day) % 7
            on_weekdays |= (weekdays >> weekday_from_sunday & 1) << day
        masks.append(days & on_weekdays if both else days | on_weekdays)
    return tuple(masks)


@lru_cache(maxsize=_KEPT_DAY_SETS)
def _months_with_days(months: int, days_by_first_weekday: tuple[int, ...]) -> int:
    """Return those of `months` in which a day matches in some year. Every month begins with every weekday in some."""
    possible = 0
    for days in days_by_first_weekday:
        possible |= days
    kept = 0
    for month in range(1, 13):
        longest = _DAYS_OF_LEAP_FEBRUARY if month == 2 else _DAYS_OF_MONTH[month]
        if possible & longest:
            kept |= months & 1 << month
    return kept


_shared: WeakValueDictionary[tuple[str, str], CronSchedule | Every] = WeakValueDictionary()
"""By expression and zone, for as long as some trigger has it: a hundred thousand triggers share few expressions."""


def parse_standard(text: str, timezone: str = "") -> CronSchedule | Every:
    """Read a cron expression as Go's robfig/cron ``ParseStandard`` does; ``@every`` gives a fixed rate.

    The zone is `timezone`, else the prefix's, else UTC. Equal texts give the same object. An expression that no date
    can match is read too (see `CronSchedule.never_fires`).

    Raises:
        ScheduleError: naming the field, the value and the remedy.
    """
    key = (text, timezone)
    schedule = _shared.get(key)
    if schedule is None:
        zone_name, rest = split_zone(text, timezone)
        zone = None if zone_name in {"", "UTC"} else zone_named(zone_name)
        parsed = parse_rest(rest)
        schedule = parsed if isinstance(parsed, Every) else CronSchedule(parsed, zone, text)
        _shared[key] = schedule
    return schedule
