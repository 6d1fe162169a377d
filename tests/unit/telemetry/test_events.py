import ast
import re
from collections.abc import Iterator
from pathlib import Path

import scheduler_worker
from scheduler_worker.telemetry.events import EVENTS

PACKAGE = Path(scheduler_worker.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def logged_events() -> Iterator[tuple[str, str]]:
    """Yield (place, name) of every string that stands in the first argument of a log call."""
    for path in PACKAGE.rglob("*.py"):
        if "_pb" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"log", "_log", "logger"}
            ):
                for part in ast.walk(node.args[0]):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield f"{path.name}:{node.lineno}", part.value


def test_every_logged_event_has_a_meaning() -> None:
    logged = list(logged_events())

    assert logged
    assert [(place, name) for place, name in logged if name not in EVENTS] == []


def test_every_event_with_a_meaning_is_logged() -> None:
    assert set(EVENTS) - {name for _, name in logged_events()} == set()


def test_names_and_meanings_have_one_form() -> None:
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)+", name) for name in EVENTS)
    assert all(meaning and not meaning.endswith(".") for meaning in EVENTS.values())
