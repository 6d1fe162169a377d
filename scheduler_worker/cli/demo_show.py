"""What is seen of the demo while it runs: a live table on a terminal, elsewhere one line per run.

Decides when what is printed. Must never print from inside the worker, whose pace a slow reader would then set.
"""

import asyncio
import contextlib
import http.client
import itertools
import json
import sys
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from scheduler_worker.cli.demo_board import board, run_in_words
from scheduler_worker.cli.demo_stand import DemoParts
from scheduler_worker.cli.demo_tally import DemoRun
from scheduler_worker.cli.main import PROGRAM
from scheduler_worker.cli.trigger_view import TriggerView
from scheduler_worker.errors import DatabaseUnavailableError

_FRAME_SECONDS: Final = 0.25
_FRAMES_PER_LOOK: Final = 4
"""The database and the worker's port are looked at once a second."""
_LATEST_RUNS: Final = 8
_ANSWER_TIMEOUT_SECONDS: Final = 1.0


class Show:
    """What is seen on standard output while the worker works.

    Args:
        console: None shows nothing.
    """

    def __init__(self, console: Console | None) -> None:
        self._console = console
        # A live table shows the latest runs, lines show all of them.
        is_live = console is not None and sys.stdout.isatty()
        self._runs: deque[DemoRun] = deque(maxlen=_LATEST_RUNS if is_live else None)
        self._is_live = is_live

    def take_in(self, run: DemoRun) -> None:
        """Keep a run until it is shown. Nothing is printed here: this is called from inside the worker."""
        if self._console is not None:
            self._runs.append(run)

    async def run(self, parts: DemoParts) -> None:
        """Show what happens until cancelled."""
        await parts.tally.worker_started.wait()
        say(self._console, *_introduction(parts))
        if self._is_live:
            await self._table(parts)
        elif self._console is not None:
            await self._lines()
        else:
            await asyncio.Event().wait()

    async def _lines(self) -> None:
        try:
            while True:
                await asyncio.sleep(_FRAME_SECONDS)
                self._print_lines()
        finally:
            self._print_lines()

    def _print_lines(self) -> None:
        while self._runs:
            say(self._console, run_in_words(self._runs.popleft()))
        sys.stdout.flush()

    async def _table(self, parts: DemoParts) -> None:
        views: Sequence[TriggerView] = ()
        ready: Mapping[str, Any] = {}
        with Live(console=self._console, auto_refresh=False) as live:
            try:
                for frame in itertools.count():
                    now = datetime.now(UTC)
                    if frame % _FRAMES_PER_LOOK == 0:
                        ready = await asyncio.to_thread(_ready, parts.tally.http)
                        with contextlib.suppress(DatabaseUnavailableError):  # somebody tries what happens then
                            views = await parts.views(now)
                    live.update(board(views, ready, parts.tally, self._runs, now=now), refresh=True)
                    await asyncio.sleep(_FRAME_SECONDS)
            finally:
                last = {"role": "stopped"}
                live.update(board(views, last, parts.tally, self._runs, now=datetime.now(UTC)), refresh=True)


def _introduction(parts: DemoParts) -> Sequence[str]:
    went_on = "" if parts.new_samples else ", kept from before"
    return (
        f"Postgres          {parts.database_url}",
        f"Mock Run Service  {parts.run_service.address}, its runs are in {parts.folder.journal}",
        f"Sample triggers   {parts.new_samples or 'none'} new{went_on}",
        f"Worker            http://{parts.tally.http}/metrics, its log is {parts.folder.worker_log}",
        f"To look inside    {_program()} triggers list --database-url '{parts.database_url}'",
        "Ctrl-C stops all of it.",
        "",
    )


def _program() -> str:
    """Return how this program was called, as it may not be on the PATH."""
    return sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else PROGRAM


def _ready(address: str) -> Mapping[str, Any]:
    """Return what the worker answers on ``/readyz``, or nothing."""
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with directly.open(f"http://{address}/readyz", timeout=_ANSWER_TIMEOUT_SECONDS) as answer:
            ready: Mapping[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            ready = json.load(error)
    except (OSError, http.client.HTTPException):
        return {}
    return ready


def say(console: Console | None, *lines: str) -> None:
    """Print plain lines; without a console, nothing."""
    if console is not None:
        for line in lines:
            console.print(line, markup=False)
