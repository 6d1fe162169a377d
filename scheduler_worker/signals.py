"""SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_SIGNALLED: Final = 128
"""By custom a process ended by signal n exits with 128 + n."""


@contextlib.contextmanager
def stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` at the first signal, exit at the second; on leaving, the signals act as before."""
    loop = asyncio.get_running_loop()

    def handle(number: int) -> None:
        if stop.is_set():
            # Nothing is lost: what was not written down is owed at the next start.
            os._exit(_SIGNALLED + number)
        stop.set()

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
