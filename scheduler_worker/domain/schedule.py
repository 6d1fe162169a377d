"""What a schedule is: a rule as people write it, and the fire times that follow from it.

Decides which rules are usable and which schedule they mean. A rule that can never fire is refused here, so that nothing
further on meets a schedule without fire times. Cron lives in `cron.py`, fixed rates in `fixed_rate.py`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, Protocol

from scheduler_worker.domain.cron import parse_standard
from scheduler_worker.domain.cron_text import Every
from scheduler_worker.domain.fixed_rate import LONGEST_INTERVAL, FixedRateSchedule
from scheduler_worker.domain.quoting import LONGEST_QUOTE_CHARACTERS, quoted
from scheduler_worker.domain.zones import utc_text
from scheduler_worker.errors import ScheduleError

RateUnit = Literal["", "minute", "hour", "day"]

_UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}

_SHARED_RATES = 4096
"""Triggers deployed together have equal rates and anchors; each holds its schedule, so forgetting one loses nothing."""


class Schedule(Protocol):
    """The fire times of one rule."""

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time strictly later than `instant`, or None if there is none.

        `instant` is aware; the answer is aware, in UTC, in whole seconds.
        """
        ...

    def __hash__(self) -> int:
        """Schedules are shared and looked up."""
        ...


@dataclass(frozen=True, slots=True)
class CronRule:
    """A cron expression in Go's five-field form, and the IANA zone it is read in: "" is the prefix's, else UTC."""

    expression: str
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class RateRule:
    """Every `value` `unit`s, from `start_time` on, or from the trigger's activation when that is None."""

    value: int
    unit: RateUnit
    start_time: datetime | None = None


Rule = CronRule | RateRule
"""What a trigger row says about its times, decoded and not yet checked."""


def schedule_of(rule: Rule, *, activated_at: datetime) -> Schedule:
    """Return the schedule that `rule` means for a trigger which was switched on at `activated_at`.

    Only rates without a start time (``@every`` among them) depend on the activation: their first fire time is one
    interval after it. Equal cron rules share one object, whatever the activation.

    Raises:
        ScheduleError: the rule can't be read, its zone is unknown, its interval is 0 or over 10 years, its unit is
            not set, or it can never fire. The message names the fault, the value and the remedy.
        ValueError: an instant is naive.
    """
    if isinstance(rule, RateRule):
        interval = _interval_of(rule)
        if rule.start_time is None:
            return _fixed_rate(activated_at, interval, fires_at_anchor=False)
        return _fixed_rate(rule.start_time, interval, fires_at_anchor=True)
    schedule = parse_standard(rule.expression, rule.timezone)
    if isinstance(schedule, Every):
        return _fixed_rate(activated_at, schedule.interval, fires_at_anchor=False)
    if schedule.never_fires:
        raise ScheduleError(
            f"cron expression {quoted(rule.expression)} can never fire: a field of it names no value at all, or none of"
            " its months has such a day: write a date that exists"
        )
    return schedule


_fixed_rate = lru_cache(maxsize=_SHARED_RATES)(FixedRateSchedule)


def _interval_of(rule: RateRule) -> timedelta:
    unit = _UNITS.get(rule.unit)
    if unit is None:
        raise ScheduleError(
            f"the rate's unit is {quoted(rule.unit) if rule.unit else 'not set'}: set minute, hour or day"
        )
    # Checked before the product is made: a value has 32 bits, and as many days are past what a timedelta holds.
    most = LONGEST_INTERVAL // unit
    if not 1 <= rule.value <= most:
        raise ScheduleError(f"the rate's value is {rule.value}: set 1 to {most} {rule.unit}s (10 years)")
    return rule.value * unit


def describe(rule: Rule) -> str:
    """Return `rule` as short text for people: ``cron 0 9 * * 1-5 Europe/Berlin``, ``every 15 minutes``.

    Works for rules that can't be used, too.
    """
    if isinstance(rule, CronRule):
        parts = (_in_line(rule.expression), _in_line(rule.timezone))
        return " ".join(("cron", *(part for part in parts if part)))
    unit = rule.unit or "(no unit)"
    every = f"every {unit}" if rule.value == 1 else f"every {rule.value} {unit}{'s' if rule.unit else ''}"
    if rule.start_time is None:
        return every
    return f"{every} from {utc_text(rule.start_time)}"


def _in_line(text: str) -> str:
    return text if text.isprintable() and len(text) <= LONGEST_QUOTE_CHARACTERS else quoted(text)
