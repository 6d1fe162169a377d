"""What the HTTP port shows of a worker, and who is asked for it.

Decides the form of the two answers; what is healthy or ready is decided by whoever is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Health:
    """Whether the process still does its work, or should be started anew.

    Attributes:
        reasons: why it is not healthy; empty when it is.
    """

    reasons: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Whether the worker is up: firing, or standing by to take over.

    A standby is ready: it does all that is asked of it, and a rolling update has to see it ready before the owner goes.

    Attributes:
        role: ``starting``, ``standby``, ``owner`` or ``stopping``.
        reasons: why it is not ready; empty when it is.
        details: figures for a person who looks, ready for JSON.
    """

    role: str
    reasons: tuple[str, ...] = ()
    details: Mapping[str, str | float | bool | None] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


class StatusSource(Protocol):
    """The worker, seen from the HTTP port. Both questions are answered at once, from memory."""

    def health(self, now: datetime) -> Health:
        """Say whether the process should go on."""

    def readiness(self, now: datetime) -> Readiness:
        """Say whether the worker is up."""
