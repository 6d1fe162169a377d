"""APScheduler's loop with our parts: every fire time is handed out, exactly, whatever goes wrong around it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.job import Job
from apscheduler.triggers.base import BaseTrigger

from scheduler_worker.domain.schedule import CronRule, RateRule, Schedule, schedule_of
from scheduler_worker.scheduling.job_store import DUE_JOBS_PER_PASS
from scheduler_worker.scheduling.scheduler import RunScheduler
from scheduler_worker.scheduling.triggers import trigger_for

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTELY: Schedule = schedule_of(CronRule("* * * * *"), activated_at=NOON)


class Raising(BaseTrigger):
    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        raise RuntimeError("a bug in a trigger")


class Stand:
    """A running scheduler on a clock that the test moves, and what it handed out."""

    def __init__(self) -> None:
        self.now = NOON
        self.handed_out: list[tuple[str, datetime]] = []
        self.failed: list[str] = []
        self.passes = 0
        self._passed = asyncio.Event()
        self.scheduler = RunScheduler(clock=lambda: self.now, on_pass=self._on_pass, on_job_failed=self._on_job_failed)
        self.scheduler.start()

    def due(self, name: str, fire_times: Sequence[datetime] = ()) -> None:
        self.handed_out += [(name, time) for time in fire_times]

    def arm(self, name: str, schedule: Schedule, next_fire: datetime) -> bool:
        return self.scheduler.arm(name, trigger_for(schedule), self.due, name, next_fire)

    async def move_to(self, now: datetime) -> None:
        """Set the clock and let passes run until nothing more is due."""
        self.now = now
        due = True
        while due:
            self._passed.clear()
            self.scheduler.wakeup()
            await self._passed.wait()
            await asyncio.sleep(0)
            next_time = self.scheduler.store.get_next_run_time()
            due = next_time is not None and next_time <= now

    def _on_pass(self, now: datetime) -> None:
        assert now == self.now
        self.passes += 1
        self._passed.set()

    def _on_job_failed(self, job: Job, error: Exception) -> None:
        self.failed.append(job.id)


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    made = Stand()
    yield made
    await made.scheduler.close()
    await made.scheduler.close()  # closing twice is fine


def seconds(schedule_seconds: int) -> Schedule:
    return schedule_of(CronRule(f"@every {schedule_seconds}s"), activated_at=NOON)


async def test_fire_times_are_exact_however_late_the_pass_is(stand: Stand) -> None:
    stand.arm("a", MINUTELY, NOON + timedelta(minutes=1))
    await stand.move_to(NOON + timedelta(seconds=59.9))
    assert stand.handed_out == []
    await stand.move_to(NOON + timedelta(seconds=61.7))
    assert stand.handed_out == [("a", NOON + timedelta(minutes=1))]


async def test_all_fires_of_a_blocked_loop_are_handed_out(stand: Stand) -> None:
    stand.arm("a", seconds(1), NOON + timedelta(seconds=1))
    await stand.move_to(NOON + timedelta(seconds=20.5))
    assert stand.handed_out == [("a", NOON + timedelta(seconds=n)) for n in range(1, 21)]


async def test_a_long_sleep_costs_a_bounded_number_of_fires_per_job(stand: Stand) -> None:
    stand.arm("a", seconds(1), NOON + timedelta(seconds=1))
    day = NOON + timedelta(days=1)
    await stand.move_to(day)
    assert len(stand.handed_out) <= 62
    assert stand.handed_out[-1] == ("a", day)


async def test_a_wall_clock_that_goes_back_repeats_nothing(stand: Stand) -> None:
    stand.arm("a", seconds(1), NOON + timedelta(seconds=1))
    await stand.move_to(NOON + timedelta(seconds=3))
    await stand.move_to(NOON + timedelta(seconds=1))
    await stand.move_to(NOON + timedelta(seconds=4))
    assert stand.handed_out == [("a", NOON + timedelta(seconds=n)) for n in range(1, 5)]


async def test_a_raising_trigger_harms_only_itself(stand: Stand) -> None:
    stand.scheduler.arm("bad", Raising(), stand.due, "bad", NOON + timedelta(seconds=1))
    stand.arm("good", seconds(2), NOON + timedelta(seconds=2))
    await stand.move_to(NOON + timedelta(seconds=4))
    assert stand.failed == ["bad"]
    assert stand.handed_out == [("good", NOON + timedelta(seconds=n)) for n in (2, 4)]
    assert stand.scheduler.store.lookup_job("bad") is None


async def test_many_due_jobs_are_spread_over_bounded_passes(stand: Stand) -> None:
    count = 3 * DUE_JOBS_PER_PASS
    for number in range(count):
        stand.arm(str(number), MINUTELY, NOON + timedelta(minutes=1))
    before = stand.passes
    await stand.move_to(NOON + timedelta(minutes=1))
    assert len(stand.handed_out) == count
    assert stand.passes - before >= 3


async def test_replacing_a_due_job_keeps_its_fire(stand: Stand) -> None:
    assert not stand.arm("a", MINUTELY, NOON + timedelta(minutes=1))
    stand.now = NOON + timedelta(minutes=1)
    assert stand.arm("a", MINUTELY, NOON + timedelta(minutes=1))
    await stand.move_to(stand.now)
    assert stand.handed_out == [("a", NOON + timedelta(minutes=1))]


async def test_a_disarmed_job_is_silent(stand: Stand) -> None:
    stand.arm("a", MINUTELY, NOON + timedelta(minutes=1))
    assert stand.scheduler.disarm("a")
    assert not stand.scheduler.disarm("a")
    await stand.move_to(NOON + timedelta(minutes=5))
    assert stand.handed_out == []


async def test_arming_many_triggers_is_one_pass(stand: Stand) -> None:
    await stand.move_to(NOON)
    before = stand.passes
    for number in range(1000):
        stand.arm(str(number), MINUTELY, NOON + timedelta(minutes=1))
    await stand.move_to(NOON)
    assert stand.passes - before <= 2


async def test_a_rate_of_ninety_days_sleeps_through_early_wakes(stand: Stand) -> None:
    rate = schedule_of(RateRule(90, "day", NOON), activated_at=NOON)
    stand.arm("a", rate, NOON + timedelta(days=90))
    await stand.move_to(NOON + timedelta(days=50))
    assert stand.handed_out == []
    await stand.move_to(NOON + timedelta(days=90))
    assert stand.handed_out == [("a", NOON + timedelta(days=90))]
