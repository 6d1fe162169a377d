"""What an answer of the Run Service means for a fire, and how long to wait before trying again."""

from datetime import timedelta
from enum import Enum, StrEnum

BACKOFF_FLOOR = timedelta(seconds=0.5)
BACKOFF_CEILING = timedelta(seconds=60)
_DOUBLINGS_TO_CEILING = 7  # 0.5 s * 2**7 is past the ceiling


class Outcome(StrEnum):
    """How a fire was settled."""

    CREATED = "created"
    ALREADY_EXISTS = "already_exists"
    FOUND = "found"  # the service already had the run when it was asked before a re-send
    GIVEN_UP = "given_up"
    SKIPPED = "skipped"


class UnfiredReason(StrEnum):
    """Why an owed fire time did not become a run."""

    PERMANENT_ERROR = "permanent_error"
    GAVE_UP = "gave_up"
    PAUSED = "paused"
    DELETED = "deleted"
    POLICY_LATEST = "catchup_policy_latest"
    POLICY_NONE = "catchup_policy_none"
    WINDOW = "catchup_window"


class Failure(Enum):
    """How to go on after a call that failed."""

    PERMANENT = "the request itself is refused: trying again can't help"
    PASSING = "tried again until it succeeds"
    DOUBTFUL = "tried again, and given up after a time: it may be passing (a fault behind the service) or not"


_PERMANENT_CODES = frozenset({"INVALID_ARGUMENT", "UNIMPLEMENTED", "OUT_OF_RANGE"})
_PASSING_CODES = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED"})
_NEVER_REACHED_THE_TASK = frozenset(
    {"UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "NOT_FOUND"}
)

UNREACHABLE_CODES = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"})
"""No answer of the service itself: one of these alone says little, several in a row say that it is away."""


def failure_of(code: str) -> Failure:
    """Say how to go on after gRPC status `code` (its name). An unknown code is taken as doubtful."""
    if code in _PERMANENT_CODES:
        return Failure.PERMANENT
    if code in _PASSING_CODES:
        return Failure.PASSING
    return Failure.DOUBTFUL


def may_have_created_a_run(code: str) -> bool:
    """Say whether a call that ended with `code` may have reached the service and made the run all the same."""
    return code not in _NEVER_REACHED_THE_TASK


def backoff(attempts: int, *, jitter: float) -> timedelta:
    """Return the wait before the next try after `attempts` failed ones; `jitter` is drawn from [0, 1).

    Doubles from the floor to the ceiling; the jitter spreads the upper half, so that fires that failed together don't
    come back together.
    """
    doublings: int = 2 ** min(attempts, _DOUBLINGS_TO_CEILING)
    full = min(BACKOFF_CEILING, BACKOFF_FLOOR * doublings)
    return max(BACKOFF_FLOOR, full * (0.5 + jitter / 2))
