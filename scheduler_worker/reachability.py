"""Whether the Run Service can be reached, told from how calls end.

While it can't, the whole queue waits on one probe: a single real fire at a time, at most one a second, instead of every
fire failing on its own. Any answer of the service, also a refusal, opens the way again.
"""

from collections.abc import Callable

from scheduler_worker.domain.outcomes import UNREACHABLE_CODES

FAILURES_UNTIL_UNREACHABLE = 5
"""Calls in a row without an answer before the service counts as unreachable. One alone may be that one call's own
trouble: a slow run, a connection that was just being replaced."""

PROBE_INTERVAL_SECONDS = 1.1
"""Wait between probes: a little over a second, so that never two fall into one."""


class Reachability:
    """A circuit breaker that calls `on_change` with what it has become. Times are the event loop's, in seconds."""

    def __init__(self, *, on_change: Callable[[bool], None]) -> None:
        self.is_reachable = True
        self._failures_in_a_row = 0
        self._next_probe_at = 0.0
        self._on_change = on_change

    def answered(self) -> None:
        """Note that the service answered a call, whatever it said."""
        self._failures_in_a_row = 0
        if not self.is_reachable:
            self.is_reachable = True
            self._on_change(True)

    def failed(self, code: str, *, now: float) -> None:
        """Note that a call ended with gRPC status `code`."""
        if code not in UNREACHABLE_CODES:
            self.answered()
            return
        self._failures_in_a_row += 1
        self._next_probe_at = now + PROBE_INTERVAL_SECONDS
        if self.is_reachable and self._failures_in_a_row >= FAILURES_UNTIL_UNREACHABLE:
            self.is_reachable = False
            self._on_change(False)

    def probe_wait(self, *, now: float) -> float:
        """Return the seconds until the next probe may start."""
        return max(0.0, self._next_probe_at - now)
