"""Migrations up, down and up again, on a database of one's own and on Flyte's."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from scheduler_worker.database import migrate
from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.migrate import VERSION_TABLE, Hooks, is_ours
from scheduler_worker.database.tables import metadata
from scheduler_worker.errors import ConfigError, DatabaseUnavailableError, MigrationError

HEAD = "0002"
OURS = {"scheduler_progress", "scheduler_unfired"}
FLYTES = {"triggers", "trigger_revisions"}
STATE = (
    "spec bytea NOT NULL, automation_spec bytea, task_version text NOT NULL, active boolean NOT NULL,"
    " automation_type text NOT NULL DEFAULT 'TYPE_NONE', deployed_by text, updated_by text,"
    " deployed_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, triggered_at timestamptz,"
    " deleted_at timestamptz"
)
FLYTE_TRIGGERS = (
    "CREATE TABLE triggers (id bigserial PRIMARY KEY, project text NOT NULL, domain text NOT NULL,"
    f" task_name text NOT NULL, name text NOT NULL, latest_revision bigint NOT NULL DEFAULT 1, {STATE},"
    " description text, extra text, UNIQUE (project, domain, task_name, name))"
)
FLYTE_REVISIONS = (
    "CREATE TABLE trigger_revisions (project text, domain text, task_name text, name text, revision bigint,"
    f" {STATE}, action text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),"
    " PRIMARY KEY (project, domain, task_name, name, revision))"
)
FLYTE_SCHEMA = (
    FLYTE_TRIGGERS,
    FLYTE_REVISIONS,
    "CREATE TABLE alembic_version (version_num text)",
    "INSERT INTO alembic_version VALUES ('flyte''s own')",
)


async def on(url: str, work: Callable[[sa.Connection], Any]) -> Any:
    engine = create_engine(url)
    async with engine.begin() as connection:
        result = await connection.run_sync(work)
    await engine.dispose()
    return result


async def execute(url: str, *statements: str) -> None:
    await on(url, lambda connection: [connection.execute(sa.text(statement)) for statement in statements])


async def tables(url: str) -> set[str]:
    return set(await on(url, lambda connection: sa.inspect(connection).get_table_names()))


def differences(connection: sa.Connection) -> Any:
    options = {"include_name": is_ours, "compare_type": True, "compare_server_default": True}
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


async def test_up_down_and_up_again(empty_database_url: str) -> None:
    url = empty_database_url
    assert await migrate.pending(url) == ("0001", HEAD)
    first = await migrate.upgrade(url)
    assert (first.revision, first.applied, first.pending, first.hooks) == (HEAD, ("0001", HEAD), (), Hooks.ON)
    assert await tables(url) == OURS | FLYTES | {VERSION_TABLE}
    again = await migrate.upgrade(url)
    assert (again.revision, again.applied) == (HEAD, ())
    half = await migrate.downgrade(url, "0001")
    assert (half.revision, half.pending, half.hooks) == ("0001", (HEAD,), Hooks.OFF)
    assert (await migrate.downgrade(url, "base")).revision is None
    assert await tables(url) == {VERSION_TABLE}
    assert (await migrate.upgrade(url)).applied == ("0001", HEAD)
    assert await on(url, differences) == []


async def test_the_migrated_form_is_the_declared_one(database_url: str) -> None:
    assert await on(database_url, differences) == []


def test_the_alembic_command_line_finds_no_difference_either(database_url: str) -> None:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "SCHEDULER_DATABASE_URL": database_url}
    command = [sys.executable, "-m", "alembic", "check"]
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert "No new upgrade operations detected" in result.stdout, result.stderr


async def test_flytes_tables_are_used_and_never_dropped(empty_database_url: str) -> None:
    url = empty_database_url
    await execute(url, *FLYTE_SCHEMA)
    assert (await migrate.upgrade(url)).hooks is Hooks.ON
    assert await tables(url) == OURS | FLYTES | {VERSION_TABLE, "alembic_version"}
    await migrate.downgrade(url, "base")
    assert await tables(url) == FLYTES | {VERSION_TABLE, "alembic_version"}
    columns = await on(url, lambda connection: sa.inspect(connection).get_columns("triggers"))
    assert "extra" in {column["name"] for column in columns}


async def test_a_table_that_only_looks_like_flytes_is_refused(empty_database_url: str) -> None:
    await execute(empty_database_url, "CREATE TABLE triggers (id bigserial PRIMARY KEY, project text)")
    with pytest.raises(MigrationError, match=r"triggers exists but lacks active, automation_spec.*database of its own"):
        await migrate.upgrade(empty_database_url)
    assert await tables(empty_database_url) == {"triggers"}


async def test_notifications_are_a_choice_that_can_be_changed(empty_database_url: str) -> None:
    url = empty_database_url
    assert (await migrate.upgrade(url, notify=False)).hooks is Hooks.OFF
    assert (await migrate.current(url)).hooks is Hooks.OFF
    assert (await migrate.upgrade(url)).hooks is Hooks.ON
    assert (await migrate.current(url)).hooks is Hooks.ON
    assert (await migrate.upgrade(url, notify=False)).hooks is Hooks.OFF
    assert (await migrate.current(url)).hooks is Hooks.OFF


async def test_without_the_right_to_hook_flytes_table_the_rest_is_done(empty_database_url: str) -> None:
    url = empty_database_url
    database = url.partition("?")[0].rpartition("/")[2]
    await execute(
        url,
        *FLYTE_SCHEMA,
        "DROP ROLE IF EXISTS worker",
        "CREATE ROLE worker LOGIN",
        f'GRANT CREATE ON DATABASE "{database}" TO worker',
        "GRANT CREATE, USAGE ON SCHEMA public TO worker",
        "GRANT SELECT, UPDATE ON triggers, trigger_revisions TO worker",
    )
    state = await migrate.upgrade(url.replace("postgres@", "worker@"))
    assert (state.revision, state.hooks) == (HEAD, Hooks.NOT_PERMITTED)
    await execute(url, "GRANT TRIGGER ON triggers TO worker")
    assert (await migrate.upgrade(url.replace("postgres@", "worker@"))).hooks is Hooks.ON
    await execute(url, "DROP OWNED BY worker CASCADE", "DROP ROLE worker")


async def test_runs_at_the_same_time_take_turns(empty_database_url: str) -> None:
    states = await asyncio.gather(*(migrate.upgrade(empty_database_url) for _ in range(4)))
    assert sorted(state.applied for state in states) == [(), (), (), ("0001", HEAD)]


async def test_an_unknown_revision_is_named(empty_database_url: str, database_url: str) -> None:
    with pytest.raises(MigrationError, match="nonsense"):
        await migrate.upgrade(empty_database_url, "nonsense")
    await execute(database_url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(MigrationError, match=r"'9999', which this version does not know.*newer"):
        await migrate.current(database_url)


async def test_faults_of_address_and_connection() -> None:
    with pytest.raises(ConfigError, match="database_url"):
        await migrate.upgrade("mysql://host/db")
    with pytest.raises(DatabaseUnavailableError):
        await migrate.current("postgresql:///db?host=/nowhere")
