"""The executor that tells a job which fire times are due, and refuses none."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apscheduler.executors.base import BaseExecutor
from apscheduler.job import Job


class FireExecutor(BaseExecutor):
    """Calls ``job.func(*job.args, fire_times)`` at once, on the event loop.

    APScheduler's executors run a job without its fire time, count instances and drop what is late or overlaps. This one
    does none of that: the function only queues the fire times and must not block; running them is the queue's part.
    """

    def submit_job(self, job: Job, run_times: Sequence[datetime]) -> None:
        """Hand `run_times` (ascending, UTC) to the job's function. Nothing is counted, so nothing can be refused."""
        job.func(*job.args, run_times)

    def _do_submit_job(self, job: Job, run_times: Sequence[datetime]) -> Any:
        """Satisfy the abstract base; `submit_job` is overridden as a whole."""
        raise NotImplementedError
