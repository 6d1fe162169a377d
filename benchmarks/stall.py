"""Measures how long an event loop could not take a turn."""

import asyncio
from typing import Self

TICK_SECONDS = 0.003
"""The probe asks for a turn this often: shorter stalls are not seen, and more turns would slow what is measured."""


class StallProbe:
    """A ticker on the running loop; use as ``async with``."""

    def __init__(self) -> None:
        self._longest_seconds = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def take_longest_ms(self) -> float:
        """Return the longest stall since the last call, in milliseconds, and begin anew."""
        longest, self._longest_seconds = self._longest_seconds, 0.0
        return longest * 1000

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            planned = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self._longest_seconds = max(self._longest_seconds, loop.time() - planned)
