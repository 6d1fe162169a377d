"""`scheduler-worker demo`: watch triggers become runs, with everything started for you.

Decides what is said at the end. How the parts start and stop is decided in `demo_stand.py`, what is seen in between in
`demo_show.py`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from scheduler_worker.cli.demo_board import key_of, lateness_in_words, runs_in_words
from scheduler_worker.cli.demo_show import Show, say
from scheduler_worker.cli.demo_stand import (
    INSTANCE,
    DemoFolder,
    DemoParts,
    demo_database,
    demo_folder,
    demo_parts,
    work,
)
from scheduler_worker.cli.demo_tally import Tally, WatchedLog
from scheduler_worker.cli.output import JsonOption, print_json
from scheduler_worker.cli.trigger_view import TriggerView
from scheduler_worker.telemetry.logs import configure_logging

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
    with demo_folder(data) as folder:
        say(console, f"Starting Postgres in {folder.postgres}")
        with demo_database(folder) as database_url:
            code, summary = asyncio.run(_run(folder, database_url, console, seconds))
        if as_json:
            print_json(summary)
        else:
            say(console, *_in_words(summary))
        if code != 0:
            typer.echo(f"Error: the worker failed; {folder.worker_log} says why", err=True)
            raise typer.Exit(code)


async def _run(
    folder: DemoFolder, database_url: str, console: Console | None, seconds: float | None
) -> tuple[int, Mapping[str, Any]]:
    """Run all parts but Postgres to the end; return the worker's exit code and the summary."""
    show = Show(console)
    tally = Tally(on_run=show.take_in)
    log = WatchedLog(folder.worker_log, tally.take_in)
    configure_logging(level="debug", form="json", instance=INSTANCE, stream=log)
    async with demo_parts(folder, database_url, tally) as parts:
        code = await work(parts, beside=show.run, seconds=seconds)
        return code, _summary(parts, await parts.views(datetime.now(UTC)))


def _summary(parts: DemoParts, views: Sequence[TriggerView]) -> Mapping[str, Any]:
    tally = parts.tally
    return {
        "data": [str(place) for place in parts.folder.places],
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
    lines = ["", f"Stopped. {runs_in_words(summary['runs'])}, {summary['caught_up']} of them caught up."]
    if first is not None:
        lines.append(f"The first one came {first:.1f} s after the worker's start.")
    if worst is not None:
        lines.append(f"No live one was later than {lateness_in_words(timedelta(seconds=worst))}.")
    lines.extend(
        f"  {trigger['trigger']}: {runs_in_words(trigger['runs'])}, {trigger['caught_up']} caught up"
        for trigger in summary["triggers"]
    )
    places = " and ".join(summary["data"])
    lines.append(f"The data is in {places}: start again to go on from it, or delete it to begin anew.")
    return lines
