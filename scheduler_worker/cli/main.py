"""The command line's front door: finds the command, loads its module alone, and turns errors into messages.

Decides names and exit codes: 0 done, 1 failed, 2 bad input or bad settings, 130 interrupted. Must stay light: `next`
should answer before a database driver could even be imported.
"""

import importlib.metadata
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Final, NamedTuple

import typer

from scheduler_worker import garbage
from scheduler_worker.errors import ConfigError, SchedulerWorkerError

PROGRAM: Final = "scheduler-worker"

EXIT_FAILED: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130


class Command(NamedTuple):
    """Where a command lives.

    Attributes:
        module: holds its ``app``, a `typer.Typer`.
        summary: what `--help` of the program says of it, without loading the module.
    """

    module: str
    summary: str


COMMANDS: Final[Mapping[str, Command]] = {
    "run": Command("scheduler_worker.cli.run", "Turn triggers into runs, until SIGTERM or Ctrl-C."),
    "migrate": Command("scheduler_worker.cli.migrate", "Bring the database to the form the worker needs."),
    "config": Command("scheduler_worker.cli.config", "List the settings, check them, or show where they come from."),
    "triggers": Command("scheduler_worker.cli.triggers", "Deploy, list, show, pause, resume and delete triggers."),
    "unfired": Command("scheduler_worker.cli.unfired", "List fire times that became no run, or send them again."),
    "next": Command("scheduler_worker.cli.next", "Print the fire times of a schedule."),
    "demo": Command("scheduler_worker.cli.demo", "Watch triggers become runs, with everything started for you."),
    "mock-run-service": Command("scheduler_worker.cli.mock_run_service", "Serve a Run Service to try things against."),
}


def main() -> None:
    """Run the command that the process was started with, and exit."""
    try:
        run(sys.argv[1:])
    finally:
        _flush()


def run(arguments: Sequence[str]) -> None:
    """Run the command that `arguments` name.

    Raises:
        SystemExit: always, with the exit code.
    """
    try:
        typer.main.get_command(command_line(arguments))(args=list(arguments), prog_name=PROGRAM)
    except SchedulerWorkerError as error:
        sys.stderr.write(message_of(error))
        sys.exit(EXIT_BAD_INPUT if isinstance(error, ValueError) else EXIT_FAILED)
    except KeyboardInterrupt:  # while the command's module was still being read; later the command sees to it
        sys.exit(EXIT_INTERRUPTED)


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """Return the program with the command that `arguments` name loaded; the others are there by name and summary."""
    program = typer.Typer(no_args_is_help=True, add_completion=False)
    program.callback()(_program)
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, command in COMMANDS.items():
        if name == wanted:
            with garbage.collected_later():
                module = import_module(command.module)
            _add(program, name, module.app)
        else:
            program.command(name, help=command.summary)(_not_loaded)
    return program


def message_of(error: SchedulerWorkerError) -> str:
    """Return what a person reads of `error`: one line, or one line per fault of the settings."""
    faults = error.faults if isinstance(error, ConfigError) else ()
    if len(faults) > 1:
        return f"Error: {len(faults)} faults in the settings\n" + "".join(f"  - {fault}\n" for fault in faults)
    return f"Error: {error}\n"


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"{PROGRAM} {importlib.metadata.version(PROGRAM)}")
        raise typer.Exit


def _program(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the release.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Turn Flyte 2 trigger rows in Postgres into runs: exactly once per fire time, on time, in plain sight."""


def _add(program: typer.Typer, name: str, app: typer.Typer) -> None:
    is_single = len(app.registered_commands) == 1 and not app.registered_groups and app.registered_callback is None
    if is_single:
        (command,) = app.registered_commands
        command.name = name
        program.registered_commands.append(command)
    else:
        program.add_typer(app, name=name, help=COMMANDS[name].summary)


def _not_loaded() -> None:
    raise AssertionError("only the command that was named is ever run")


def _flush() -> None:
    """Hand over what is still buffered; a reader that has gone (`| head`) is no fault of ours."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
