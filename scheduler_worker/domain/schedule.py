"""What a schedule is: a rule as people write it, and the fire times that follow from it.

Cron lives in `cron.py`, fixed rates in `fixed_rate.py`; this module names the two rules and picks the right one.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal, Protocol

RateUnit = Literal["", "minute", "hour", "day"]


class Schedule(Protocol):
    """The fire times of one rule."""

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time strictly later than `instant`, or None if there is none.

        `instant` is aware; the answer is aware, in UTC, in whole seconds.
        """
        ...


@dataclass(frozen=True, slots=True)
class CronRule:
    """A cron expression in Go's five-field form, and the IANA zone it is read in ("" is the prefix's zone, else UTC)."""

    expression: str
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class RateRule:
    """Every `value` `unit`s, from `start_time` on, or from the trigger's activation when that is None."""

    value: int
    unit: RateUnit
    start_time: datetime | None = None


Rule = CronRule | RateRule
