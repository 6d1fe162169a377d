"""The mock Run Service's memory on disk: one JSON line per CreateRun.

Decides how a line looks and how the file is read back after a restart. A line is with the operating system before the
call is answered, so that no process that is killed takes an answered run out of the journal. Must never change a
whole line.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

CREATED = "created"
ALREADY_EXISTS = "already_exists"

_LINE_START = b'{"received_at": '


class RunKey(NamedTuple):
    """What must be unique among runs."""

    project: str
    domain: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One CreateRun as it was received, and what became of it.

    Attributes:
        received_at: aware, UTC.
        run_start_time: aware, UTC; None if the request had none.
        outcome: ``created``, ``already_exists``, or a gRPC code's name. A run whose answer was lost is ``created``.
    """

    received_at: datetime
    run_name: str
    project: str
    domain: str
    task_name: str
    trigger: str
    run_start_time: datetime | None
    outcome: str

    def as_line(self) -> bytes:
        """Return the entry as JSON with a line end; times as ISO 8601 in UTC with microseconds."""
        start = self.run_start_time
        fields = {
            "received_at": self.received_at.isoformat(timespec="microseconds"),
            "run_name": self.run_name,
            "project": self.project,
            "domain": self.domain,
            "task_name": self.task_name,
            "trigger": self.trigger,
            "run_start_time": None if start is None else start.isoformat(timespec="microseconds"),
            "outcome": self.outcome,
        }
        return json.dumps(fields).encode() + b"\n"


class Journal:
    """An append-only file of entries, created if it is not there.

    Raises:
        OSError: the file can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def created_runs(self) -> Iterator[RunKey]:
        """Yield the run of every ``created`` line that earlier processes left, and cut off a line torn by a kill.

        Raises:
            ValueError: a line is no journal entry; the message names file and line.
        """
        text = self._path.read_bytes()
        *lines, torn = text.split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                key = RunKey(entry["project"], entry["domain"], entry["run_name"])
                created = entry["outcome"] == CREATED
            except (ValueError, KeyError, TypeError) as fault:
                raise self._no_journal(number) from fault
            if created:
                yield key
        if torn:
            # The process died inside the write, thus before it answered: nobody relies on that line. But what never
            # was the start of a line belongs to somebody else.
            if torn[: len(_LINE_START)] != _LINE_START[: len(torn)]:
                raise self._no_journal(len(lines) + 1)
            os.ftruncate(self._descriptor, len(text) - len(torn))

    def append(self, entry: JournalEntry) -> None:
        """Write one line in one system call, so that lines never mix and none waits in this process."""
        os.write(self._descriptor, entry.as_line())

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _no_journal(self, line_number: int) -> ValueError:
        return ValueError(f"{self._path}, line {line_number}: no journal entry; name another file")
