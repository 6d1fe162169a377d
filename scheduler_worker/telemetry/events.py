"""The fixed names of everything the worker logs, and what each one means.

Alerts and searches are built on these names: one that went out with a release keeps its meaning. A log call uses the
name as it stands here, and a test compares the two.
"""

from collections.abc import Mapping
from typing import Final

EVENTS: Final[Mapping[str, str]] = {
    # the worker
    "worker_started": "the settings are read, everything is open, and the worker waits for the lease",
    "worker_stopping": "told to stop: no new fires, calls in flight may end",
    "worker_stopped": "everything is closed",
    "worker_failed": "a part of the worker ended with an error, and the worker with it",
    "lease_waiting": "another worker is the owner; this one stands by",
    "lease_acquired": "this worker is the owner now",
    "lease_lost": "the lease is gone: no call is started until it is clear who holds it",
    "lease_regained": "the lease is held again, with nobody else in between: firing goes on",
    # syncs
    "triggers_loaded": "the first sync has read every trigger: all that can fire are armed",
    "sync_done": "a sync ended well",
    "sync_failed": "a sync failed; the next one makes up for it, and armed triggers go on firing",
    "sync_works_again": "the first sync that ended well after failed ones",
    "check_skipped": "triggers could not be checked just before their calls; they fire on what was last known",
    "clock_skew": "the database's clock and ours differ: activations and fires follow different clocks",
    "clock_jump": "the clock jumped or the process slept; what was missed goes through catch-up",
    # triggers
    "trigger_armed": "a trigger got its job",
    "trigger_replaced": "a trigger's job was replaced by that of a newer revision",
    "trigger_removed": "a trigger lost its job: paused, deleted or gone from the table",
    "trigger_bad": "an active trigger can't fire; the fault is named once per revision",
    "trigger_armed_again": "a job was lost and the self-check armed it again",
    "pass_failed": "a job failed in a pass of the scheduler; the others went on",
    # fires
    "run_created": "a fire is settled: its run exists",
    "fire_retrying": "a call failed and will be made again",
    "fire_given_up": "a fire will not be tried again; it is recorded with its reason",
    "fire_skipped": "a fire time was left out by policy, pause or delete; it is recorded with its reason",
    "fire_dropped": "a queued fire was no longer owed when its turn came; what is owed instead is on its way",
    "calls_cut_off": "the grace ended before these calls did; their fires stay owed",
    # the Run Service
    "run_service_unreachable": "no answer several times in a row: the queue waits on one probe at a time",
    "run_service_back": "the Run Service answers again",
    # the database
    "database_away": "Postgres is away, and the lease with it: nobody can be the owner, and firing goes on from memory",
    "database_back": "Postgres is there again",
    "notifications_lost": "changes are not announced any more; they are found at the next sync",
    "progress_write_failed": "progress could not be written; it is kept and written later",
    "progress_written_again": "the first write of progress that worked after failed ones",
    "unfired_pruned": "unfired fires past their retention were deleted",
}
