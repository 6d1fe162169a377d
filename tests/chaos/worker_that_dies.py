"""A worker that kills itself at a named point: `python -m tests.chaos.worker_that_dies POINT COUNT`.

It is the real program with one function wrapped, and dies there as by kill -9: nothing is cleaned up, flushed or said.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from scheduler_worker.cli.main import main
from scheduler_worker.database import settlement_store
from scheduler_worker.database.lease import Lease
from scheduler_worker.domain.fire import Fire, FireKind
from scheduler_worker.fire_queue import FireQueue
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.trigger_scheduler import TriggerScheduler

_Async = Callable[..., Awaitable[Any]]


class Countdown:
    """Dies when it has been called so often."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _before(function: _Async, countdown: Countdown) -> _Async:
    async def wrapped(*arguments: Any, **named: Any) -> Any:
        countdown()
        return await function(*arguments, **named)

    return wrapped


def _after(function: _Async, countdown: Countdown) -> _Async:
    async def wrapped(*arguments: Any, **named: Any) -> Any:
        result = await function(*arguments, **named)
        countdown()
        return result

    return wrapped


def _at_late_fires(offer: Callable[..., bool], countdown: Countdown) -> Callable[..., bool]:
    def wrapped(queue: FireQueue, fire: Fire) -> bool:
        if fire.kind is FireKind.LATE:
            countdown()
        return offer(queue, fire)

    return wrapped


def _at_fired(write_progress: _Async, countdown: Countdown) -> _Async:
    """Die inside the transaction, when it holds progress of fires."""

    async def wrapped(connection: Any, updates: Any, **named: Any) -> None:
        await write_progress(connection, updates, **named)
        if any(update.last_fire_time is not None for update in updates):
            countdown()

    return wrapped


# Where the wrapped function lives, its name, and how it is wrapped.
POINTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "before the call": (RunServiceClient, "create_run", _before),
    "after the answer": (RunServiceClient, "create_run", _after),
    "before the commit": (settlement_store, "write_progress", _at_fired),
    "after the commit": (settlement_store.SettlementStore, "write", _after),
    "catch-up": (FireQueue, "offer", _at_late_fires),
    "lease acquired": (Lease, "acquire", _after),
    "first load": (TriggerScheduler, "update_schedules", _after),
}

if __name__ == "__main__":
    place, name, wrap = POINTS[sys.argv[1]]
    setattr(place, name, wrap(getattr(place, name), Countdown(int(sys.argv[2]))))
    sys.argv = ["scheduler-worker", "run"]
    main()
