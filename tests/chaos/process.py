"""A program that is started, frozen, killed and started again.

Notes every end that nobody asked for; must never judge it.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PATIENCE_SECONDS = 30.0
_STARTING_SECONDS = 10.0  # a program that is still starting is ended by SIGTERM at once


@dataclass(kw_only=True)
class Process:
    """One program, started again and again under the same name; its output goes to one file."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    output: Path
    handle: subprocess.Popen[bytes] | None = None
    is_frozen: bool = False
    started_at_seconds: float = 0.0
    left_by_itself: list[int] = field(default_factory=list)

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.handle is not None:
            return
        self.started_at_seconds = time.monotonic()
        with self.output.open("ab") as output:
            self.handle = subprocess.Popen(
                self.command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it at once, frozen or not."""
        handle, self.handle, self.is_frozen = self._still_running(), None, False
        if handle is not None:
            handle.kill()
            handle.wait()

    async def terminate(self) -> None:
        """Ask it to end and wait for that; a frozen one is thawed first."""
        self.thaw()
        handle, self.handle = self._still_running(), None
        if handle is None:
            return
        handle.terminate()
        try:
            code = await asyncio.to_thread(handle.wait, _PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            handle.kill()
            handle.wait()
            code = -signal.SIGKILL
        is_young = time.monotonic() - self.started_at_seconds < _STARTING_SECONDS
        if code != 0 and not (is_young and code == -signal.SIGTERM):
            self.left_by_itself.append(code)

    def freeze(self) -> None:
        """Stop its clock."""
        handle = self._still_running()
        if handle is not None:
            handle.send_signal(signal.SIGSTOP)
            self.is_frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        if self.is_frozen and self.handle is not None:
            self.handle.send_signal(signal.SIGCONT)
        self.is_frozen = False

    def _still_running(self) -> subprocess.Popen[bytes] | None:
        """Return the running process, and note one that has ended without being asked to."""
        if self.handle is not None and (code := self.handle.poll()) is not None:
            self.left_by_itself.append(code)
            self.handle = None
        return self.handle

    def look(self) -> None:
        """Note it if the process has ended without being asked to."""
        self._still_running()
