"""What one question for the next fire time costs, beside other libraries, and what a year's backlog costs."""

import itertools
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading
from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.life import Span
from scheduler_worker.domain.schedule import CronRule, RateRule, Rule, schedule_of

_CRON_KINDS = (
    ("* * * * *", "UTC"),
    ("* * * * *", "America/New_York"),
    ("0 9 * * *", "UTC"),
    ("0 9 * * *", "America/New_York"),
    ("0 9 * * 1-5", "America/New_York"),
    ("0 0 1 * *", "America/New_York"),
    ("0 0 29 2 *", "America/New_York"),
)
_START = datetime(2027, 1, 10, 7, 30, 15, tzinfo=UTC)
_CALLS = 2_000
_QUICK_CALLS = 300
_BACKLOG = timedelta(days=365)
_OWED = 100


def _measure(bench: Bench) -> Iterator[Reading]:
    calls = _QUICK_CALLS if bench.quick else _CALLS
    for expression, zone in _CRON_KINDS:
        name = f"next after, {expression} {zone}"
        yield _per_call(name, _ours(CronRule(expression, zone)), calls)
        yield _per_call(f"{name}, APScheduler", _apschedulers(expression, zone), calls)
        yield _per_call(f"{name}, croniter", _croniters(expression, zone), calls)
        yield _per_call(f"{name}, cronsim", _cronsims(expression, zone), calls)
    yield _per_call("next after, every 15 minutes", _ours(RateRule(15, "minute", _START)), calls)
    yield _first_owed()


def _per_call(figure: str, next_after: Callable[[datetime], datetime], calls: int) -> Reading:
    """Walk from fire time to fire time, and begin anew before dates run out."""
    instant = _START
    began = time.perf_counter()
    for number in range(calls):
        instant = _START if number % 100 == 0 else next_after(instant)
    return Reading(figure=figure, value=(time.perf_counter() - began) / calls * 1e6, unit="µs")


def _ours(rule: Rule) -> Callable[[datetime], datetime]:
    schedule = schedule_of(rule, activated_at=_START)

    def next_after(instant: datetime) -> datetime:
        fire_time = schedule.next_after(instant)
        assert fire_time is not None
        return fire_time

    return next_after


def _apschedulers(expression: str, zone: str) -> Callable[[datetime], datetime]:
    trigger = CronTrigger.from_crontab(expression, timezone=ZoneInfo(zone))

    def next_after(instant: datetime) -> datetime:
        fire_time: datetime = trigger.get_next_fire_time(instant, instant)
        return fire_time

    return next_after


def _croniters(expression: str, zone: str) -> Callable[[datetime], datetime]:
    place = ZoneInfo(zone)
    iterator = croniter(expression, _START.astimezone(place), ret_type=datetime)

    def next_after(instant: datetime) -> datetime:
        fire_time: datetime = iterator.get_next(start_time=instant.astimezone(place))
        return fire_time

    return next_after


def _cronsims(expression: str, zone: str) -> Callable[[datetime], datetime]:
    place = ZoneInfo(zone)

    def next_after(instant: datetime) -> datetime:
        # It has no question for the time after an instant: each walk begins with reading the expression.
        fire_time: datetime = next(CronSim(expression, instant.astimezone(place)))
        return fire_time

    return next_after


def _first_owed() -> Reading:
    schedule = schedule_of(CronRule("* * * * *"), activated_at=_START)
    ledger = Ledger((Span(schedule, _START),), confirmed_through=_START)
    began = time.perf_counter()
    owed = list(itertools.islice(ledger.owed(_START + _BACKLOG), _OWED))
    milliseconds = (time.perf_counter() - began) * 1000
    assert len(owed) == _OWED
    return Reading(
        figure=f"first {_OWED} owed of 365 days of minutes", value=milliseconds, unit="ms", bar=2.0, precise=3
    )


MATHS = Family(name="maths", measure=_measure)
