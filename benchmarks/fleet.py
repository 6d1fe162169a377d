"""Trigger rows for the measurements, written by SQL as a foreign service would."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from scheduler_worker.domain.schedule import CronRule, RateRule, Rule
from scheduler_worker.embedded_postgres import EmbeddedPostgres
from scheduler_worker.run_service.codec import encode_automation, encode_trigger_spec

_ZONES = ("", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Asia/Tokyo")

_START_SECONDS = 10.0
_ROWS_READY_PER_SECOND = 3_000
"""How fast triggers are written, read and armed at the least."""

_AGE = timedelta(hours=1)
"""How long ago the first trigger was deployed: before the worker started, and after their last fire times.

The others follow by a millisecond: no two have the same history, so none profits from what another was asked.
"""


def mixed_schedules() -> list[Rule]:
    """Return the 1,400 schedules of a large fleet at rest: monthly, weekdays apart, in five zones."""
    return list(_monthly())


def due_once(at: datetime) -> list[Rule]:
    """Return a schedule whose first fire time is `at`, and whose next is ten years later."""
    return [RateRule(value=3650, unit="day", start_time=at)]


def due_in_turn(first: datetime, count: int, step: timedelta) -> list[Rule]:
    """Return `count` schedules that fall due one after the other."""
    return [RateRule(value=3650, unit="day", start_time=first + number * step) for number in range(count)]


def time_to_fire(count: int) -> datetime:
    """Return a whole second by which `count` triggers that are inserted now are armed, also on a slow machine."""
    lead = timedelta(seconds=_START_SECONDS + count / _ROWS_READY_PER_SECOND)
    return (datetime.now(UTC) + lead).replace(microsecond=0)


def must_be_ahead(at: datetime) -> None:
    """Raise RuntimeError if `at` has come: what is due before it is armed is late, and goes another way."""
    if datetime.now(UTC) >= at:
        raise RuntimeError(f"the triggers were due before all were armed: this machine is too busy ({at:%H:%M:%S})")


def insert(postgres: EmbeddedPostgres, database: str, count: int, rules: Sequence[Rule], *, kind: str = "t") -> None:
    """Insert `count` active triggers that have `rules` in turn, deployed a while ago; `kind` goes into their names."""
    automations = ",".join(f"'\\x{encode_automation(rule).hex()}'" for rule in rules)
    spec = encode_trigger_spec(active=True, inputs={"region": "eu", "limit": 10}, task_version="v1").hex()
    deployed_at = f"timestamptz '{(datetime.now(UTC) - _AGE).isoformat()}' + i * interval '1 millisecond'"
    postgres.execute(
        "INSERT INTO triggers (project, domain, task_name, name, spec, automation_spec, task_version, active,"
        " automation_type, deployed_at, updated_at)"
        f" SELECT 'project' || i % 20, 'production', 'flows.daily.task' || i % 1000, '{kind}' || i, '\\x{spec}',"
        f" (ARRAY[{automations}]::bytea[])[1 + i % {len(rules)}], 'v1', true, 'TYPE_SCHEDULE',"
        f" {deployed_at}, {deployed_at} FROM generate_series(1, {count}) AS i",
        database,
    )
    postgres.execute("VACUUM ANALYZE triggers", database)


def _monthly() -> Iterator[Rule]:
    for number in range(1400):
        minute, hour, day = number % 60, number % 24, 1 + number % 28
        yield CronRule(f"{minute} {hour} {day} * *", _ZONES[number % len(_ZONES)])
