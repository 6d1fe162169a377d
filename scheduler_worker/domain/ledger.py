"""One trigger's account: what it owes, what was handed out, and how far everything is settled.

Owed now are the fire times in (`confirmed_through`, now] that are neither handed out nor settled. The account moves
`confirmed_through` only over times that are settled, so a crash at any instant leaves every open time owed.
"""

from collections.abc import Iterator
from datetime import datetime

from scheduler_worker.domain.life import THE_END, Span, fire_times


class Ledger:
    """The account of one trigger. Not thread-safe: it lives on the event loop.

    Attributes:
        spans: the stretches of its life that can still hold open fire times, oldest first.
        confirmed_through: every owed fire time up to here is settled. Moves back only by `reopen`.
    """

    __slots__ = ("_handed_out", "_settled_ahead", "confirmed_through", "spans")

    def __init__(self, spans: tuple[Span, ...], *, confirmed_through: datetime) -> None:
        self.spans = spans
        self.confirmed_through = confirmed_through
        # No set for none or one: most triggers of a hundred thousand have no more in motion, and a set is large, and
        # one more object for the cycle collector to look at while the event loop waits.
        self._handed_out: tuple[datetime, ...] | set[datetime] = ()
        self._settled_ahead: set[datetime] | None = None

    def owed(self, now: datetime) -> Iterator[tuple[datetime, Span]]:
        """Yield each open fire time up to `now` with its span, oldest first, lazily.

        Times of a forfeited span are among them: they must be recorded before the account can move over them.
        The account may be changed between two steps of the iteration.
        """
        for time, span in fire_times(self.spans, after=self.confirmed_through, through=now):
            if not self.is_known(time):
                yield time, span

    def is_known(self, time: datetime) -> bool:
        """Say whether `time` is settled or handed out, so that handing it out (again) would double it."""
        return (
            time <= self.confirmed_through
            or time in self._handed_out
            or (self._settled_ahead is not None and time in self._settled_ahead)
        )

    def span_of(self, time: datetime) -> Span | None:
        """Return the span that produced `time`, or None when no schedule in force did."""
        for span in self.spans:
            if span.has(time):
                return span
        return None

    def hand_out(self, time: datetime) -> None:
        """Note that `time` is on its way to the Run Service."""
        if not self._handed_out:
            self._handed_out = (time,)
        elif isinstance(self._handed_out, set):
            self._handed_out.add(time)
        else:
            self._handed_out = {*self._handed_out, time}

    def release(self, time: datetime) -> None:
        """Take back a handed-out time that was not settled: it is owed again."""
        if isinstance(self._handed_out, set):
            self._handed_out.discard(time)
        if not self._handed_out or self._handed_out == (time,):
            self._handed_out = ()

    def settle(self, time: datetime) -> bool:
        """Note that `time` is settled, and say whether `confirmed_through` moved.

        The mark stays before the smallest open time, whatever was settled beyond it.
        """
        self.release(time)
        before = self.confirmed_through
        if time <= before:
            return False
        if self._settled_ahead is None and self._is_first_open(time):
            self.confirmed_through = time  # as nearly always: one at a time, in order
            return True
        ahead = self._settled_ahead or set()
        ahead.add(time)
        for owed_time, _ in fire_times(self.spans, after=before, through=max(ahead)):
            if owed_time not in ahead:
                break
            self.confirmed_through = owed_time
        self._settled_ahead = {ahead_time for ahead_time in ahead if ahead_time > self.confirmed_through} or None
        return self.confirmed_through > before

    def _is_first_open(self, time: datetime) -> bool:
        first = next(fire_times(self.spans, after=self.confirmed_through, through=time), None)
        return first is not None and first[0] == time

    def close_up_to(self, instant: datetime) -> bool:
        """Move `confirmed_through` to `instant` if nothing before it is open, and say whether it moved."""
        if instant <= self.confirmed_through or self._handed_out or next(self.owed(instant), None) is not None:
            return False
        self.confirmed_through = instant
        self._settled_ahead = {time for time in self._settled_ahead or () if time > instant} or None
        return True

    def reopen(self, instant: datetime) -> bool:
        """Take `confirmed_through` back to `instant`, and say whether it was later.

        From there on another schedule was in force than was thought. What the old one's times are is settled, whether
        or not the new one has them too. To be called before `spans` changes.
        """
        if instant >= self.confirmed_through:
            return False
        settled = {time for time, _ in fire_times(self.spans, after=instant, through=self.confirmed_through)}
        self._settled_ahead = (settled | (self._settled_ahead or set())) or None
        self.confirmed_through = instant
        return True

    @property
    def open_fires(self) -> int:
        """Number of fire times that are handed out and not settled yet."""
        return len(self._handed_out)

    @property
    def is_over(self) -> bool:
        """Whether the trigger's life has ended: no span is in force any more."""
        return not self.spans or self.spans[-1].until < THE_END
