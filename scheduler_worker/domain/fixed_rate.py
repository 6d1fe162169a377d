"""Fixed rates: fire n is at anchor + n * interval, in absolute seconds.

Decides the grid, which never shifts: no zone, no history and no clock has a part in it. Must never count its way along
the grid, however old the anchor is.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler_worker.domain.go_duration import format_go_duration
from scheduler_worker.domain.zones import in_utc
from scheduler_worker.errors import ScheduleError

LONGEST_INTERVAL = timedelta(days=3653)
"""Ten years, with as many leap days as they can have. What is longer is taken as a mistake, as is an overflow."""
_SHORTEST_INTERVAL = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class FixedRateSchedule:
    """The fire times of one fixed rate.

    Attributes:
        anchor: fire 0 of the grid, in UTC; cut to whole seconds.
        interval: whole seconds, 1 second to `LONGEST_INTERVAL`.
        fires_at_anchor: whether the anchor itself is the first fire time (a start time), or the first one comes an
            interval later (an activation).
    """

    anchor: datetime
    interval: timedelta
    fires_at_anchor: bool

    def __post_init__(self) -> None:
        """Cut the anchor to whole seconds.

        Raises:
            ScheduleError: the interval is out of bounds.
            ValueError: `anchor` is naive.
        """
        if not _SHORTEST_INTERVAL <= self.interval <= LONGEST_INTERVAL:
            raise ScheduleError(
                f"the interval of a fixed rate is {format_go_duration(self.interval)}: set 1 second to 10 years"
            )
        object.__setattr__(self, "anchor", in_utc(self.anchor).replace(microsecond=0))

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time strictly later than `instant`, in UTC, or None if it is past year 9999."""
        anchor = self.anchor
        # Never before fire 0, or fire 1.
        number = max((instant - anchor) // self.interval + 1, 0 if self.fires_at_anchor else 1)
        try:
            return anchor + number * self.interval
        except OverflowError:
            return None
