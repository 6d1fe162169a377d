"""What the worker stands on while it is measured: a Postgres and mock Run Services, all started and ended here."""

import asyncio
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self

from benchmarks import fleet
from benchmarks.worker_process import COMMAND, WorkerProcess
from scheduler_worker.database import migrate
from scheduler_worker.domain.schedule import Rule
from scheduler_worker.embedded_postgres import EmbeddedPostgres
from scheduler_worker.run_service.mock_journal import CREATED

_MIGRATED = "migrated"


class Journal:
    """The journal of a running mock, read as it grows: whoever measures must not take much of the machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_through = 0
        self._created = 0

    def count(self) -> int:
        """Return the number of runs created so far, or since `clear`."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read_through)
                whole, line_end, _ = file.read().rpartition(b"\n")
            self._read_through += len(whole) + len(line_end)
            self._created += whole.count(f'"outcome": "{CREATED}"'.encode())
        return self._created

    def clear(self) -> None:
        """Forget what was written until now."""
        self.count()
        self._created = 0


class Stack:
    """One Postgres, a database of any number of triggers for each measurement, and mocks; use as ``with``."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="scheduler-worker-bench-"))
        # Postgres runs under another account when this process is root's.
        self._folder.chmod(0o755)
        self.postgres = EmbeddedPostgres(
            self._folder / "pg", durable=False, settings={"max_connections": "100", "shared_buffers": "512MB"}
        )
        self._numbers = itertools.count(1)
        self._filled: dict[int, str] = {}

    def __enter__(self) -> Self:
        try:
            self.postgres.start()
            self.postgres.create_database(_MIGRATED)
            asyncio.run(migrate.upgrade(self.postgres.url(_MIGRATED)))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.postgres.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def database(self, count: int = 0, rules: Sequence[Rule] = ()) -> Iterator[str]:
        """Make a database with `count` triggers of `rules`, by default a fleet at rest; its name is good inside."""
        name = f"bench_{next(self._numbers)}"
        template = _MIGRATED if rules or not count else self._fleet_at_rest(count)
        self.postgres.create_database(name, template, strategy="file_copy")
        try:
            if rules:
                fleet.insert(self.postgres, name, count, rules)
            self.postgres.execute("CHECKPOINT")
            yield name
        finally:
            self.postgres.drop_database(name)

    def _fleet_at_rest(self, count: int) -> str:
        if count not in self._filled:
            name = f"filled_{count}"
            self.postgres.create_database(name, _MIGRATED, strategy="file_copy")
            fleet.insert(self.postgres, name, count, fleet.mixed_schedules())
            self._filled[count] = name
        return self._filled[count]

    @contextmanager
    def mock(self) -> Iterator[tuple[str, Journal]]:
        """Start a mock Run Service; give its address and its journal."""
        path = self._folder / f"journal_{next(self._numbers)}"
        with subprocess.Popen(
            [COMMAND, "mock-run-service", "--listen", "127.0.0.1:0", "--journal", str(path)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().split()[-1], Journal(path)
            finally:
                process.terminate()
        path.unlink(missing_ok=True)

    @contextmanager
    def worker(self, database: str, mock: str, *, probed: bool = False, **settings: str) -> Iterator[WorkerProcess]:
        """Start a worker as a process of its own; `settings` by their names."""
        log = self._folder / f"worker_{next(self._numbers)}.log"
        worker = WorkerProcess(
            {"database_url": self.postgres.url(database), "run_service_url": mock, **settings}, log, probed=probed
        )
        try:
            yield worker
        finally:
            worker.stop()
            log.unlink(missing_ok=True)

    def marks(self, database: str) -> int:
        """Return of how many triggers the worker has written progress. A look takes Postgres some milliseconds."""
        return int(self.postgres.execute("SELECT count(*) FROM scheduler_progress", database))

    def latenesses_ms(self, database: str, fire_time: datetime | None = None) -> list[float]:
        """Return what the worker wrote down of each trigger's last fire, of one fire time or of all."""
        where = "" if fire_time is None else f" WHERE last_fire_time = '{fire_time.isoformat()}'"
        lines = self.postgres.execute(f"SELECT last_lateness_ms FROM scheduler_progress{where}", database)
        return [float(line) for line in lines.split()]
