"""What is broken, changed and asked for, and when: a pure function of the seed.

Four lanes run side by side: one worker at a time is hit, the database, the Run Service, and people write triggers.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

LANES = ("worker", "database", "service", "people")

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Kathmandu")
CODES = (
    "INVALID_ARGUMENT",
    "UNIMPLEMENTED",
    "OUT_OF_RANGE",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "NOT_FOUND",
    "FAILED_PRECONDITION",
    "UNKNOWN",
    "INTERNAL",
    "UNAVAILABLE",
    "RESOURCE_EXHAUSTED",
    "ABORTED",
    "CANCELLED",
    "DATA_LOSS",
)

BAD_SHARE = 0.05
"""Part of the edits that write something no schedule can be made of."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of the plan: a cron expression with its zone, or a rate in minutes from a start time.

    Attributes:
        rate_from_seconds: a rate's start time, relative to the start of the plan.
    """

    cron: str = ""
    zone: str = ""
    rate_minutes: int = 0
    rate_from_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens `at` seconds after the start and, if it is a fault, lasts `lasts` seconds."""

    at: float
    lane: str
    kind: str
    lasts: float = 0.0
    trigger: int = -1
    schedule: Schedule | None = None
    faults: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.at:8.2f} s  {self.lane:8} {self.kind}"]
        if self.lasts:
            parts.append(f"for {self.lasts:.1f} s")
        if self.trigger >= 0:
            parts.append(f"trigger {self.trigger}")
        if self.schedule is not None:
            parts.append(str(self.schedule))
        parts.extend(f"{name}={value}" for name, value in self.faults)
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Plan:
    """The schedules that are deployed at first, and all steps in order of time."""

    seed: int
    first: tuple[Schedule, ...]
    steps: tuple[Step, ...]


def make_plan(seed: int, *, seconds: float, triggers: int, pace: float = 1.0, doubles_count: bool = False) -> Plan:
    """Return the plan of `seed`; `pace` 2 has twice as many faults per minute.

    With `doubles_count` (a service that starts a repeated name again) faults are left out that no caller of such a
    service could make harmless: a request held back in the network while a new one overtakes it, and a service that
    does not offer to look a run up.
    """
    chance = random.Random(seed)
    first = tuple(_schedule(chance) for _ in range(triggers))
    lanes: list[tuple[str, float, Callable[[random.Random], Step]]] = [
        ("worker", 8.0, _worker_fault),
        ("database", 12.0, _database_fault),
        ("service", 6.0, _service_fault if not doubles_count else _service_fault_without_doubles),
    ]
    steps: list[Step] = []
    for lane, pause, draw in lanes:
        steps.extend(_lane(random.Random(f"{seed} {lane}"), seconds, pause / pace, draw))
    steps.extend(_people(random.Random(f"{seed} people"), seconds, triggers))
    return Plan(seed, first, tuple(sorted(steps, key=lambda step: step.at)))


def _lane(chance: random.Random, seconds: float, pause: float, draw: Callable[[random.Random], Step]) -> Iterator[Step]:
    at = chance.uniform(0.2, 0.6) * pause
    while at < seconds:
        step = draw(chance)
        yield Step(round(at, 2), step.lane, step.kind, round(step.lasts, 2), faults=step.faults)
        at += step.lasts + chance.uniform(0.3, 1.7) * pause


def _worker_fault(chance: random.Random) -> Step:
    kind = chance.choices(("kill", "terminate", "freeze"), (5, 3, 2))[0]
    lasts = chance.uniform(1, 7) if kind == "freeze" else chance.choice((0.0, chance.uniform(0, 4)))
    return Step(0, "worker", kind, lasts)


def _database_fault(chance: random.Random) -> Step:
    kind = chance.choices(("stop", "crash", "cut connections", "freeze"), (2, 2, 3, 2))[0]
    return Step(0, "database", kind, 0.0 if kind == "cut connections" else chance.uniform(0.5, 6))


def _service_fault(chance: random.Random) -> Step:
    if chance.random() < 0.1:
        return Step(0, "service", "delay the network", chance.uniform(0.5, 4))
    if chance.random() < 0.1:
        return Step(0, "service", "misbehave", chance.uniform(1, 5), faults=(*_lost(chance), _NO_DETAILS))
    return _service_fault_without_doubles(chance)


_NO_DETAILS = ("run_details", "unimplemented")


def _service_fault_without_doubles(chance: random.Random) -> Step:
    kind = chance.choices(("kill", "misbehave", "reset connections", "cut the network"), (2, 6, 2, 1))[0]
    if kind == "reset connections":
        return Step(0, "service", kind)
    if kind == "kill":
        return Step(0, "service", kind, chance.uniform(0.2, 5))
    if kind == "cut the network":
        return Step(0, "service", kind, chance.uniform(0.5, 4))
    misbehaviour = chance.choice((_lost, _slow, _failing))
    return Step(0, "service", kind, chance.uniform(1, 5), faults=misbehaviour(chance))


def _lost(chance: random.Random) -> tuple[tuple[str, Any], ...]:
    return ("lost_answer_rate", round(chance.uniform(0.1, 1), 2)), (
        "lost_answer",
        chance.choice(("unavailable", "silence")),
    )


def _slow(chance: random.Random) -> tuple[tuple[str, Any], ...]:
    return ("latency_ms", chance.choice((50, 300, 1200))), ("jitter_ms", chance.choice((0, 500, 2000)))


def _failing(chance: random.Random) -> tuple[tuple[str, Any], ...]:
    return ("error_code", chance.choice(CODES)), ("error_rate", round(chance.uniform(0.1, 1), 2))


def _people(chance: random.Random, seconds: float, triggers: int) -> Iterator[Step]:
    """Yield what people do: each trigger is touched about every 30 seconds; what was switched off comes back soon."""
    at = 0.0
    waiting: list[tuple[float, int, str]] = []  # when, which trigger, how it comes back
    off: set[int] = set()
    while True:
        at += chance.expovariate(triggers / 30)
        waiting.sort()
        while waiting and waiting[0][0] <= min(at, seconds):
            back_at, trigger, kind = waiting.pop(0)
            off.discard(trigger)
            yield Step(round(back_at, 2), "people", kind, trigger=trigger, schedule=_edit(chance, kind))
        if at >= seconds:
            return
        trigger = chance.randrange(triggers)
        if trigger in off:
            continue
        kinds = ("edit", "pause", "delete", "deploy again", "move triggered_at")
        kind = chance.choices(kinds, (4, 4, 2, 2, 1))[0]
        if kind in ("pause", "delete"):
            off.add(trigger)
            comes_back_as = "edit" if kind == "delete" else chance.choice(("resume", "resume", "edit"))
            waiting.append((at + chance.choice((0.0, 0.3, 3.0, 15.0)) * chance.random(), trigger, comes_back_as))
        yield Step(round(at, 2), "people", kind, trigger=trigger, schedule=_edit(chance, kind))


def _edit(chance: random.Random, kind: str) -> Schedule | None:
    return _schedule(chance, bad=chance.random() < BAD_SHARE) if kind == "edit" else None


def _schedule(chance: random.Random, *, bad: bool = False) -> Schedule:
    if bad:
        return Schedule(cron=chance.choice(("0 0 30 2 *", "nonsense", "* * * * 7", "", "61 * * * *")))
    form = chance.choices(("every", "cron", "prefix", "rate"), (14, 3, 1, 2))[0]
    if form == "every":
        return Schedule(cron=f"@every {chance.randint(1, 7)}s")
    minute = chance.choice(("*", "*", "*/2", str(chance.randrange(60))))
    if form == "cron":
        return Schedule(cron=f"{minute} * * * *", zone=chance.choice(ZONES))
    if form == "prefix":
        return Schedule(cron=f"TZ={chance.choice(ZONES)} {minute} * * * *")
    return Schedule(rate_minutes=chance.choice((1, 1, 2)), rate_from_seconds=chance.choice((None, -100_003, 7, 31)))
