"""Notifications: what the hooks send, bursts, and broken connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.notifications import Notifications
from scheduler_worker.database.progress_store import ProgressStore, ProgressUpdate
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.embedded_postgres import EmbeddedPostgres
from scheduler_worker.errors import DatabaseUnavailableError

AddTrigger = Callable[..., Awaitable[int]]
Changes = asyncio.Queue[frozenset[int] | None]

MANY = (
    "INSERT INTO triggers (project, domain, task_name, name, spec, task_version, active, automation_type,"
    " deployed_at, updated_at)"
    " SELECT 'p', 'd', 't', 'n' || i, 'x', 'v', true, 'TYPE_SCHEDULE', now(), now() FROM generate_series({}, {}) AS i"
)


async def get(changes: Changes) -> frozenset[int] | None:
    return await asyncio.wait_for(changes.get(), 10)


def fail(error: DatabaseUnavailableError) -> None:
    raise AssertionError from error


@pytest.fixture
async def changes(database_url: str) -> AsyncIterator[Changes]:
    queue: Changes = asyncio.Queue()
    listening = asyncio.create_task(Notifications(database_url).run(queue.put_nowait, on_fault=fail))
    assert await get(queue) is None  # nothing is known of the time before the connection
    yield queue
    listening.cancel()
    await asyncio.wait({listening})


async def execute(engine: AsyncEngine, statement: str) -> None:
    async with engine.begin() as connection:
        await connection.execute(sa.text(statement))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE triggers SET latest_revision = latest_revision + 1",
        "UPDATE triggers SET active = false",
        "UPDATE triggers SET deleted_at = now()",
        "UPDATE triggers SET automation_type = 'TYPE_NONE'",
        "UPDATE triggers SET automation_spec = 'other'",
        "DELETE FROM triggers",
    ],
)
async def test_what_concerns_the_worker_is_told(
    engine: AsyncEngine, add_trigger: AddTrigger, changes: Changes, change: str
) -> None:
    id_ = await add_trigger()
    assert await get(changes) == frozenset({id_})
    await execute(engine, change)
    assert await get(changes) == frozenset({id_})


async def test_what_does_not_is_not(engine: AsyncEngine, add_trigger: AddTrigger, changes: Changes) -> None:
    await add_trigger("other", automation_type="TYPE_NONE")
    id_ = await add_trigger("one")
    assert await get(changes) == frozenset({id_})
    await execute(engine, "UPDATE triggers SET triggered_at = now(), updated_by = 'somebody'")
    now = await TriggerStore(engine).clock()
    update = ProgressUpdate(trigger_id=id_, confirmed_through=now, revision=1, last_fire_time=now)
    await ProgressStore(engine).write([update], touch_triggered_at=True)
    second = await add_trigger("second")
    assert await get(changes) == frozenset({second})


async def test_a_burst_is_told_once(engine: AsyncEngine, changes: Changes) -> None:
    await execute(engine, MANY.format(1, 1))
    assert await get(changes) == frozenset({1})
    async with engine.begin() as connection:
        for number in range(10):
            await connection.execute(sa.text(f"UPDATE triggers SET latest_revision = {number + 2}"))
        await connection.execute(sa.text(MANY.format(2, 5)))
    assert await get(changes) == frozenset({1, 2, 3, 4, 5})


async def test_hundreds_of_changes_are_told_by_id_and_very_many_as_all(engine: AsyncEngine, changes: Changes) -> None:
    await execute(engine, "SELECT setval('triggers_id_seq', 1000000000000000000)")
    await execute(engine, MANY.format(1, 500))
    ids = await get(changes)
    assert ids is not None
    assert len(ids) == 500
    await execute(engine, "DELETE FROM triggers")
    await execute(engine, MANY.format(1, 501))
    # The deletion of 500 may still be a burst of its own.
    while (ids := await get(changes)) is not None:
        assert len(ids) == 500


async def test_a_stranger_on_the_channel_makes_it_look_at_everything(engine: AsyncEngine, changes: Changes) -> None:
    await execute(engine, "NOTIFY scheduler_triggers, 'hello'")
    assert await get(changes) is None


async def test_after_a_restart_anything_may_have_changed(own_postgres: EmbeddedPostgres) -> None:
    changes: Changes = asyncio.Queue()
    faults: asyncio.Queue[DatabaseUnavailableError] = asyncio.Queue()
    notifications = Notifications(own_postgres.url(), jitter=lambda: 0.0)
    listening = asyncio.create_task(notifications.run(changes.put_nowait, on_fault=faults.put_nowait))
    assert await get(changes) is None
    await asyncio.to_thread(own_postgres.kill)
    assert isinstance(await asyncio.wait_for(faults.get(), 10), DatabaseUnavailableError)
    await asyncio.to_thread(own_postgres.start)
    assert await get(changes) is None
    listening.cancel()
    await asyncio.wait({listening})
