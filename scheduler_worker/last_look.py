"""The last look at triggers, just before their calls: what was edited, paused or deleted a moment ago counts.

Decides how long calls may be held back for it. Must never hold them back for good: with the database away they go ahead
on what was last known.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

import structlog

from scheduler_worker.domain.fire import ArmedTrigger
from scheduler_worker.errors import DatabaseUnavailableError

TIMEOUT_SECONDS = 0.5
"""How long a look may take. Fires are worth more than the last half second of edits."""

PAUSE_SECONDS = 1.0
"""After a look that failed, calls go ahead without one for this long before the database is asked again."""

log = structlog.get_logger(__name__)


class TriggerChecker(Protocol):
    """Who knows what is in the database now."""

    async def stale(self, known: Mapping[int, int]) -> Collection[int]:
        """Return those of `known` (revision by trigger id) that have a newer revision or are gone."""


class LastLook:
    """Finds what changed of triggers that are about to fire, and has it taken in."""

    def __init__(self, checker: TriggerChecker, *, reload: Callable[[Collection[int]], Awaitable[None]]) -> None:
        """Ask `checker`, and call `reload` with the ids of triggers to read again."""
        self._checker = checker
        self._reload = reload
        self._not_before = 0.0

    async def bring_up_to_date(self, armed: Collection[ArmedTrigger]) -> None:
        """Take in what changed in the database for these triggers; keep the last known state if it is away."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._not_before:
            return
        revisions = {each.trigger.id: each.trigger.revision for each in armed}
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                if stale := await self._checker.stale(revisions):
                    await self._reload(stale)
        except (DatabaseUnavailableError, TimeoutError) as error:
            self._not_before = loop.time() + PAUSE_SECONDS
            log.warning("check_skipped", error=repr(error))
