"""Owed fire times of the past, on their way into the queue: oldest first, in turns over the triggers, bounded.

The same path serves a restart, an outage, a process that slept, a queue that was full and a pause that left times
open. What policy leaves out is recorded, never forgotten.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from scheduler_worker.domain.fire import ArmedTrigger, Fire, FireKind
from scheduler_worker.domain.life import Span, latest_fire_time
from scheduler_worker.domain.outcomes import UnfiredReason

STEPS_PER_LOOP_TURN = 200
"""Owed times looked at before the event loop gets its turn: a few milliseconds."""

RECORDED_PER_RUN = 10_000
"""Times recorded as unfired in one run of catch-up. A year of missed minutes takes several runs, not one long one."""


class CatchUpPolicy(StrEnum):
    """Which of the fire times that nobody was there for become runs."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class CatchUpRules:
    """What bounds catch-up.

    Attributes:
        policy: applies to times that were missed: no worker was there, or it slept.
        window: older times are recorded instead of fired; None for no limit.
        max_runs: fires handed out per sync, over all triggers.
    """

    policy: CatchUpPolicy = CatchUpPolicy.ALL
    window: timedelta | None = None
    max_runs: int = 100


_Step = tuple[datetime, UnfiredReason | None]
_Turns = dict[ArmedTrigger, tuple[tuple[Span, ...], Iterator[_Step]]]


class CatchUp:
    """The triggers that may owe past times, and whose turn it is.

    Attributes:
        missed_through: fire times up to here were missed, in the policy's sense: this worker was not there for them.
    """

    def __init__(
        self,
        rules: CatchUpRules,
        *,
        missed_through: datetime,
        offer: Callable[[Fire], bool],
        will_not_run: Callable[[ArmedTrigger, datetime, UnfiredReason], bool],
    ) -> None:
        self._rules = rules
        self._offer = offer
        self._will_not_run = will_not_run
        self.missed_through = missed_through
        self._owing: OrderedDict[ArmedTrigger, None] = OrderedDict()  # in the order of their turns

    def __len__(self) -> int:
        return len(self._owing)

    def __contains__(self, armed: ArmedTrigger) -> bool:
        return armed in self._owing

    def add(self, armed: ArmedTrigger) -> None:
        """Note that the trigger may owe past times. Noting it twice is fine."""
        self._owing.setdefault(armed)

    def add_first(self, armed: ArmedTrigger) -> None:
        """As `add`, with the next turn: what an ended trigger left open is recorded without waiting for others."""
        self._owing[armed] = None
        self._owing.move_to_end(armed, last=False)

    async def run(self, now: datetime, *, budget: int) -> int:
        """Hand out at most `budget` owed times, one per trigger and turn, and return how many were handed out.

        A trigger leaves when nothing is left over that it owes up to `now` or, if that is later, up to its edit: the
        old schedule's last times have no job any more.
        """
        turns: _Turns = {}
        set_aside: list[ArmedTrigger] = []
        handed_out = recorded = steps = 0
        while self._owing and recorded < RECORDED_PER_RUN:
            armed = next(iter(self._owing))
            step = self._next_step(armed, turns, now)
            if step is None:
                del self._owing[armed]
                if self._owes_later(armed, now):
                    set_aside.append(armed)
            elif step[1] is not None:
                if not self._will_not_run(armed, step[0], step[1]):
                    break
                recorded += 1
            elif armed.ledger.open_fires >= self._rules.max_runs:
                # Its fires fail and wait for their next try: more of the same would only take the others' room.
                del self._owing[armed]
                set_aside.append(armed)
            elif handed_out < budget and self._hand_out(armed, step[0]):
                handed_out += 1
                self._owing.move_to_end(armed)  # the others first
            else:
                break
            steps += 1
            if steps % STEPS_PER_LOOP_TURN == 0:
                await asyncio.sleep(0)
        for armed in set_aside:
            self.add(armed)
        return handed_out

    def _next_step(self, armed: ArmedTrigger, turns: _Turns, now: datetime) -> _Step | None:
        spans, steps = turns.get(armed, (None, iter(())))
        if spans is not armed.ledger.spans:  # its first turn, or it was edited while the loop had its own
            steps = self._steps(armed, now)
            turns[armed] = armed.ledger.spans, steps
        return next(steps, None)

    @staticmethod
    def _owes_later(armed: ArmedTrigger, now: datetime) -> bool:
        edited_at = armed.trigger.in_force_from
        return edited_at > now and next(armed.ledger.owed(edited_at), None) is not None

    def _hand_out(self, armed: ArmedTrigger, time: datetime) -> bool:
        armed.ledger.hand_out(time)
        missed = time <= self.missed_through
        fire = Fire(armed, time, FireKind.LATE, armed.ledger.spans, ask_first=missed)
        if self._offer(fire):
            return True
        armed.ledger.release(time)
        return False

    def _steps(self, armed: ArmedTrigger, now: datetime) -> Iterator[_Step]:
        """Yield the trigger's open times up to `now`, each with the reason not to fire it, or None to fire it."""
        ledger = armed.ledger
        keep = self._latest_missed(armed, now) if self._rules.policy is CatchUpPolicy.LATEST else None
        if keep is not None and not ledger.is_known(keep):
            yield keep, self._too_old(keep, now)
        for time, span in ledger.owed(now):
            if span.forfeit is not None:
                yield time, UnfiredReason(span.forfeit)
            elif time <= self.missed_through and self._rules.policy is CatchUpPolicy.NONE:
                yield time, UnfiredReason.POLICY_NONE
            elif time <= self.missed_through and self._rules.policy is CatchUpPolicy.LATEST:
                yield time, UnfiredReason.POLICY_LATEST
            else:
                yield time, self._too_old(time, now)

    def _too_old(self, time: datetime, now: datetime) -> UnfiredReason | None:
        window = self._rules.window
        return UnfiredReason.WINDOW if window is not None and time < now - window else None

    def _latest_missed(self, armed: ArmedTrigger, now: datetime) -> datetime | None:
        through = min(now, self.missed_through)
        for span in reversed(armed.ledger.spans):
            if span.forfeit is None:
                latest = latest_fire_time(span, after=armed.ledger.confirmed_through, through=through)
                if latest is not None:
                    return latest
        return None
