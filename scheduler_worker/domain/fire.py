"""A fire on its way: one fire time of one armed trigger."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.life import Span
from scheduler_worker.domain.trigger import Trigger


@dataclass(slots=True, eq=False)
class ArmedTrigger:
    """A trigger and its account. One object for as long as the trigger owes anything, over edits, pauses and resumes.

    Attributes:
        trigger: its newest revision that is known here.
        ledger: what it owes.
    """

    trigger: Trigger
    ledger: Ledger


class FireKind(StrEnum):
    """Where a fire comes from, which decides its place in the queue and its bookkeeping."""

    LIVE = "live"  # due now
    LATE = "late"  # owed from the past, by catch-up
    UNFIRED = "unfired"  # settled without a run before, and asked for again by a person


@dataclass(slots=True, eq=False)
class Fire:
    """One CreateRun to make.

    Attributes:
        spans: the life of the trigger as it was when the fire was handed out; while it is the same object, the fire is
            still owed.
        ask_first: an earlier try may have reached the service, so ask for the run before sending it (again).
        attempts: failed tries so far.
        first_tried_at: the event loop's time of the first try, in seconds; None before it.
        is_done: it has its run, or was recorded as unfired.
    """

    armed: ArmedTrigger
    time: datetime
    kind: FireKind
    spans: tuple[Span, ...]
    ask_first: bool = False
    attempts: int = 0
    first_tried_at: float | None = None
    is_done: bool = False
