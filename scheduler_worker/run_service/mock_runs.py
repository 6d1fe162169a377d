"""The runs that a mock Run Service knows.

Decides what is a good request, what is a repeat, and counts what the promise of exactly one run is measured by. Must
never answer a call: it names the outcome, and the server sends it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal

from scheduler_worker.run_service._pb.flyteidl2 import common_pb2, workflow_pb2
from scheduler_worker.run_service.mock_journal import ALREADY_EXISTS, CREATED, Journal, JournalEntry, RunKey

Duplicates = Literal["reject", "ok"]

_LONGEST_RUN_NAME = 30
_DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunBook:
    """Which runs exist and how they came to be.

    Attributes:
        requests: every CreateRun request in order of arrival; empty when `keep_requests` is off.
        starts: how often each run was started; more than once is what must not happen.
        outcomes: how often each outcome was given, by its name in the journal.
        created: runs started since the process began, repeated starts of one name included.
    """

    def __init__(self, *, duplicates: Duplicates = "reject", keep_requests: bool = True) -> None:
        self.requests: list[workflow_pb2.CreateRunRequest] = []
        self.starts: Counter[RunKey] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.created = 0
        self._duplicates = duplicates
        self._keep_requests = keep_requests

    @property
    def doubled(self) -> list[RunKey]:
        """The runs that were started more than once."""
        return [key for key, count in self.starts.items() if count > 1]

    def remember(self, runs: Iterable[RunKey]) -> None:
        """Take over the runs that an earlier process created."""
        self.starts.update(runs)

    def knows(self, run: common_pb2.RunIdentifier) -> bool:
        """Say whether the run exists."""
        return RunKey(run.project, run.domain, run.name) in self.starts

    def receive(self, request: workflow_pb2.CreateRunRequest) -> None:
        """Note a request that has arrived, whatever becomes of it."""
        if self._keep_requests:
            self.requests.append(request)

    def start_run(self, request: workflow_pb2.CreateRunRequest) -> str:
        """Start the run of a good `request`, or refuse a repeat; return ``created`` or ``already_exists``."""
        run = request.run_id
        key = RunKey(run.project, run.domain, run.name)
        if self._duplicates == "reject" and key in self.starts:
            return ALREADY_EXISTS
        self.starts[key] += 1
        self.created += 1
        return CREATED

    def settle(
        self, request: workflow_pb2.CreateRunRequest, received_at: datetime, outcome: str, journal: Journal | None
    ) -> None:
        """Count the outcome and write it down."""
        self.outcomes[outcome] += 1
        if journal is not None:
            journal.append(_entry(request, received_at, outcome))


def fault_of(request: workflow_pb2.CreateRunRequest) -> str:
    """Return why a service refuses `request` as an INVALID_ARGUMENT, or "" if it is good."""
    run, trigger = request.run_id, request.trigger_name
    required = {
        "run_id.project": run.project,
        "run_id.domain": run.domain,
        "run_id.name": run.name,
        "trigger_name.project": trigger.project,
        "trigger_name.domain": trigger.domain,
        "trigger_name.task_name": trigger.task_name,
        "trigger_name.name": trigger.name,
    }
    for field, value in required.items():
        if not value:
            return f"{field} is missing"
    if len(run.name) > _LONGEST_RUN_NAME or not _DNS_1035_LABEL.fullmatch(run.name):
        return f"run_id.name {run.name!r} is no DNS-1035 label of at most {_LONGEST_RUN_NAME} characters"
    if request.HasField("run_start_time") and _start_time(request) is None:
        return "run_start_time is outside the years 1 to 9999"
    return ""


def _entry(request: workflow_pb2.CreateRunRequest, received_at: datetime, outcome: str) -> JournalEntry:
    run, trigger = request.run_id, request.trigger_name
    return JournalEntry(
        received_at=received_at,
        run_name=run.name,
        project=run.project,
        domain=run.domain,
        task_name=trigger.task_name,
        trigger=trigger.name,
        run_start_time=_start_time(request),
        outcome=outcome,
    )


def _start_time(request: workflow_pb2.CreateRunRequest) -> datetime | None:
    """Return the start time, or None if there is none that a datetime can hold."""
    if not request.HasField("run_start_time"):
        return None
    stamp = request.run_start_time
    try:
        return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError:
        return None
