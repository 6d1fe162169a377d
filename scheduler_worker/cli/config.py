"""`scheduler-worker config`: what the settings are, without starting anything.

Must never show a secret.
"""

import os
from collections.abc import Iterator
from datetime import timedelta

import typer
from pydantic import SecretStr

from scheduler_worker.cli.output import ConfigOption, JsonOption, print_json, print_table
from scheduler_worker.config import LoadedSettings, Settings, load_with_origins
from scheduler_worker.config.settings import UNLIMITED, variable_of
from scheduler_worker.domain.database_url import redacted
from scheduler_worker.domain.go_duration import format_go_duration
from scheduler_worker.errors import ConfigError

app = typer.Typer()

_EXIT_FAULTY = 2
_WITHOUT_LIMIT = frozenset({"execution_qps", "catchup_window"})


@app.command()
def check(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Say whether `run` would accept the settings, and everything that is wrong with them.

    Opens nothing but the files that are named. Exits with 0 when they are fine and 2 when not.
    """
    try:
        load_with_origins(os.environ, config)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"ok": False, "faults": error.faults})
        raise typer.Exit(_EXIT_FAULTY) from error
    if as_json:
        print_json({"ok": True, "faults": []})
    else:
        typer.echo("The settings are fine.")


@app.command()
def show(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show every setting with its value and where it comes from; secrets are left out.

    Exits with 0, or 2 when the settings are faulty.
    """
    loaded = load_with_origins(os.environ, config)
    rows = list(_rows(loaded))
    if as_json:
        print_json([dict(zip(("name", "value", "origin", "variable", "meaning"), row, strict=True)) for row in rows])
    else:
        shown = [(name, value, origin, meaning) for name, value, origin, _, meaning in rows]
        print_table("Settings", ("name", "value", "from", "meaning"), shown)


@app.command(name="list")
def list_(*, as_json: JsonOption = False) -> None:
    """List every setting there is, with its variable, its default and its meaning."""
    fields = Settings.model_fields.items()
    rows = [(name, variable_of(name), default_of(name), field.description) for name, field in fields]
    columns = ("name", "variable", "default", "meaning")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table("Settings", columns, rows)


def default_of(name: str) -> object:
    """Return the default of a setting as it is written: None when it is required or found out at the start."""
    field = Settings.model_fields[name]
    return None if field.is_required() or field.default_factory else _shown(name, field.default)


def _rows(loaded: LoadedSettings) -> Iterator[tuple[str, object, str, str, str]]:
    for name, field in Settings.model_fields.items():
        value = _shown(name, getattr(loaded.settings, name))
        yield name, value, loaded.origins[name], variable_of(name), field.description or ""


def _shown(name: str, value: object) -> object:
    if isinstance(value, SecretStr):
        return redacted(value.get_secret_value())
    if isinstance(value, timedelta):
        return format_go_duration(value)
    return UNLIMITED if value is None and name in _WITHOUT_LIMIT else value
