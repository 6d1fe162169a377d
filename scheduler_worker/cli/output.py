"""How commands print: one form of JSON and one form of table for all of them.

Decides how values look. Must never decide what is printed.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler_worker.domain.go_duration import format_go_duration

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
"""The option of every command that prints data."""

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML file with Flyte's keys; the environment counts more."),
]
"""The option of every command that reads settings."""

_WIDTH_FOR_FILES: Final = 100_000
"""Columns of a table that goes into a pipe or a file: nothing is cut or wrapped there."""


def print_json(value: object) -> None:
    """Print `value` as indented JSON: instants in UTC with ``Z``, durations as Go writes them, bytes as hex.

    Raises:
        TypeError: a value has no form in JSON.
    """
    sys.stdout.write(json.dumps(value, default=_plain, indent=2, ensure_ascii=False) + "\n")


def print_json_line(value: object) -> None:
    """Print `value` as `print_json` does, on one line."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print `rows` under `columns`. Off a terminal a table has no colours and is as wide as it needs to be."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # As plain text: a trigger's name may look like markup.
        table.add_row(*(Text(cell(value)) for value in row))
    if sys.stdout.isatty():
        Console().print(table)
        return
    console = Console(width=_WIDTH_FOR_FILES, color_system=None)
    with console.capture() as printed:
        console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())


def cell(value: object) -> str:
    """Return how `value` looks in a table: None is empty, instants are in UTC, durations as Go writes them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (datetime, timedelta, bytes)):
        return str(_plain(value))
    return str(value)


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return format_go_duration(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value.hex()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no form in JSON")
