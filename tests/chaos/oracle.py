"""Which fire times are owed, worked out from the snapshots by walking every second.

Slow and plain on purpose, and it shares no line with the worker: it reads the protobuf message itself, knows only the
few forms of schedule that the chaos plan uses, and refuses any other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from google.protobuf.message import DecodeError

from scheduler_worker.run_service._pb.flyteidl2 import task_pb2
from tests.chaos.history import Key, Revision

Fires = Callable[[int], bool]
"""Says of a second since 1970 whether a schedule fires there."""

_RATE_SECONDS = {
    task_pb2.FIXED_RATE_UNIT_MINUTE: 60,
    task_pb2.FIXED_RATE_UNIT_HOUR: 3600,
    task_pb2.FIXED_RATE_UNIT_DAY: 86400,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """One owed fire time.

    Attributes:
        revision: the revision that owes it.
        ended_by: number of the revision that switched the trigger off before it could owe on, if one did: without a
            run by then, the time is forfeited.
        forfeit: ``paused`` or ``deleted``, with `ended_by`.
    """

    time: datetime
    revision: int
    ended_by: int | None = None
    forfeit: str | None = None


def owed_times(revisions: Sequence[Revision], through: datetime) -> Iterator[Owed]:
    """Yield what a trigger with these snapshots owes up to `through`, oldest first.

    A revision owes the times strictly after it came into force, up to and with the instant of the next one.
    """
    for place, revision in enumerate(revisions):
        if not revision.active or revision.deleted_at is not None:
            continue
        fires = _fires(revision)
        if fires is None:
            continue
        following = revisions[place + 1 :]
        until = min(through, following[0].in_force_from) if following else through
        end = next((later for later in following if not later.active), None)
        forfeit = None if end is None else "deleted" if end.deleted_at is not None else "paused"
        for second in range(int(revision.in_force_from.timestamp()), int(until.timestamp()) + 1):
            time = datetime.fromtimestamp(second, UTC)
            if revision.in_force_from < time <= until and fires(second):
                yield Owed(
                    time=time,
                    revision=revision.number,
                    ended_by=None if end is None else end.number,
                    forfeit=forfeit,
                )


def would_fire(revision: Revision, time: datetime) -> bool:
    """Say whether the revision's schedule has a fire time at `time`, in force or not."""
    if not revision.active or revision.deleted_at is not None or time.microsecond:
        return False
    fires = _fires(revision)
    return fires is not None and time > revision.in_force_from and fires(int(time.timestamp()))


def run_name(key: Key, time: datetime) -> str:
    """Return the name that the run of this fire time must have."""
    text = ":".join([*key, *map(str, (time.year, time.month, time.day, time.hour, time.minute, time.second))])
    digest = 14695981039346656037
    for byte in text.encode():
        digest = (digest * 1099511628211) % 2**64 ^ byte
    return f"r{digest:x}"


def _fires(revision: Revision) -> Fires | None:
    """Return what the revision's schedule says of a second, or None for a bad one."""
    try:
        message = task_pb2.TriggerAutomationSpec.FromString(revision.automation_spec)
    except DecodeError:
        return None
    form = message.schedule.WhichOneof("expression")
    if form == "rate":
        return _rate(message.schedule.rate, revision.updated_at)
    if form == "cron":
        return _cron(message.schedule.cron.expression, message.schedule.cron.timezone, revision.updated_at)
    return None


def _rate(rate: task_pb2.FixedRate, activated_at: datetime) -> Fires | None:
    interval = rate.value * _RATE_SECONDS.get(rate.unit, 0)
    if interval == 0:
        return None
    if not rate.HasField("start_time"):
        return _grid(int(activated_at.timestamp()), interval, with_anchor=False)
    return _grid(rate.start_time.seconds, interval, with_anchor=True)


def _grid(anchor: int, interval: int, *, with_anchor: bool) -> Fires:
    first = anchor if with_anchor else anchor + interval
    return lambda second: second >= first and (second - anchor) % interval == 0


def _cron(expression: str, zone_name: str, activated_at: datetime) -> Fires | None:
    if expression.startswith("TZ="):
        prefix, expression = expression.split(" ", 1)
        zone_name = zone_name or prefix.removeprefix("TZ=")
    if expression.startswith("@every "):
        interval = expression.removeprefix("@every ").removesuffix("s")
        return _grid(int(activated_at.timestamp()), int(interval), with_anchor=False)
    minute, *others = expression.split() or [""]
    if others != ["*"] * 4 or not (minute == "*" or minute.startswith("*/") or minute.isdigit()):
        return None  # the plan's bad expressions; every good one is of the forms above
    zone = ZoneInfo(zone_name or "UTC")

    def fires(second: int) -> bool:
        if second % 60:
            return False
        reading = datetime.fromtimestamp(second, UTC).astimezone(zone)
        if reading.second:
            return False
        if minute.isdigit():
            return reading.minute == int(minute)
        return minute == "*" or reading.minute % int(minute.removeprefix("*/")) == 0

    return fires
