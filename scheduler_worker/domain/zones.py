"""Time zones: which names exist, and between which instants a zone's distance from UTC stays the same.

Decides what counts as a zone name, the same on every host: names are case-sensitive whatever the file system says, and
the zone of the host itself has no name here. Must never step over a change of the clocks.
"""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from scheduler_worker.domain.quoting import quoted
from scheduler_worker.errors import ScheduleError

TICK = datetime.resolution
"""The smallest step between two instants."""

_DAY = timedelta(days=1)
_PROBE = timedelta(days=2)
"""Distance between looks at a zone's offset. The closest two changes in the zone database are 3.9 days apart."""
_KEPT_YEARS = 64
"""Years of one zone that are kept at a time: live schedules need two or three, and a search may visit thousands."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)

_HOST_ZONE_NAMES = frozenset({"Local", "localtime"})
"""Go's name for the zone of the host, and the link to it that some systems keep among the zone files."""


def in_utc(instant: datetime) -> datetime:
    """Return the same instant in UTC; one that lies outside the years of a datetime comes as the nearest inside.

    Raises:
        ValueError: `instant` is naive.
    """
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} is no instant: it has no UTC offset")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        return _EARLIEST if instant.year == _EARLIEST.year else _LATEST


def utc_text(instant: datetime) -> str:
    """Return `instant` as ``2026-02-27T23:59:00Z``, cut to whole seconds."""
    return in_utc(instant).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


class Stretch(NamedTuple):
    """The instants in [`start`, `end`), in which clocks are `offset` ahead of UTC. It need not be maximal."""

    start: datetime
    end: datetime
    offset: timedelta


class Zone:
    """One time zone, seen as stretches of a constant offset. Get it from `zone_named`, which shares it."""

    __slots__ = ("_info", "_latest", "_years", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._info = ZoneInfo(name)
        self._years: dict[int, tuple[Stretch, ...]] = {}
        self._latest = Stretch(_LATEST, _LATEST, timedelta())

    def stretch_at(self, instant: datetime) -> Stretch:
        """Return a stretch that holds `instant`, which is in UTC."""
        stretch = self._latest
        if stretch.start <= instant < stretch.end:
            return stretch
        stretches = self._years.get(instant.year)
        if stretches is None:
            if len(self._years) >= _KEPT_YEARS:
                self._years.clear()
            stretches = self._years[instant.year] = self._stretches_in(instant.year)
        stretch = stretches[bisect_right(stretches, instant, key=_start_of) - 1]
        self._latest = stretch
        return stretch

    def _stretches_in(self, year: int) -> tuple[Stretch, ...]:
        start = datetime(year, 1, 1, tzinfo=UTC)
        end = datetime(year + 1, 1, 1, tzinfo=UTC) if start.year < _LATEST.year else _LATEST
        stretches: list[Stretch] = []
        offset = self._offset_at(start)
        probe = start
        while probe < end:
            next_probe = probe + _PROBE if end - probe > _PROBE else end
            next_offset = self._offset_at(next_probe)
            if next_offset != offset:
                change = self._change_between(probe, next_probe, next_offset)
                stretches.append(Stretch(start, change, offset))
                start, offset = change, next_offset
            probe = next_probe
        if start < end:
            stretches.append(Stretch(start, end, offset))
        return tuple(stretches)

    def _change_between(self, before: datetime, after: datetime, offset_after: timedelta) -> datetime:
        """Return the first instant in (`before`, `after`] with `offset_after`, given that there is one change."""
        while after - before > TICK:
            middle = before + (after - before) // 2
            if self._offset_at(middle) == offset_after:
                after = middle
            else:
                before = middle
        return after

    def _offset_at(self, instant: datetime) -> timedelta:
        # The wall time of the first and the last day may lie outside the years that a datetime can hold.
        inside = min(max(instant, _EARLIEST + _DAY), _LATEST - _DAY)
        offset = inside.astimezone(self._info).utcoffset()
        assert offset is not None  # a ZoneInfo always knows it
        return offset


def _start_of(stretch: Stretch) -> datetime:
    return stretch.start


@cache
def zone_named(name: str) -> Zone:
    """Return the zone of an IANA name such as ``Europe/Berlin``, spelled exactly so.

    Raises:
        ScheduleError: there is no such zone, or the name means the zone of the host.
    """
    if name in _HOST_ZONE_NAMES:
        raise ScheduleError(
            f"time zone {quoted(name)} is that of the host, whichever it is: write an IANA name such as Europe/Berlin"
        )
    if name not in _zone_names():
        raise ScheduleError(
            f"unknown time zone {quoted(name)}: write an IANA name such as Europe/Berlin or UTC, in that very spelling"
        )
    return Zone(name)


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())
