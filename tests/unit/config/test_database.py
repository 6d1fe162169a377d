from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_worker.config import load_database_url
from scheduler_worker.config.database import DatabaseSource
from scheduler_worker.config.sources import Given
from scheduler_worker.domain.database_url import DatabaseUrl, parse_database_url
from scheduler_worker.errors import ConfigError

SECRET = "hun'ter2 @://%\\é"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return path


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def loaded(environ: dict[str, str], config_file: Path | None = None) -> DatabaseUrl:
    return parse_database_url(load_database_url(environ, config_file))


def fault_of(environ: dict[str, str], config_file: Path | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        load_database_url(environ, config_file)
    (fault,) = error.value.faults
    assert "hunter2" not in fault
    return fault


def write(path: Path, **document: Any) -> None:
    path.write_text(yaml.safe_dump(document))


def test_an_address_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("postgresql://me:hunter2@db/flyte\n")

    assert load_database_url({"SCHEDULER_DATABASE_URL_FILE": str(path)}) == "postgresql://me:hunter2@db/flyte"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me@db/flyte",
        "postgresql://me@db/flyte?sslmode=disable",
        "host=db user=me dbname=flyte",
        "host=db user=me dbname=flyte application_name=a://b",
    ],
)
def test_a_password_from_a_file_joins_the_address(address: str, secret_file: Path) -> None:
    environ = {"SCHEDULER_DATABASE_URL": address, "SCHEDULER_DATABASE_PASSWORD_FILE": str(secret_file)}
    url = loaded(environ)

    assert url.password == SECRET
    assert (url.hosts, url.user, url.database) == (("db",), "me", "flyte")


def test_flytes_section_is_read(config_file: Path) -> None:
    postgres = {
        "host": "db",
        "port": 5433,
        "dbname": "fly te",
        "username": "me",
        "password": SECRET,
        "options": "sslmode=disable application_name=flyte",
    }
    write(config_file, runs={"database": {"postgres": postgres}})
    url = loaded({}, config_file)

    assert (url.hosts, url.ports, url.database, url.user) == (("db",), (5433,), "fly te", "me")
    assert url.password == SECRET
    assert url.tls == {"sslmode": "disable"}


def test_flytes_password_path_counts_more_than_its_password(config_file: Path, secret_file: Path) -> None:
    postgres = {"host": "db", "password": "old", "passwordPath": str(secret_file)}
    write(config_file, runs={"database": {"postgres": postgres}})

    assert loaded({}, config_file).password == SECRET


def test_sources_count_in_order_and_those_that_do_not_count_are_not_opened(
    config_file: Path, secret_file: Path
) -> None:
    flyte = {"database": {"postgres": {"host": "flyte", "passwordPath": "/nowhere"}}}
    write(config_file, scheduler={"database_url": "host=own", "database_password_file": str(secret_file)}, runs=flyte)

    own = loaded({}, config_file)
    assert (own.hosts, own.password) == (("own",), SECRET)
    environment = loaded({"SCHEDULER_DATABASE_URL": "host=env"}, config_file)
    assert (environment.hosts, environment.password) == (("env",), None)


def test_a_password_file_of_the_environment_replaces_the_files_password(config_file: Path, secret_file: Path) -> None:
    write(config_file, runs={"database": {"postgres": {"host": "db", "password": "old"}}})
    url = loaded({"SCHEDULER_DATABASE_PASSWORD_FILE": str(secret_file)}, config_file)

    assert (url.hosts, url.password) == (("db",), SECRET)


def test_two_addresses_or_two_passwords_of_one_source_are_a_fault(secret_file: Path) -> None:
    url = {"SCHEDULER_DATABASE_URL": "postgresql://me:hunter2@db/flyte"}

    assert "SCHEDULER_DATABASE_URL_FILE is set as well" in fault_of(url | {"SCHEDULER_DATABASE_URL_FILE": "x"})
    fault = fault_of(url | {"SCHEDULER_DATABASE_PASSWORD_FILE": str(secret_file)})
    assert fault.startswith("SCHEDULER_DATABASE_PASSWORD_FILE: SCHEDULER_DATABASE_URL holds a password already")


def test_a_secret_that_can_not_be_read_is_named_with_its_path(tmp_path: Path) -> None:
    missing, empty, binary = tmp_path / "missing", tmp_path / "empty", tmp_path / "binary"
    empty.write_text("\n")
    binary.write_bytes(b"\xff")

    for path, words in ((missing, "No such file"), (empty, "is empty"), (binary, "UTF-8"), (tmp_path, "directory")):
        fault = fault_of({"SCHEDULER_DATABASE_URL_FILE": str(path)})
        assert fault.startswith("SCHEDULER_DATABASE_URL_FILE: ")
        assert str(path) in fault
        assert words in fault


def test_a_password_file_that_can_not_be_read_is_a_fault(config_file: Path) -> None:
    write(config_file, runs={"database": {"postgres": {"host": "db", "passwordPath": "/nowhere"}}})

    assert fault_of({}, config_file).startswith("runs.database.postgres.passwordPath: can't read '/nowhere'")
    fault = fault_of({"SCHEDULER_DATABASE_URL": "host=db", "SCHEDULER_DATABASE_PASSWORD_FILE": "/nowhere"})
    assert fault.startswith("SCHEDULER_DATABASE_PASSWORD_FILE: can't read '/nowhere'")


def test_a_faulty_address_is_named_by_the_key_it_stands_under(config_file: Path) -> None:
    write(config_file, runs={"database": {"postgres": {"host": "db", "port": "x", "password": "hunter2"}}})

    assert fault_of({}, config_file).startswith("runs.database.postgres: port: ")
    assert fault_of({"SCHEDULER_DATABASE_URL": "mysql://me:hunter2@db"}).startswith("SCHEDULER_DATABASE_URL: ")


def test_flytes_section_needs_a_host(config_file: Path) -> None:
    write(config_file, runs={"database": {"postgres": {"dbname": "flyte"}}})

    assert fault_of({}, config_file).startswith("runs.database.postgres.host: missing")


def test_a_given_value_keeps_its_secret() -> None:
    assert "hunter2" not in repr(Given("SCHEDULER_DATABASE_URL", "hunter2", 0))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
@example("hunter2://")
def test_every_password_survives_flytes_section(password: str) -> None:
    source = DatabaseSource([], Given("runs.database.postgres", {"host": "db", "password": password}, 2))

    assert source.faults == ()
    assert parse_database_url(source.url).password == password
