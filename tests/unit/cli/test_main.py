import json
import subprocess
import sys

import pytest
import typer

from scheduler_worker.cli import main
from scheduler_worker.errors import ConfigError, RunServiceError, ScheduleError

HEAVY = ["grpc", "sqlalchemy", "asyncpg", "alembic", "apscheduler", "uvicorn", "starlette", "prometheus_client"]


def exit_code(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as exit_info:
        main.run(arguments)
    return exit_info.value.code


def command_that(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command `next` end with `error`."""
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr("scheduler_worker.cli.next.app", app)


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(name, "--help") == 0

    shown = capsys.readouterr().out
    assert f"Usage: scheduler-worker {name}" in shown


def test_the_program_lists_its_commands_without_loading_them() -> None:
    script = (
        "import sys, json\n"
        "from scheduler_worker.cli import main\n"
        "try: main.run(['--help'])\n"
        "except SystemExit as end: assert not end.code\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    loaded = json.loads(out.splitlines()[-1])
    assert all(name in out for name in main.COMMANDS)
    assert [name for name in loaded if name.startswith("scheduler_worker.cli.")] == ["scheduler_worker.cli.main"]


def test_next_loads_no_heavy_library() -> None:
    script = (
        "import sys\n"
        "from scheduler_worker.cli import main\n"
        "try: main.run(['next', '0 0 * * *', '--json'])\n"
        "except SystemExit as end: assert not end.code\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stderr.split() == []
    assert json.loads(done.stdout)


def test_the_release_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out.startswith("scheduler-worker ")


def test_an_unknown_command_is_bad_input_and_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("migrat") == main.EXIT_BAD_INPUT
    assert "migrate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (RunServiceError("UNAVAILABLE", "away"), main.EXIT_FAILED, "Error: UNAVAILABLE: away\n"),
        (ScheduleError("no such zone"), main.EXIT_BAD_INPUT, "Error: no such zone\n"),
        (ConfigError(["A: is wrong"]), main.EXIT_BAD_INPUT, "Error: A: is wrong\n"),
        (
            ConfigError(["A: is wrong", "B: too"]),
            main.EXIT_BAD_INPUT,
            "Error: 2 faults in the settings\n  - A: is wrong\n  - B: too\n",
        ),
    ],
)
def test_an_error_of_ours_is_a_message_without_a_traceback(
    error: Exception, code: int, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command_that(error, monkeypatch)

    assert exit_code("next") == code
    assert capsys.readouterr().err == shown


def test_an_interrupt_has_the_exit_code_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(KeyboardInterrupt(), monkeypatch)

    assert exit_code("next") == 130


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(ZeroDivisionError("ours"), monkeypatch)

    with pytest.raises(ZeroDivisionError):
        main.run(["next"])


def test_a_reader_that_goes_away_gets_no_complaint() -> None:
    command = f"{sys.executable} -c 'from scheduler_worker.cli.main import main; main()' --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert done.stderr == ""
