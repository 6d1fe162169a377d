"""The due-list: APScheduler jobs in a heap, handed out a bounded number at a time."""

from datetime import datetime
from heapq import heapify, heappop, heappush

from apscheduler.job import Job
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError

from scheduler_worker.parted_dict import PartedDict, by_hash

DUE_JOBS_PER_PASS = 200
"""Most jobs of one scheduler pass: a few milliseconds of work, then the event loop breathes, then the next pass."""

_STALE_ENTRIES_ALLOWED = 1_000
"""Stale heap entries below this number are not worth a rebuild."""

_Entry = tuple[float, int, str]
"""Due at, sequence, job id: nothing that the cycle collector has to look at."""


class DueStore(BaseJobStore):
    """An in-memory job store for hundreds of thousands of jobs.

    The heap holds one entry for each change of a job; one that a later change has replaced is recognised when it
    surfaces, so that adding, updating and removing cost O(log n).

    A job that was handed out as due is out of the heap until `update_job` puts its next run time in: whoever takes due
    jobs must update or remove every one of them.
    """

    def __init__(self, *, due_jobs_per_pass: int = DUE_JOBS_PER_PASS) -> None:
        super().__init__()
        self._due_jobs_per_pass = due_jobs_per_pass
        self._jobs: PartedDict[str, Job] = PartedDict(by_hash)
        self._entries: PartedDict[str, _Entry] = PartedDict(by_hash)
        self._heap: list[_Entry] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def lookup_job(self, job_id: str) -> Job | None:
        """Return the job of that id, or None."""
        return self._jobs.get(job_id)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        """Return the earliest due jobs, at most `due_jobs_per_pass`; what is left is due in the next pass."""
        latest, heap, entries = now.timestamp(), self._heap, self._entries
        due: list[Job] = []
        while heap and heap[0][0] <= latest and len(due) < self._due_jobs_per_pass:
            entry = heappop(heap)
            if entries.get(entry[2]) is entry:
                due.append(self._jobs[entry[2]])
        return due

    def get_next_run_time(self) -> datetime | None:
        """Return the earliest next run time of all jobs that are not handed out, or None."""
        heap, entries = self._heap, self._entries
        while heap and entries.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        return self._jobs[heap[0][2]].next_run_time if heap else None

    def get_all_jobs(self) -> list[Job]:
        """Return all jobs, earliest next run time first, those without one last."""
        return [self._jobs[job_id] for _, _, job_id in sorted(self._entries.values())]

    def put(self, job: Job) -> bool:
        """Add a job, or put it in place of the one of its id, and say whether there was one."""
        was_there = job.id in self._jobs
        due_at = float("inf") if job.next_run_time is None else job.next_run_time.timestamp()
        self._sequence += 1
        entry = (due_at, self._sequence, job.id)
        self._jobs[job.id] = job
        self._entries[job.id] = entry
        if job.next_run_time is not None:
            heappush(self._heap, entry)
        if was_there:
            self._drop_stale_entries()
        return was_there

    def add_job(self, job: Job) -> None:
        """Add a job; raises ConflictingIdError when its id is taken."""
        if job.id in self._jobs:
            raise ConflictingIdError(job.id)
        self.put(job)

    def update_job(self, job: Job) -> None:
        """Put a job's new state in; raises JobLookupError when there is none of its id."""
        if job.id not in self._jobs:
            raise JobLookupError(job.id)
        self.put(job)

    def remove_job(self, job_id: str) -> None:
        """Remove a job; raises JobLookupError when there is none of that id."""
        if not self._jobs.discard(job_id):
            raise JobLookupError(job_id)
        self._entries.discard(job_id)
        self._drop_stale_entries()

    def remove_all_jobs(self) -> None:
        """Remove all jobs."""
        self._jobs.clear()
        self._entries.clear()
        self._heap.clear()

    def shutdown(self) -> None:
        """Forget all jobs: the state of record is the database."""
        self.remove_all_jobs()

    def _drop_stale_entries(self) -> None:
        """Rebuild the heap when most of it is stale, so that edits can't make it grow without bound."""
        if len(self._heap) > 2 * len(self._jobs) + _STALE_ENTRIES_ALLOWED:
            self._heap = [entry for entry in self._heap if self._entries.get(entry[2]) is entry]
            heapify(self._heap)
