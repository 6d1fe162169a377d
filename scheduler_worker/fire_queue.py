"""Fires that wait for their call: live ones first, then late ones, and those that wait out a back-off.

The queue decides the order and bounds the number. It never drops a fire: what it refuses or puts out stays owed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from scheduler_worker.domain.fire import Fire, FireKind


class FireQueue:
    """A two-lane queue on the event loop.

    Attributes:
        on_change: called whenever something became ready.
        on_evicted: called with a fire that had to make room; it is not in the queue any more.
    """

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._live: deque[Fire] = deque()
        self._late: deque[Fire] = deque()
        self._waiting: list[tuple[float, int, Fire]] = []
        self._sequence = 0
        self._late_waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.on_evicted: Callable[[Fire], None] = lambda _: None

    @property
    def live(self) -> int:
        """Number of live fires that are ready."""
        return len(self._live)

    @property
    def late(self) -> int:
        """Number of late fires that are ready."""
        return len(self._late)

    @property
    def waiting(self) -> int:
        """Number of fires that wait out a back-off."""
        return len(self._waiting)

    @property
    def late_pending(self) -> int:
        """Number of late fires, ready or waiting."""
        return len(self._late) + self._late_waiting

    def __len__(self) -> int:
        return len(self._live) + len(self._late) + len(self._waiting)

    def offer(self, fire: Fire) -> bool:
        """Take a new fire, or say False when the queue is full.

        A live fire that finds the queue full takes the place of one that failed and waits for its next try: however
        many triggers fail, the others fire on time.
        """
        if len(self) >= self._capacity and not (fire.kind is FireKind.LIVE and self._evict()):
            return False
        self.put_back(fire)
        return True

    def _evict(self) -> bool:
        if not self._waiting:
            return False
        _, _, fire = self._waiting.pop()  # the last entry of a heap can go without ado, and is not the next due
        self._late_waiting -= fire.kind is not FireKind.LIVE
        if fire.kind is FireKind.UNFIRED:
            fire.is_done = True  # the wish to send it is in the database, and comes again with the next sync
        else:
            self.on_evicted(fire)
        return True

    def put_back(self, fire: Fire) -> None:
        """Put a fire at the end of its lane, also when the queue is full: it was taken from it."""
        (self._live if fire.kind is FireKind.LIVE else self._late).append(fire)
        self.on_change()

    def put_back_later(self, fire: Fire, *, seconds: float) -> None:
        """Put a fire back after `seconds`."""
        loop = asyncio.get_running_loop()
        self._sequence += 1
        heappush(self._waiting, (loop.time() + seconds, self._sequence, fire))
        self._late_waiting += fire.kind is not FireKind.LIVE
        if self._waiting[0][2] is fire:
            self._arm_timer(loop)

    def ask_first(self) -> None:
        """Have every fire that is queued now looked up before it is sent: somebody else may have sent it."""
        for fire in (*self._live, *self._late, *(fire for _, _, fire in self._waiting)):
            fire.ask_first = True

    def pop(self, *, late_allowed: bool) -> Fire | None:
        """Take the next fire: the oldest live one, else the oldest late one if that is allowed, else None."""
        if self._live:
            return self._live.popleft()
        if late_allowed and self._late:
            return self._late.popleft()
        return None

    def close(self) -> None:
        """Forget all fires and stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._live.clear()
        self._late.clear()
        self._waiting.clear()
        self._late_waiting = 0

    def _arm_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._waiting[0][0], self._release_due) if self._waiting else None

    def _release_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, _, fire = heappop(self._waiting)
            self._late_waiting -= fire.kind is not FireKind.LIVE
            self.put_back(fire)
        self._arm_timer(loop)
