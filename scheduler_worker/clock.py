"""The one place that reads the wall clock."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the time now, aware and in UTC."""


def system_clock() -> datetime:
    """Return the host's time."""
    return datetime.now(UTC)
