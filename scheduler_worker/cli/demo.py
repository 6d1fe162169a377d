"""`scheduler-worker demo`: watch triggers become runs, with everything started for you.

Decides what is shown while it runs and said at the end. How the parts start and stop is decided in `demo_stand.py`.
"""

import asyncio
import contextlib
import http.client
import json
import sys
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.live import Live

from scheduler_worker.cli.demo_board import board, key_of, lateness_in_words, run_in_words
from scheduler_worker.cli.demo_stand import (
    INSTANCE,
    DemoFolder,
    DemoParts,
    FolderInUseError,
    demo_database,
    demo_folder,
    demo_parts,
    work,
)
from scheduler_worker.cli.demo_tally import DemoRun, Tally, WatchedLog
from scheduler_worker.cli.output import JsonOption, print_json
from scheduler_worker.cli.trigger_view import TriggerView
from scheduler_worker.errors import DatabaseUnavailableError
from scheduler_worker.telemetry.logs import configure_logging

_FRAME_SECONDS: Final = 0.25
_FRAMES_PER_LOOK: Final = 4
"""The database and the worker's port are looked at once a second."""
_LATEST_RUNS: Final = 8
_ANSWER_TIMEOUT_SECONDS: Final = 1.0

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    *,
    data: Annotated[Path, typer.Option(help="Folder that keeps everything; a second start goes on from it.")] = Path(
        ".demo"
    ),
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="End after so many seconds of work, with a summary.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a Postgres, a mock Run Service, sample triggers and a worker, and show the runs; until Ctrl-C.

    On a terminal there is a live table, elsewhere one line per run, and with --json only the summary at the end. Needs
    no settings and uses none; all ports are free ones. Exits with 0 when it was stopped, 1 when a part failed, and 2
    for bad options or a folder that another demo uses.
    """
    console = None if as_json else Console(highlight=False, soft_wrap=True)
    with _folder(data) as folder:
        _say(console, f"Starting Postgres in {folder.postgres}")
        with demo_database(folder) as database_url:
            code, summary = asyncio.run(_run(folder, database_url, console, seconds))
        if as_json:
            print_json(summary)
        else:
            _say(console, *_in_words(summary))
        if code != 0:
            typer.echo(f"Error: the worker failed; {folder.worker_log} says why", err=True)
            raise typer.Exit(code)


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[DemoFolder]:
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(demo_folder(path))
        except FolderInUseError as error:
            raise typer.BadParameter(
                f"another demo runs on {str(path)!r}; stop it, or name another folder", param_hint="--data"
            ) from error
        except OSError as error:
            raise typer.BadParameter(
                f"can't use {str(path)!r}: {error.strerror}; name a folder that can be written to", param_hint="--data"
            ) from error
        yield folder


def _say(console: Console | None, *lines: str) -> None:
    if console is not None:
        for line in lines:
            console.print(line, markup=False)


# -- while it runs -----------------------------------------------------------------------------------------------------


async def _run(
    folder: DemoFolder, database_url: str, console: Console | None, seconds: float | None
) -> tuple[int, Mapping[str, Any]]:
    """Run all parts but Postgres to the end; return the worker's exit code and the summary."""
    show = _Show(console)
    tally = Tally(on_run=show.take_in)
    log = WatchedLog(folder.worker_log, tally.take_in)
    configure_logging(level="debug", form="json", instance=INSTANCE, stream=log)
    async with demo_parts(folder, database_url, tally) as parts:
        code = await work(parts, beside=show.run, seconds=seconds)
        return code, _summary(parts, await parts.views(datetime.now(UTC)))


class _Show:
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
        _say(self._console, *_introduction(parts))
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
            _say(self._console, run_in_words(self._runs.popleft()))
        sys.stdout.flush()

    async def _table(self, parts: DemoParts) -> None:
        views: Sequence[TriggerView] = ()
        frame = 0
        with Live(console=self._console, auto_refresh=False) as live:
            while True:
                now = datetime.now(UTC)
                if frame % _FRAMES_PER_LOOK == 0:
                    ready = await asyncio.to_thread(_ready, parts.tally.http)
                    with contextlib.suppress(DatabaseUnavailableError):  # somebody tries what happens then
                        views = await parts.views(now)
                live.update(board(views, ready, parts.tally, self._runs, now=now), refresh=True)
                frame += 1
                await asyncio.sleep(_FRAME_SECONDS)


def _introduction(parts: DemoParts) -> Sequence[str]:
    went_on = "" if parts.new_samples else ", kept from before"
    return (
        f"Postgres          {parts.database_url}",
        f"Mock Run Service  {parts.run_service.address}, its runs are in {parts.folder.journal}",
        f"Sample triggers   {parts.new_samples or 'none'} new{went_on}",
        f"Worker            http://{parts.tally.http}/metrics, its log is {parts.folder.worker_log}",
        f"To look inside    scheduler-worker triggers list --database-url '{parts.database_url}'",
        "Ctrl-C stops all of it.",
        "",
    )


def _ready(address: str) -> Mapping[str, Any]:
    """Return what the worker answers on ``/readyz``, or nothing."""
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=_ANSWER_TIMEOUT_SECONDS) as answer:
            ready: Mapping[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            ready = json.load(error)
    except (OSError, http.client.HTTPException):
        return {}
    return ready


# -- at the end --------------------------------------------------------------------------------------------------------


def _summary(parts: DemoParts, views: Sequence[TriggerView]) -> Mapping[str, Any]:
    tally = parts.tally
    return {
        "data": str(parts.folder.path),
        "started_at": tally.started_at,
        "runs": tally.runs.total(),
        "caught_up": tally.caught_up.total(),
        "unfired": tally.unfired,
        "doubled": len(parts.run_service.runs.doubled),
        "first_run_after_seconds": _seconds(tally.first_run_after),
        "worst_live_lateness_seconds": _seconds(tally.worst_live_lateness),
        "triggers": [
            {
                "trigger": key_of(view),
                "schedule": view.schedule,
                "state": view.state,
                "runs": tally.runs[key_of(view)],
                "caught_up": tally.caught_up[key_of(view)],
                "last_fire": view.last_fire,
                "last_run_name": view.last_run_name,
                "next_fire": view.next_fire,
            }
            for view in views
        ],
    }


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _in_words(summary: Mapping[str, Any]) -> Sequence[str]:
    first, worst = summary["first_run_after_seconds"], summary["worst_live_lateness_seconds"]
    lines = ["", f"Stopped. {summary['runs']} runs, {summary['caught_up']} of them caught up."]
    if first is not None:
        lines.append(f"The first one came {first:.1f} s after the worker's start.")
    if worst is not None:
        lines.append(f"No live one was later than {lateness_in_words(timedelta(seconds=worst))}.")
    lines.extend(
        f"  {trigger['trigger']}: {trigger['runs']} runs, {trigger['caught_up']} caught up"
        for trigger in summary["triggers"]
    )
    lines.append(f"The data is in {summary['data']}: start again to go on from it, or delete it to begin anew.")
    return lines
