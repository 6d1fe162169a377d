"""APScheduler's loop, made safe: bounded passes, a timer always armed, a raising trigger that harms only itself."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.job import Job
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.base import STATE_RUNNING
from apscheduler.triggers.base import BaseTrigger

from scheduler_worker.scheduling.executor import FireExecutor
from scheduler_worker.scheduling.job_store import DueStore
from scheduler_worker.scheduling.jobs import EXECUTOR, STORE, fire_job

MAX_SLEEP_SECONDS = 1.0
"""Longest sleep between passes. The timer runs on the monotonic clock: a step of the wall clock, or a process that was
suspended, is noticed at the next pass."""


class RunScheduler(AsyncIOScheduler):
    """An asyncio scheduler over one `DueStore` and one `FireExecutor`. Use it on the loop's own thread only.

    Attributes:
        store: the jobs.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime],
        on_pass: Callable[[datetime], None],
        on_job_failed: Callable[[Job, Exception], None],
    ) -> None:
        """Build a stopped scheduler.

        Args:
            clock: reads the wall clock, aware and in UTC; read once per pass.
            on_pass: called at the start of every pass with the pass's time.
            on_job_failed: called when a job's trigger or function raised. The job has left the store by then, so that
                it can't block the others; whoever armed it has to find out and arm it again.
        """
        self.store = DueStore()
        self._executor = FireExecutor()
        self._clock = clock
        self._on_pass = on_pass
        self._on_job_failed = on_job_failed
        self._tick_is_pending = False
        super().__init__(
            timezone=UTC,
            jobstores={STORE: self.store},
            executors={EXECUTOR: self._executor},
        )

    def arm(
        self, job_id: str, trigger: BaseTrigger, function: Callable[..., None], argument: object, next_fire: datetime
    ) -> bool:
        """Add a job, or replace the one of that id, and say whether there was one.

        The first fire is exactly `next_fire`, also when it is past.
        """
        job = fire_job(self, job_id, trigger, function, argument, next_fire)
        was_armed = self.store.put(job)
        self.wakeup()
        return was_armed

    def disarm(self, job_id: str) -> bool:
        """Remove a job if there is one, and say whether there was."""
        if self.store.lookup_job(job_id) is None:
            return False
        self.store.remove_job(job_id)
        self.wakeup()
        return True

    def wakeup(self) -> None:
        """Ask for a pass in the next turn of the loop; many requests make one pass."""
        if not self._tick_is_pending and self._eventloop is not None:
            self._tick_is_pending = True
            self._eventloop.call_soon(self._tick)

    def _tick(self) -> None:
        self._tick_is_pending = False
        self._stop_timer()
        if self.state != STATE_RUNNING:
            return
        wait = MAX_SLEEP_SECONDS
        try:
            wait = self._process_jobs()
        except Exception:  # a pass that fails must not be the last one
            self._logger.exception("scheduler pass failed")
        finally:
            self._start_timer(wait)

    def _process_jobs(self) -> float:
        """Hand out what is due, and return the seconds until the next pass, at most `MAX_SLEEP_SECONDS`."""
        now = self._clock()
        self._on_pass(now)
        for job in self.store.get_due_jobs(now):
            try:
                self._process_job(job, now)
            except Exception as error:  # noqa: BLE001 - whatever a job raises, it harms only itself
                self.store.remove_job(job.id)
                self._on_job_failed(job, error)
        next_run_time = self.store.get_next_run_time()
        if next_run_time is None:
            return MAX_SLEEP_SECONDS
        return min(MAX_SLEEP_SECONDS, max(0.0, (next_run_time - self._clock()).total_seconds()))

    def _process_job(self, job: Job, now: datetime) -> None:
        fire_times = [job.next_run_time]
        next_fire = job.trigger.get_next_fire_time(job.next_run_time, now)
        while next_fire is not None and next_fire <= now:
            fire_times.append(next_fire)
            next_fire = job.trigger.get_next_fire_time(next_fire, now)
        self._executor.submit_job(job, fire_times)
        if next_fire is None:
            self.store.remove_job(job.id)
        else:
            job.next_run_time = next_fire
            self.store.update_job(job)

    async def close(self) -> None:
        """Stop passes and forget the jobs. Closing twice, or before the start, is fine."""
        if self.running:
            self.shutdown(wait=False)
            await asyncio.sleep(0)  # APScheduler does the real work in a callback of the next turn
