"""APScheduler's triggers over the project's own schedules.

Decides which fire time APScheduler is told next. Must never raise, must never repeat a fire time, and must never make
one pass of APScheduler produce a backlog: owed times of the past are fired by catch-up.
"""

from datetime import datetime, timedelta
from functools import lru_cache

from apscheduler.triggers.base import BaseTrigger

from scheduler_worker.domain.cron import CronSchedule
from scheduler_worker.domain.schedule import Schedule

LIVE_WINDOW = timedelta(seconds=60)
"""How late a fire time may be and still come from APScheduler.

APScheduler collects all due times of a job in one pass on the event loop: a process that slept for a night would make
thousands for each job at once. What is jumped over stays owed and comes by catch-up, which is bounded and fair.
"""

_SHARED_TRIGGERS = 4096
"""Triggers kept for schedules that many jobs share; each job holds its own, so forgetting one loses nothing."""


class _ScheduleTrigger(BaseTrigger):
    """Tells APScheduler the fire times of one schedule. It has no state of its own, so any number of jobs share it."""

    __slots__ = ("_schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the first fire time strictly after `previous_fire_time`, or after `now` if there was none.

        After a `previous_fire_time` that is more than `LIVE_WINDOW` ago it is the first one within that window. None
        means that there is none any more.
        """
        if previous_fire_time is None:
            return self._schedule.next_after(now)
        # Not `previous_fire_time < now - LIVE_WINDOW`: a difference of instants never overflows.
        if now - previous_fire_time > LIVE_WINDOW:
            return self._schedule.next_after(now - LIVE_WINDOW)
        return self._schedule.next_after(previous_fire_time)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self._schedule!r}>"


class CronTrigger(_ScheduleTrigger):
    """The fire times of a cron schedule."""

    __slots__ = ()


class IntervalTrigger(_ScheduleTrigger):
    """The fire times of a fixed rate."""

    __slots__ = ()


@lru_cache(maxsize=_SHARED_TRIGGERS)
def trigger_for(schedule: Schedule) -> BaseTrigger:
    """Return the trigger over `schedule`, one object for all jobs of the schedule."""
    return CronTrigger(schedule) if isinstance(schedule, CronSchedule) else IntervalTrigger(schedule)
