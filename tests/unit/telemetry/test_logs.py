import io
import json
import logging
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.telemetry.logs import LogLevel, configure_logging, redact, without_passwords


@pytest.fixture(autouse=True)
def _leave_logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def configured(level: LogLevel = "info", instance: str = "") -> io.StringIO:
    stream = io.StringIO()
    configure_logging(level=level, form="json", instance=instance, stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail(error: Exception) -> None:
    raise error


def test_an_event_is_one_json_line_with_its_fields() -> None:
    stream = configured(instance="host-1")
    instant = datetime(2026, 3, 1, 12, tzinfo=UTC)
    structlog.get_logger("any").warning("clock_jump", seconds=3.5, at=instant, after=timedelta(seconds=2))

    assert stream.getvalue().startswith('{"timestamp": "')
    (line,) = lines(stream)
    timestamp = datetime.fromisoformat(line.pop("timestamp"))
    assert timestamp.utcoffset() == timedelta()
    assert line == {
        "event": "clock_jump",
        "level": "warning",
        "instance": "host-1",
        "seconds": 3.5,
        "at": "2026-03-01T12:00:00Z",
        "after": 2.0,
    }


def test_levels_below_the_chosen_one_are_not_shown() -> None:
    stream = configured("warning")
    log = structlog.get_logger()
    log.debug("run_created")
    log.info("sync_done")
    log.warning("sync_failed")

    assert [line["event"] for line in lines(stream)] == ["sync_failed"]


def test_an_error_is_text_in_the_same_line() -> None:
    stream = configured()
    try:
        fail(ValueError("no route to postgresql://me:hunter2@db/flyte"))
    except ValueError:
        structlog.get_logger().exception("sync_failed")

    (line,) = lines(stream)
    assert "Traceback" in line["exception"]
    assert "ValueError: no route to postgresql://me:***@db/flyte" in line["exception"]
    assert "hunter2" not in stream.getvalue()


def test_libraries_are_bridged_and_kept_quiet() -> None:
    stream = configured("debug")
    logging.getLogger("apscheduler.scheduler").info("Added job")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("apscheduler.scheduler").warning("Run time of %s was missed", "a job")
    logging.getLogger("alembic.runtime.migration").info("Running upgrade -> 0001")

    shown = [(line["logger"], line["level"], line["event"]) for line in lines(stream)]
    assert shown == [
        ("apscheduler.scheduler", "warning", "Run time of a job was missed"),
        ("alembic.runtime.migration", "info", "Running upgrade -> 0001"),
    ]


def test_a_library_error_is_redacted_too() -> None:
    stream = configured()
    try:
        fail(OSError("postgresql://me:hunter2@db is away"))
    except OSError:
        logging.getLogger("asyncio").exception("Task failed for password='hun ter2'")

    assert "hunter2" not in stream.getvalue()
    assert "hun ter2" not in stream.getvalue()
    assert "OSError" in lines(stream)[0]["exception"]


def test_python_warnings_are_log_lines() -> None:
    stream = configured()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging(level="info", form="json", stream=stream)
        warnings.warn("this goes away", DeprecationWarning, stacklevel=1)

    assert [line["logger"] for line in lines(stream)] == ["py.warnings"]


def test_the_console_form_is_plain_text_when_nobody_looks() -> None:
    stream = io.StringIO()
    configure_logging(level="info", form="console", stream=stream)
    try:
        fail(ValueError("odd"))
    except ValueError:
        structlog.get_logger().exception("sync_failed", trigger="p/d/t/n", url="http://u:secret@h")

    text = stream.getvalue()
    assert "sync_failed" in text
    assert "ValueError: odd" in text
    assert "secret" not in text
    assert "\x1b" not in text


def test_the_form_follows_the_stream_when_it_is_left_open() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), io.StringIO()
    configure_logging(level="info", stream=terminal)
    structlog.get_logger().info("worker_started")
    configure_logging(level="info", stream=pipe)
    structlog.get_logger().info("worker_started")

    assert not terminal.getvalue().startswith("{")
    assert lines(pipe)[0]["event"] == "worker_started"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://flyte:hunter2@db:5432/flyte", "postgresql://flyte:***@db:5432/flyte"),
        ("postgresql+asyncpg://:hunter2@/flyte", "postgresql+asyncpg://:***@/flyte"),
        ("postgres://flyte:hunt@er2@a,b/flyte gone", "postgres://flyte:***@a,b/flyte gone"),
        ("host=db password=hunter2 dbname=flyte", "host=db password=*** dbname=flyte"),
        (r"host=db password = 'hun\'t er2' dbname=flyte", "host=db password=*** dbname=flyte"),
        ("postgresql:///flyte?password=hunter2&host=db", "postgresql:///flyte?password=***&host=db"),
        ("host=db sslpassword=hunter2", "host=db sslpassword=***"),
        ("http://[::1]:8080/healthz", "http://[::1]:8080/healthz"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("trigger a:b@c", "trigger a:b@c"),
    ],
)
def test_passwords_in_text_are_hidden_and_the_rest_is_kept(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


def test_fields_named_like_secrets_are_hidden_at_every_depth() -> None:
    event = {
        "event": "worker_started",
        "password": "hunter2",
        "settings": {"database": {"api_token": "hunter2"}, "urls": ["http://u:hunter2@h", 3]},
        "error": ValueError("postgresql://u:hunter2@h"),
        "ready": True,
        "nothing": None,
    }

    shown = redact(None, "info", event)

    assert "hunter2" not in repr(shown)
    assert shown["ready"] is True
    assert shown["nothing"] is None
    assert shown["settings"]["urls"] == ["http://u:***@h", 3]


@given(st.text(st.characters(exclude_characters=" \t\r\n\x0b\x0c/", exclude_categories=["Z", "C"]), min_size=4))
def test_no_password_of_a_url_gets_through(password: str) -> None:
    assert without_passwords(f"at postgresql://user:{password}@host/db") == "at postgresql://user:***@host/db"
