"""What the worker counts, under names that begin with `scheduler_`.

Decides the names, the labels and the buckets, and makes every labelled series at the start, so that an alert sees a
zero and not a gap. Must never hold a label of unbounded size: no trigger, project or run is one.
"""

import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from scheduler_worker.domain.outcomes import Outcome, UnfiredReason

# A third of all series, and of no use: the process's start is known. The library has no narrower switch.
disable_created_metrics()  # type: ignore[no-untyped-call]  # published without types for this one

LATENESS_BUCKETS_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0),
)
"""From a live fire's milliseconds to a day of outage that catch-up makes good."""

CALL_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Up to the default deadline of a call."""

SYNC_BUCKETS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""From a sync that finds nothing new to a first load over a slow link."""

QUEUE_KINDS = ("live", "late", "retry")

SYNC_OUTCOMES = ("ok", "database_away", "error")

_RUN_OUTCOMES = (Outcome.CREATED, Outcome.ALREADY_EXISTS, Outcome.FOUND)
_CALL_ERROR_CODES = (
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)


class Metrics:
    """The worker's metrics, in a registry of their own. Call their methods on the event loop.

    Attributes:
        registry: what `/metrics` shows.
        armed_triggers, bad_triggers, owing_triggers: triggers with a job, with a fault, with owed past times that are
            not handed out yet.
        fires_dropped: fires taken from the queue that were no longer owed.
        jobs_rearmed: jobs that were lost and armed again by the self-check.
        progress_pending: triggers whose progress is not written yet.
        progress_write_failures: writes of progress that failed; they are repeated.
        pass_failures: triggers whose job failed in a pass of the scheduler.
        database_clock_skew: the database's clock minus ours, in seconds.
        run_service_reachable: 1, or 0 while the queue waits on one probe.
        is_owner: 1 while this worker holds the lease.
    """

    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._synced_at = clock()
        self._make_process_metrics()
        self._make_trigger_metrics()
        self._make_fire_metrics()
        self._make_sync_metrics()

    # -- what happened ---------------------------------------------------------------------------------------------

    def fire_settled(self, outcome: Outcome, lateness_seconds: float) -> None:
        """Count a fire whose run exists, `lateness_seconds` after its fire time."""
        self._fires[outcome].inc()
        self._lateness.observe(max(0.0, lateness_seconds))

    def fire_unfired(self, reason: UnfiredReason) -> None:
        """Count a fire time that will not become a run."""
        self._unfired[reason].inc()

    def call_ended(self, seconds: float) -> None:
        """Note how long a CreateRun call took, however it ended."""
        self._call_seconds.observe(seconds)

    def call_failed(self, code: str) -> None:
        """Count a call that ended with gRPC status `code` (its name); any other name counts as ``UNKNOWN``."""
        self._call_errors.get(code, self._call_errors["UNKNOWN"]).inc()

    def sync_ended(self, outcome: str, seconds: float) -> None:
        """Count a sync of one of `SYNC_OUTCOMES`, and how long it took."""
        self._syncs[outcome].inc()
        self._sync_seconds.observe(seconds)

    def sync_succeeded_at(self, instant: datetime) -> None:
        """Note when the last full sync ended well."""
        self._synced_at = instant

    def loop_stalled(self, seconds: float) -> None:
        """Note for how long the event loop could not take its turn."""
        self._loop_stall.observe(max(0.0, seconds))

    def watch_queue(self, *, live: Callable[[], float], late: Callable[[], float], retry: Callable[[], float]) -> None:
        """Read the numbers of waiting fires from here on, at each look at the metrics; the last call counts."""
        for kind, read in zip(QUEUE_KINDS, (live, late, retry), strict=True):
            self._queue_depth[kind].set_function(read)

    def watch_calls_in_flight(self, read: Callable[[], float]) -> None:
        """Read the number of calls in flight from here on, at each look at the metrics; the last call counts."""
        self._calls_in_flight.set_function(read)

    # -- what there is ---------------------------------------------------------------------------------------------

    def _make_process_metrics(self) -> None:
        ProcessCollector(namespace="scheduler", registry=self.registry)
        build = Info("scheduler_build", "The worker's release and its Python.", registry=self.registry)
        build.info({"version": version("scheduler-worker"), "python": platform.python_version()})
        self.is_owner = self._gauge("is_owner", "1 while this worker holds the lease and fires, else 0.")
        self._loop_stall = self._histogram(
            "event_loop_stall_seconds", "How late the event loop took a turn it had planned.", CALL_BUCKETS_SECONDS
        )

    def _make_trigger_metrics(self) -> None:
        self.armed_triggers = self._gauge("armed_triggers", "Triggers that have a job and will fire.")
        self.bad_triggers = self._gauge("bad_triggers", "Active triggers that can't fire: their row is faulty.")
        self.owing_triggers = self._gauge("owing_triggers", "Triggers with owed past times not handed out yet.")
        self.jobs_rearmed = self._counter("jobs_rearmed", "Jobs that were lost and armed again by the self-check.")
        self.pass_failures = self._counter("pass_failures", "Jobs that failed in a pass of the scheduler.")

    def _make_fire_metrics(self) -> None:
        fires = self._counter("fires", "Fire times whose run exists, by how it came about.", "outcome")
        self._fires = {outcome: fires.labels(outcome.value) for outcome in _RUN_OUTCOMES}
        unfired = self._counter("unfired", "Fire times recorded as not becoming a run, by reason.", "reason")
        self._unfired = {reason: unfired.labels(reason.value) for reason in UnfiredReason}
        self._lateness = self._histogram(
            "fire_lateness_seconds", "Run acknowledged minus fire time.", LATENESS_BUCKETS_SECONDS
        )
        self.fires_dropped = self._counter("fires_dropped", "Queued fires no longer owed when their turn came.")
        depth = self._gauge(
            "queue_depth", "Fires that wait: due now, owed from the past, or to be tried again.", "kind"
        )
        self._queue_depth = {kind: depth.labels(kind) for kind in QUEUE_KINDS}
        self._calls_in_flight = self._gauge("calls_in_flight", "Fires between the queue and the answer of their call.")
        self._call_seconds = self._histogram(
            "create_run_seconds", "Duration of CreateRun calls, however they ended.", CALL_BUCKETS_SECONDS
        )
        errors = self._counter("call_errors", "Calls of the Run Service that failed, by gRPC status code.", "code")
        self._call_errors = {code: errors.labels(code) for code in _CALL_ERROR_CODES}
        self.run_service_reachable = self._gauge(
            "run_service_reachable", "1, or 0 while the queue waits on one probe at a time."
        )

    def _make_sync_metrics(self) -> None:
        syncs = self._counter("syncs", "Syncs with the database, by outcome.", "outcome")
        self._syncs = {outcome: syncs.labels(outcome) for outcome in SYNC_OUTCOMES}
        self._sync_seconds = self._histogram("sync_seconds", "Duration of syncs.", SYNC_BUCKETS_SECONDS)
        self._gauge(
            "sync_age_seconds", "Time since the last full sync that succeeded; before the first, since the start."
        ).set_function(self._sync_age_seconds)
        self.database_clock_skew = self._gauge(
            "database_clock_skew_seconds", "The database's clock minus the worker's, measured at each sync."
        )
        self.progress_pending = self._gauge("progress_pending", "Triggers whose progress is not written yet.")
        self.progress_write_failures = self._counter(
            "progress_write_failures", "Writes of progress that failed; what they held is written later."
        )

    def _sync_age_seconds(self) -> float:
        return (self._clock() - self._synced_at).total_seconds()

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"scheduler_{name}", meaning, labels, registry=self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"scheduler_{name}", meaning, labels, registry=self.registry)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"scheduler_{name}", meaning, registry=self.registry, buckets=buckets)
