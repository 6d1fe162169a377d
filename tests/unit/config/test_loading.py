import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scheduler_worker.config import load_database_url, load_settings, load_with_origins
from scheduler_worker.domain.go_duration import format_go_duration
from scheduler_worker.errors import ConfigError

REQUIRED = {"SCHEDULER_DATABASE_URL": "postgresql://me:hunter2@db/flyte", "SCHEDULER_RUN_SERVICE_URL": "runs:8090"}


def faults_of(environ: Mapping[str, str], config_file: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        load_settings(environ, config_file)
    assert "hunter2" not in str(error.value)
    return error.value.faults


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_the_defaults_are_those_that_are_promised() -> None:
    settings = load_settings(REQUIRED)

    assert settings.database_url.get_secret_value() == "postgresql://me:hunter2@db/flyte"
    assert settings.run_service_url == "runs:8090"
    assert settings.http_listen == "127.0.0.1:8080"
    assert settings.org == ""
    assert settings.resync_interval == timedelta(seconds=30)
    assert settings.max_catchup_runs_per_loop == 100
    assert settings.execution_qps == 10.0
    assert settings.execution_burst == 20
    assert settings.max_calls_in_flight == 200
    assert settings.call_deadline == timedelta(seconds=30)
    assert settings.max_queued_fires == 200_000
    assert settings.catchup_policy == "all"
    assert settings.catchup_window is None
    assert settings.give_up_after == timedelta(hours=24)
    assert settings.shutdown_grace == timedelta(seconds=25)
    assert settings.notify is True
    assert settings.write_triggered_at is True
    assert settings.fire_without_database is True
    assert settings.unfired_retention == timedelta(days=30)
    assert settings.log_level == "info"
    assert settings.log_format is None
    assert re.fullmatch(r".+-\d+", settings.instance)


def test_every_setting_can_come_from_the_environment() -> None:
    settings = load_settings(
        REQUIRED
        | {
            "SCHEDULER_HTTP_LISTEN": "[::]:9090",
            "SCHEDULER_ORG": "acme",
            "SCHEDULER_RESYNC_INTERVAL": "1m30s",
            "SCHEDULER_MAX_CATCHUP_RUNS_PER_LOOP": "7",
            "SCHEDULER_EXECUTION_QPS": "0.25",
            "SCHEDULER_EXECUTION_BURST": "1",
            "SCHEDULER_MAX_CALLS_IN_FLIGHT": "3",
            "SCHEDULER_CALL_DEADLINE": "500ms",
            "SCHEDULER_MAX_QUEUED_FIRES": "10",
            "SCHEDULER_CATCHUP_POLICY": "Latest",
            "SCHEDULER_CATCHUP_WINDOW": "36h",
            "SCHEDULER_GIVE_UP_AFTER": "2h",
            "SCHEDULER_SHUTDOWN_GRACE": "0s",
            "SCHEDULER_NOTIFY": "false",
            "SCHEDULER_WRITE_TRIGGERED_AT": "no",
            "SCHEDULER_FIRE_WITHOUT_DATABASE": "0",
            "SCHEDULER_UNFIRED_RETENTION": "24h",
            "SCHEDULER_LOG_LEVEL": "DEBUG",
            "SCHEDULER_LOG_FORMAT": "console",
            "SCHEDULER_INSTANCE": "left",
        }
    )

    shown = settings.model_dump(exclude={"database_url", "run_service_url"})
    assert shown == {
        "http_listen": "[::]:9090",
        "org": "acme",
        "resync_interval": timedelta(seconds=90),
        "max_catchup_runs_per_loop": 7,
        "execution_qps": 0.25,
        "execution_burst": 1,
        "max_calls_in_flight": 3,
        "call_deadline": timedelta(milliseconds=500),
        "max_queued_fires": 10,
        "catchup_policy": "latest",
        "catchup_window": timedelta(hours=36),
        "give_up_after": timedelta(hours=2),
        "shutdown_grace": timedelta(),
        "notify": False,
        "write_triggered_at": False,
        "fire_without_database": False,
        "unfired_retention": timedelta(hours=24),
        "log_level": "debug",
        "log_format": "console",
        "instance": "left",
    }


def test_no_limit_is_written_as_a_word() -> None:
    settings = load_settings(
        REQUIRED | {"SCHEDULER_EXECUTION_QPS": "Unlimited", "SCHEDULER_CATCHUP_WINDOW": "unlimited"}
    )

    assert settings.execution_qps is None
    assert settings.catchup_window is None


def test_flytes_file_is_read_as_it_is(file: Path) -> None:
    file.write_text(
        """
        manager: {unknown: [to, us]}
        runs:
          server: {port: 8090}
          triggerscheduler:  # Flyte takes keys in any case
            resyncInterval: 45s
            maxCatchupRunsPerLoop: 50
            executionQps: 12.5
            executionBurst: 30
            newerKey: of a newer Flyte
        """
    )
    settings = load_settings(REQUIRED, file)

    assert settings.resync_interval == timedelta(seconds=45)
    assert settings.max_catchup_runs_per_loop == 50
    assert settings.execution_qps == 12.5
    assert settings.execution_burst == 30


def test_the_environment_beats_our_section_which_beats_flytes_keys(file: Path) -> None:
    file.write_text(
        """
        scheduler: {resync_interval: 2m, execution_burst: 2, org: 7, notify: off, catchup_policy: none}
        runs: {triggerScheduler: {resyncInterval: 3m, executionBurst: 3, executionQps: 3}}
        """
    )
    loaded = load_with_origins(REQUIRED | {"SCHEDULER_RESYNC_INTERVAL": "1m", "SCHEDULER_CONFIG_FILE": str(file)})

    settings = loaded.settings
    assert (settings.resync_interval, settings.execution_burst) == (timedelta(minutes=1), 2)
    assert (settings.execution_qps, settings.org, settings.notify) == (3.0, "7", False)
    assert settings.catchup_policy == "none"
    assert loaded.origins["resync_interval"] == "SCHEDULER_RESYNC_INTERVAL"
    assert loaded.origins["execution_burst"] == f"scheduler.execution_burst in {file}"
    assert loaded.origins["execution_qps"] == f"runs.triggerScheduler.executionQps in {file}"
    assert loaded.origins["call_deadline"] == "default"


def test_only_the_variables_that_are_given_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULER_ORG", "other")

    assert load_settings(REQUIRED).org == ""


def test_a_file_named_by_option_beats_the_variable(file: Path) -> None:
    file.write_text("scheduler: {org: acme}")

    assert load_settings(REQUIRED | {"SCHEDULER_CONFIG_FILE": "/nowhere"}, file).org == "acme"


def test_an_empty_variable_is_as_good_as_none(file: Path) -> None:
    file.write_text("scheduler: {org: acme, instance: null}")
    settings = load_settings(
        REQUIRED | {"SCHEDULER_ORG": "", "SCHEDULER_EXECUTION_QPS": " ", "SCHEDULER_DATABASE_URL_FILE": ""}, file
    )

    assert settings.org == "acme"
    assert settings.execution_qps == 10.0


def test_all_faults_are_reported_together(file: Path) -> None:
    file.write_text("scheduler: {call_deadline: 0s, catchup_polcy: all}\nruns: {triggerScheduler: {executionQps: 0}}")
    faults = faults_of(
        {
            "SCHEDULER_DATABASE_URL": "postgresql://me:hunter2@db:port/flyte",
            "SCHEDULER_RUN_SERVICE_URL": "runs",
            "SCHEDULER_RESYNC_INTERVAL": "30",
            "SCHEDULER_EXECUTION_BURST": "many",
            "SCHEDULER_NOTIFY": "si",
            "SCHEDULER_EXECUTION_BURTS": "3",
        },
        file,
    )

    assert sorted(fault.partition(":")[0] for fault in faults) == [
        "SCHEDULER_DATABASE_URL",
        "SCHEDULER_EXECUTION_BURST",
        "SCHEDULER_EXECUTION_BURTS",
        "SCHEDULER_NOTIFY",
        "SCHEDULER_RESYNC_INTERVAL",
        "SCHEDULER_RUN_SERVICE_URL",
        "runs.triggerScheduler.executionQps",
        "scheduler.call_deadline",
        "scheduler.catchup_polcy",
    ]


def test_what_is_required_is_asked_for() -> None:
    database, run_service = faults_of({})

    assert database.startswith("SCHEDULER_DATABASE_URL: missing; set it to postgresql://USER:PASSWORD@HOST:PORT/DATA")
    assert run_service == "SCHEDULER_RUN_SERVICE_URL: missing; set it, such as to flyte-binary:8090"


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("RESYNC_INTERVAL", "30", "'30' has no unit"),
        ("RESYNC_INTERVAL", "99ms", "'99ms' is too short; give at least 100ms"),
        ("RESYNC_INTERVAL", "-30s", "'-30s' is too short"),
        ("CALL_DEADLINE", "61m", "'61m' is too long; give at most 1h"),
        ("CALL_DEADLINE", "0s", "'0s' is too short"),
        ("GIVE_UP_AFTER", "1s", "1s is shorter than call_deadline (30s)"),
        ("CATCHUP_WINDOW", "29s", "29s is shorter than resync_interval (30s)"),
        ("CATCHUP_WINDOW", "none", "'none'"),
        ("EXECUTION_QPS", "0", "give a number above 0"),
        ("EXECUTION_QPS", "nan", "give a number above 0"),
        ("EXECUTION_QPS", "inf", "or unlimited"),
        ("EXECUTION_QPS", "fast", "'fast' can't be used; write a number"),
        ("EXECUTION_BURST", "0", "'0' can't be used; it should be greater than or equal to 1"),
        ("EXECUTION_BURST", "1.5", "write a whole number"),
        ("MAX_CATCHUP_RUNS_PER_LOOP", "0", "greater than or equal to 1"),
        ("CATCHUP_POLICY", "newest", "it should be 'all', 'latest' or 'none'"),
        ("NOTIFY", "si", "'si' can't be used; write true or false"),
        ("LOG_LEVEL", "loud", "it should be 'debug', 'info', 'warning' or 'error'"),
        ("HTTP_LISTEN", "8080", "'8080' is no address to listen on; write HOST:PORT"),
        ("RUN_SERVICE_URL", "grpc://runs:80", "unknown scheme 'grpc'"),
    ],
)
def test_a_fault_names_key_value_and_remedy(variable: str, text: str, words: str) -> None:
    (fault,) = faults_of(REQUIRED | {f"SCHEDULER_{variable}": text})

    assert fault.startswith(f"SCHEDULER_{variable}: ")
    assert words in fault


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("SCHEDULER_EXECUTION_BURTS", "did you mean SCHEDULER_EXECUTION_BURST?"),
        ("SCHEDULER_DATABASE_URI", "did you mean SCHEDULER_DATABASE_URL?"),
        ("SCHEDULER_QXZ", "scheduler-worker config list"),
        ("SCHEDULER_CONFIG_FILES", "did you mean SCHEDULER_CONFIG_FILE?"),
    ],
)
def test_an_unknown_variable_is_a_fault_with_a_hint(variable: str, hint: str) -> None:
    (fault,) = faults_of(REQUIRED | {variable: "hunter2"})

    assert fault.startswith(f"{variable}: no such setting; ")
    assert hint in fault


def test_the_variables_that_kubernetes_adds_are_not_ours() -> None:
    load_settings(
        REQUIRED
        | {
            "SCHEDULER_SERVICE_HOST": "10.0.0.1",
            "SCHEDULER_PORT": "tcp://10.0.0.1:8080",
            "SCHEDULER_WORKER_SERVICE_PORT_HTTP": "8080",
            "SCHEDULER_WORKER_PORT_8080_TCP_ADDR": "10.0.0.1",
            "OTHER_VARIABLE": "1",
        }
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1, 2", "not YAML from line 1 on"),
        ("a: 1\npassword: *hunter2", "not YAML from line 2 on"),
        ("a: !hunter2 1", "not YAML from line 1 on"),
        ("a: 2026-13-45", "impossible date"),
        ("- a\n- b", "a list stands where keys with values should"),
        ("scheduler: 5", "scheduler: a int stands where"),
        ("runs: {triggerScheduler: [1]}", "runs.triggerScheduler: a list stands where"),
        ("scheduler: {resync_interval: [1]}", "scheduler.resync_interval: '[1]' is no duration"),
        ("scheduler: {resync_interval: 30}", "scheduler.resync_interval: duration '30' has no unit"),
        ("scheduler: {execution_burst: true ish}", "write a whole number"),
    ],
)
def test_a_faulty_file_is_named_with_the_place(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    (fault,) = faults_of(REQUIRED, file)

    assert words in fault


def test_a_file_that_is_no_text_or_not_there_is_named(file: Path) -> None:
    assert "SCHEDULER_CONFIG_FILE: can't read" in faults_of(REQUIRED, file)[0]
    file.write_bytes(b"\xff\xfe")
    assert "not text in UTF-8" in faults_of(REQUIRED, file)[0]


def test_settings_are_frozen_and_show_no_secret() -> None:
    settings = load_settings(REQUIRED)

    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings)
    assert "hunter2" not in str(settings.model_dump(mode="json"))
    with pytest.raises(ValidationError):
        settings.org = "other"


def test_the_database_alone_can_be_asked_for() -> None:
    environ = {"SCHEDULER_DATABASE_URL": "host=db user=me", "SCHEDULER_CALL_DEADLINE": "wrong", "SCHEDULER_TYPO": "1"}

    assert load_database_url(environ) == "host=db user=me"
    with pytest.raises(ConfigError, match="SCHEDULER_DATABASE_URL: missing"):
        load_database_url({})


@given(st.timedeltas(min_value=timedelta(milliseconds=100), max_value=timedelta(days=36_500)))
def test_every_duration_is_read_as_it_is_written(duration: timedelta) -> None:
    settings = load_settings(REQUIRED | {"SCHEDULER_RESYNC_INTERVAL": format_go_duration(duration)})

    assert settings.resync_interval == duration


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    st.sampled_from(["RESYNC_INTERVAL", "EXECUTION_QPS", "NOTIFY", "HTTP_LISTEN", "RUN_SERVICE_URL", "CATCHUP_POLICY"]),
)
def test_whatever_a_value_is_a_fault_names_its_key(text: str, name: str) -> None:
    environ = REQUIRED | {f"SCHEDULER_{name}": text}
    faults: tuple[str, ...] = ()
    try:
        load_settings(environ)
    except ConfigError as error:
        faults = error.faults

    assert len(faults) <= 1
    assert all(fault.startswith(f"SCHEDULER_{name}: ") for fault in faults)
