"""How a mock Run Service misbehaves.

Decides for each call, from the settings, the time since the start and a seeded generator, how long it takes and what
goes wrong. Must never answer a call or wait itself: the server does what the verdict says.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple, Self, get_args

import grpc

LostAnswer = Literal["unavailable", "silence"]
RunDetails = Literal["answer", "unimplemented"]

# OK and ALREADY_EXISTS say that the run exists, which a failing call must not.
ERROR_CODES = frozenset(code.name for code in grpc.StatusCode) - {"OK", "ALREADY_EXISTS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong, until other faults are set.

    Attributes:
        latency_ms: every call takes at least this long.
        jitter_ms: and up to this much longer, evenly spread.
        error_code: name of the gRPC status code that failing calls get.
        error_rate: share of CreateRun calls (0 to 1) that fail with it, without creating a run.
        lost_answer_rate: share of CreateRun calls that create the run and then do not say so.
        lost_answer: what a lost answer looks like: ``unavailable``, or ``silence`` until the caller gives up.
        outage: every call is answered UNAVAILABLE at once.
        run_details: whether GetRunDetails answers, or is ``unimplemented``.

    Raises:
        ValueError: a value is out of range; the message names it.
    """

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    error_code: str = "UNAVAILABLE"
    error_rate: float = 0.0
    lost_answer_rate: float = 0.0
    lost_answer: LostAnswer = "unavailable"
    outage: bool = False
    run_details: RunDetails = "answer"

    def __post_init__(self) -> None:
        for name in ("latency_ms", "jitter_ms", "error_rate", "lost_answer_rate"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value!r}; it must be a number of at least 0")
        for name in ("error_rate", "lost_answer_rate"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} is {getattr(self, name)!r}; a share of calls is at most 1")
        _require_one_of("error_code", self.error_code, sorted(ERROR_CODES))
        _require_one_of("lost_answer", self.lost_answer, get_args(LostAnswer))
        _require_one_of("run_details", self.run_details, get_args(RunDetails))
        if not isinstance(self.outage, bool):
            raise ValueError(f"outage is {self.outage!r}; it must be true or false")  # noqa: TRY004 - JSON's reader catches one kind

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Return the faults of a JSON object; keys that are not there keep their harmless defaults.

        Raises:
            ValueError: no object, an unknown key, or a value out of range.
        """
        if not isinstance(body, Mapping):
            raise ValueError("the body must be a JSON object of faults")  # noqa: TRY004 - as above
        known = [field.name for field in fields(cls)]
        for key in body:
            _require_one_of("a fault", key, known)
        return cls(**body)

    def as_json(self) -> dict[str, Any]:
        """Return all faults by name."""
        return asdict(self)


class Outage(NamedTuple):
    """A window in which every call is answered UNAVAILABLE, in seconds after the server's start."""

    start_seconds: float
    length_seconds: float

    def covers(self, elapsed_seconds: float) -> bool:
        """Say whether the window is open."""
        return self.start_seconds <= elapsed_seconds < self.start_seconds + self.length_seconds


class Verdict(NamedTuple):
    """What happens to one call.

    Attributes:
        delay_seconds: how long to wait before doing anything.
        refusal: answer this and create nothing.
        lost_answer: create the run, then hide it this way.
    """

    delay_seconds: float
    refusal: grpc.StatusCode | None
    lost_answer: LostAnswer | None


_NO_FAULT = Verdict(0.0, None, None)
_DOWN = Verdict(0.0, grpc.StatusCode.UNAVAILABLE, None)


class FaultInjector:
    """Judges calls one by one; equal seeds and faults give equal verdicts in equal order.

    Attributes:
        faults: may be replaced at any time; the next verdict follows the new ones.
    """

    def __init__(self, faults: Faults, outages: tuple[Outage, ...] = (), seed: int | None = None) -> None:
        self.faults = faults
        self._outages = outages
        self._random = random.Random(seed)  # noqa: S311 - faults must be repeatable, not secret

    def judge_create_run(self, elapsed_seconds: float) -> Verdict:
        """Decide on one CreateRun call, `elapsed_seconds` after the start."""
        faults = self.faults
        if self._is_down(elapsed_seconds):
            return _DOWN
        delay_seconds = self._delay_seconds()
        if self._hits(faults.error_rate):
            return Verdict(delay_seconds, grpc.StatusCode[faults.error_code], None)
        if self._hits(faults.lost_answer_rate):
            return Verdict(delay_seconds, None, faults.lost_answer)
        return Verdict(delay_seconds, None, None) if delay_seconds else _NO_FAULT

    def judge_run_details(self, elapsed_seconds: float) -> Verdict:
        """Decide on one GetRunDetails call, `elapsed_seconds` after the start."""
        if self._is_down(elapsed_seconds):
            return _DOWN
        refusal = grpc.StatusCode.UNIMPLEMENTED if self.faults.run_details == "unimplemented" else None
        return Verdict(self._delay_seconds(), refusal, None)

    def _is_down(self, elapsed_seconds: float) -> bool:
        return self.faults.outage or any(outage.covers(elapsed_seconds) for outage in self._outages)

    def _delay_seconds(self) -> float:
        faults = self.faults
        jitter_ms = self._random.uniform(0.0, faults.jitter_ms) if faults.jitter_ms else 0.0
        return (faults.latency_ms + jitter_ms) / 1000

    def _hits(self, rate: float) -> bool:
        return rate > 0 and self._random.random() < rate


def _require_one_of(name: str, value: Any, allowed: tuple[str, ...] | list[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; use one of {', '.join(allowed)}")
