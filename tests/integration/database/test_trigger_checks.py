"""The last look at triggers: what changed, and a connection that mends itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database import migrate
from scheduler_worker.database.trigger_checks import TriggerChecks
from scheduler_worker.embedded_postgres import EmbeddedPostgres
from scheduler_worker.errors import DatabaseUnavailableError

AddTrigger = Callable[..., Awaitable[int]]


@pytest.fixture
async def checks(database_url: str) -> AsyncIterator[TriggerChecks]:
    async with TriggerChecks(database_url) as made:
        yield made


async def test_what_is_newer_or_gone_is_stale(checks: TriggerChecks, add_trigger: AddTrigger) -> None:
    same = await add_trigger("same", latest_revision=3)
    newer = await add_trigger("newer", latest_revision=2)
    deleted = await add_trigger("deleted", latest_revision=2, deleted_at=datetime(2026, 3, 1, tzinfo=UTC))
    older = await add_trigger("older", latest_revision=1)
    known = {same: 3, newer: 1, deleted: 1, older: 2, 99: 1}
    assert sorted(await checks.stale(known)) == sorted([newer, deleted, 99])
    assert await checks.stale({}) == []


async def test_not_one_question_is_lost_when_its_session_was_ended(
    checks: TriggerChecks, add_trigger: AddTrigger, engine: AsyncEngine
) -> None:
    known = {await add_trigger(latest_revision=2): 1}
    assert await checks.stale(known) == list(known)
    for _ in range(5):  # whether the driver has noticed by then is chance
        async with engine.begin() as connection:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '% checks'"
            assert await connection.scalar(text(ended))
        assert await checks.stale(known) == list(known)


async def test_not_one_question_is_lost_when_the_server_was_restarted(own_postgres: EmbeddedPostgres) -> None:
    await migrate.upgrade(own_postgres.url())
    async with TriggerChecks(own_postgres.url()) as checks:
        assert await checks.stale({1: 1}) == [1]
        # Blocking, so that the event loop can't hear of it: as for a process that slept through the restart.
        own_postgres.stop()
        own_postgres.start()
        assert await checks.stale({1: 1}) == [1]


async def test_a_question_that_was_given_up_does_not_hold_up_the_next(
    checks: TriggerChecks, add_trigger: AddTrigger, engine: AsyncEngine
) -> None:
    known = {await add_trigger(): 1}
    assert await checks.stale(known) == []
    async with engine.begin() as connection:
        await connection.execute(text("LOCK TABLE triggers IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await checks.stale(known)
    assert await checks.stale(known) == []


async def test_a_database_that_is_away_is_said_to_be(own_postgres: EmbeddedPostgres) -> None:
    async with TriggerChecks(own_postgres.url()) as checks:
        await asyncio.to_thread(own_postgres.stop)
        with pytest.raises(DatabaseUnavailableError):
            await checks.stale({1: 1})
