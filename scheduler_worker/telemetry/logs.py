"""Log lines: one event name and its fields per line, as JSON for machines or in colour for a terminal.

Decides the form of a line, which libraries may speak, and that no secret gets through. Must never decide what is
logged.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]

HIDDEN: Final = "***"

_QUIET_LOGGERS: Final = ("apscheduler", "uvicorn", "asyncio", "sqlalchemy", "grpc")
"""Libraries whose news below a warning repeats what the worker says in its own events."""

# A password in a URL ends at the last '@' before the path; in key/value text at a space or its closing quote.
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^\s:/@]*):[^\s/]*@")
_NAMED_PASSWORD: Final = re.compile(r"""\b((?:ssl)?password)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&'"]+)""", re.IGNORECASE)
_FIRST_FIELDS: Final = ("timestamp", "level", "event")
"""What a reader of lines looks for first."""

_SECRET_NAMES: Final = re.compile(r"password|secret|token|authorization|credential", re.IGNORECASE)


def configure_logging(
    *, level: LogLevel, form: LogFormat | None = None, instance: str = "", stream: TextIO | None = None
) -> None:
    """Send the events of this process, and what its libraries log, to `stream` (standard error).

    Args:
        level: the lowest level that is shown.
        form: None is ``console`` when the stream is a terminal, else ``json``.
        instance: name of this worker, put on every line; empty for none.
        stream: where to write; it is not closed.
    """
    stream = sys.stderr if stream is None else stream
    form = form or ("console" if stream.isatty() else "json")
    finish: list[Processor] = [structlog.processors.format_exc_info, redact, _render(form, colors=stream.isatty())]
    both: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Instance(instance),
    ]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*both, *finish],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*both, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    logging.captureWarnings(True)


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Return `event` without passwords: those in addresses, and the values of fields that are named like secrets."""
    return {name: _hidden(name, value) for name, value in event.items()}


def without_passwords(text: str) -> str:
    """Return `text` with the passwords of URLs and of libpq's key/value form replaced by ``***``."""
    if "://" in text:
        text = _URL_PASSWORD.sub(rf"\1:{HIDDEN}@", text)
    return _NAMED_PASSWORD.sub(rf"\1={HIDDEN}", text)


def _hidden(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name):
        return HIDDEN
    return _without_passwords(value)


def _without_passwords(value: Any) -> Any:
    if isinstance(value, str):
        return without_passwords(value)
    if isinstance(value, Mapping):
        return {key: _hidden(str(key), each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_passwords(each) for each in value]
    if isinstance(value, (bool, int, float, type(None), datetime, timedelta)):
        return value
    return without_passwords(str(value))  # an error or an address may hold one


class _Instance:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if self._name:
            event["instance"] = self._name
        return event


def _render(form: LogFormat, *, colors: bool) -> Processor:
    if form == "console":
        return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer(serializer=_json)


def _json(event: EventDict, **_options: Any) -> str:
    first = {name: event.pop(name) for name in _FIRST_FIELDS if name in event}
    return json.dumps({**first, **event}, default=_plain, ensure_ascii=False)


def _plain(value: object) -> str | float:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
