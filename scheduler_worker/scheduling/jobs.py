"""The job of one armed trigger."""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from apscheduler.job import Job
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.base import BaseTrigger

STORE: Final = "default"
EXECUTOR: Final = "default"
"""APScheduler's names for the only ones there are."""

_NO_KEYWORDS: Final[Mapping[str, object]] = MappingProxyType({})


def fire_job(
    scheduler: BaseScheduler,
    job_id: str,
    trigger: BaseTrigger,
    function: Callable[..., None],
    argument: object,
    next_run_time: datetime,
) -> Job:
    """Return a job as APScheduler makes it, without the checks of what a user hands in.

    APScheduler inspects the function's signature for each job, which costs more than everything else about arming a
    trigger: seconds, for a fleet. Here all jobs have the same function, and it takes one argument and the fire times.
    """
    job = Job.__new__(Job)
    job._scheduler = scheduler  # noqa: SLF001 - filled in by the constructor that is left out
    job._jobstore_alias = STORE  # noqa: SLF001 - as above
    job.id = job.name = job_id
    job.trigger = trigger
    job.executor = EXECUTOR
    job.func, job.args, job.kwargs = function, (argument,), _NO_KEYWORDS
    job.func_ref = None  # a job is never written down to be read back
    # Nothing of this is APScheduler's to decide: every fire time counts, however late, merged or overlapping.
    job.coalesce = False
    job.misfire_grace_time = None
    job.max_instances = 1_000_000
    job.next_run_time = next_run_time
    return job
