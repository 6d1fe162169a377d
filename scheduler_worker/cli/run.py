"""`scheduler-worker run`: the worker itself, until it is told to stop."""

import asyncio
import os

import typer

from scheduler_worker.app import run as run_worker
from scheduler_worker.cli.output import ConfigOption
from scheduler_worker.config import load_settings
from scheduler_worker.telemetry.logs import configure_logging

app = typer.Typer()


@app.command()
def run(*, config: ConfigOption = None) -> None:
    """Turn triggers into runs, until SIGTERM or Ctrl-C. A second signal ends at once.

    Settings come from SCHEDULER_… variables and the file; `scheduler-worker config list` lists them. Exits with 0 when
    it was told to stop, 1 when a part of it failed, and 2 for faulty settings.
    """
    settings = load_settings(os.environ, config)
    configure_logging(level=settings.log_level, form=settings.log_format, instance=settings.instance)
    raise typer.Exit(asyncio.run(run_worker(settings)))
