"""Reading trigger rows: pages and history."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database import trigger_store
from scheduler_worker.database.progress_store import ProgressStore, ProgressUpdate
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.domain.trigger import TriggerKey

T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AddTrigger = Callable[..., Awaitable[int]]


@pytest.fixture
def store(engine: AsyncEngine) -> TriggerStore:
    return TriggerStore(engine)


@pytest.fixture
def confirm(engine: AsyncEngine) -> Callable[[int, datetime], Awaitable[None]]:
    async def confirm(trigger_id: int, through: datetime) -> None:
        update = ProgressUpdate(trigger_id=trigger_id, confirmed_through=through, revision=1)
        await ProgressStore(engine).write([update], touch_triggered_at=False)

    return confirm


async def add_many(engine: AsyncEngine, number: int) -> None:
    statement = sa.text(
        "INSERT INTO triggers (project, domain, task_name, name, spec, task_version, active, automation_type,"
        " deployed_at, updated_at)"
        " SELECT 'p', 'd', 't', 'n' || i, 'x', 'v', true, 'TYPE_SCHEDULE', now(), now()"
        " FROM generate_series(1, :n) AS i"
    )
    async with engine.begin() as connection:
        await connection.execute(statement, {"n": number})


async def add_revision(engine: AsyncEngine, number: int, at: datetime, **columns: object) -> None:
    row = {
        "project": "shop",
        "domain": "production",
        "task_name": "report",
        "name": "nightly",
        "revision": number,
        "spec": b"spec",
        "automation_spec": f"automation {number}".encode(),
        "task_version": "v1",
        "active": True,
        "automation_type": "TYPE_SCHEDULE",
        "deployed_at": at,
        "updated_at": T0,
        "action": "TRIGGER_REVISION_ACTION_DEPLOY",
        **columns,
    }
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    async with engine.begin() as connection:
        await connection.execute(sa.text(f"INSERT INTO trigger_revisions ({names}) VALUES ({values})"), row)


async def test_the_clock_is_the_databases_and_aware(store: TriggerStore) -> None:
    first, second = await store.clock(), await store.clock()
    assert first.tzinfo is not None
    assert first < second


async def revisions_of(store: TriggerStore) -> list[list[tuple[int, int]]]:
    """Return the parts in which the revisions come."""
    parts: list[list[tuple[int, int]]] = []
    await store.revisions(lambda pairs: parts.append(list(pairs)))
    return parts


async def test_revisions_come_in_parts_without_a_limit(store: TriggerStore, engine: AsyncEngine) -> None:
    await add_many(engine, 50_001)
    parts = await revisions_of(store)
    assert len(parts) > 1
    assert max(map(len, parts)) < 25_000
    assert sorted(pair for part in parts for pair in part) == [(id_, 1) for id_ in range(1, 50_002)]


async def test_large_numbers_come_as_they_are(store: TriggerStore, add_trigger: AddTrigger) -> None:
    id_ = await add_trigger("old", id=2**62 + 3, latest_revision=2**61 + 5)
    assert [pair for part in await revisions_of(store) for pair in part] == [(id_, 2**61 + 5)]


async def test_only_active_schedule_triggers_are_listed(store: TriggerStore, add_trigger: AddTrigger) -> None:
    listed = await add_trigger("listed", latest_revision=7)
    await add_trigger("paused", active=False)
    await add_trigger("deleted", deleted_at=T0)
    await add_trigger("artifact", automation_type="TYPE_ARTIFACT")
    assert [pair for part in await revisions_of(store) for pair in part] == [(listed, 7)]
    assert [[row.id for row in page] async for page in store.active_rows()] == [[listed]]


async def test_no_trigger_makes_no_page(store: TriggerStore) -> None:
    assert not any(await revisions_of(store))
    assert [page async for page in store.active_rows()] == []


async def test_a_row_is_read_whole(
    store: TriggerStore, add_trigger: AddTrigger, confirm: Callable[[int, datetime], Awaitable[None]]
) -> None:
    id_ = await add_trigger(
        "nightly", latest_revision=3, updated_at=T0 + MINUTE, triggered_at=T0 + 2 * MINUTE, spec=b"\x00\xff"
    )
    await confirm(id_, T0 + 3 * MINUTE)
    (row,) = await store.rows_by_id([id_])
    assert row.key == TriggerKey("shop", "production", "report", "nightly")
    assert (row.revision, row.spec, row.automation_spec) == (3, b"\x00\xff", b"automation")
    assert (row.deployed_at, row.updated_at, row.triggered_at) == (T0, T0 + MINUTE, T0 + 2 * MINUTE)
    assert (row.active, row.automation_type, row.deleted_at) == (True, "TYPE_SCHEDULE", None)
    assert row.confirmed_through == T0 + 3 * MINUTE
    assert row.confirmed_through.tzinfo is not None


async def test_a_mark_counts_up_to_the_first_edit_that_its_writer_did_not_know(
    store: TriggerStore,
    engine: AsyncEngine,
    add_trigger: AddTrigger,
    confirm: Callable[[int, datetime], Awaitable[None]],
) -> None:
    id_ = await add_trigger("nightly", latest_revision=3, deployed_at=T0 + 8 * MINUTE)
    await add_revision(engine, 1, T0)
    await add_revision(engine, 2, T0 + 4 * MINUTE)
    await add_revision(engine, 3, T0 + 8 * MINUTE)
    await confirm(id_, T0 + 3 * MINUTE)
    assert [row.confirmed_through for row in await store.rows_by_id([id_])] == [T0 + 3 * MINUTE]
    await confirm(id_, T0 + 10 * MINUTE)
    assert [row.confirmed_through for row in await store.rows_by_id([id_])] == [T0 + 4 * MINUTE]
    assert [[row.confirmed_through for row in page] async for page in store.active_rows()] == [[T0 + 4 * MINUTE]]


async def test_an_edit_that_moved_no_time_leaves_the_mark_where_it_is(
    store: TriggerStore,
    engine: AsyncEngine,
    add_trigger: AddTrigger,
    confirm: Callable[[int, datetime], Awaitable[None]],
) -> None:
    id_ = await add_trigger("nightly", latest_revision=2)
    await add_revision(engine, 1, T0)
    await add_revision(engine, 2, T0)
    await confirm(id_, T0 + 10 * MINUTE)
    assert [row.confirmed_through for row in await store.rows_by_id([id_])] == [T0 + 10 * MINUTE]


async def test_rows_come_by_key_and_by_id_in_any_state(store: TriggerStore, add_trigger: AddTrigger) -> None:
    one = await add_trigger("one", active=False, deleted_at=T0)
    two = await add_trigger("two")
    assert [row.id for row in await store.rows_by_id([two, one, 99])] == [one, two]
    keys = [TriggerKey("shop", "production", "report", name) for name in ("two", "missing")]
    assert [row.id for row in await store.rows_by_key(keys)] == [two]
    assert await store.rows_by_id([]) == []
    assert await store.rows_by_key([]) == []


async def test_pages_of_rows_stay_small_when_specs_are_large(
    store: TriggerStore, add_trigger: AddTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_store, "BYTES_PER_PAGE", 1_000)
    sizes = [600, 600, 600, 5_000, 100]
    ids = [await add_trigger(f"t{number}", spec=b"x" * size) for number, size in enumerate(sizes)]
    pages = [[row.id for row in page] async for page in store.active_rows()]
    assert pages == [ids[:2], ids[2:4], ids[4:]]


@pytest.mark.parametrize(
    ("since_minutes", "numbers"),
    [(0, [1, 2, 3, 4]), (5, [1, 2, 3, 4]), (10, [2, 3, 4]), (25, [3, 4]), (99, [4]), (-5, [1, 2, 3, 4])],
)
async def test_history_begins_with_the_revision_in_force(
    store: TriggerStore, engine: AsyncEngine, since_minutes: int, numbers: list[int]
) -> None:
    await add_revision(engine, 1, T0)
    await add_revision(engine, 2, T0 + 10 * MINUTE)
    await add_revision(engine, 3, T0 + 10 * MINUTE, active=False, updated_at=T0 + 20 * MINUTE)
    await add_revision(engine, 4, T0 + 10 * MINUTE, active=False, deleted_at=T0 + 30 * MINUTE)
    key = TriggerKey("shop", "production", "report", "nightly")
    unknown = TriggerKey("shop", "production", "report", "unknown")
    history = await store.history({key: T0 + since_minutes * MINUTE, unknown: T0})
    assert list(history) == [key]
    assert [row.revision for row in history[key]] == numbers
    newest = history[key][-1]
    assert (newest.automation_spec, newest.active) == (b"automation 4", False)
    assert newest.deleted_at == T0 + 30 * MINUTE


async def test_history_of_nothing_is_empty(store: TriggerStore) -> None:
    assert await store.history({}) == {}


async def test_ended_triggers_with_something_unconfirmed(
    store: TriggerStore, add_trigger: AddTrigger, confirm: Callable[[int, datetime], Awaitable[None]]
) -> None:
    paused = await add_trigger("paused", active=False, updated_at=T0 + 10 * MINUTE)
    deleted = await add_trigger("deleted", active=False, deleted_at=T0 + 10 * MINUTE)
    retyped = await add_trigger("retyped", automation_type="TYPE_NONE", deployed_at=T0 + 10 * MINUTE, latest_revision=2)
    settled = await add_trigger("settled", active=False, updated_at=T0 + 10 * MINUTE)
    unknown = await add_trigger("unknown", active=False, updated_at=T0 + 10 * MINUTE)
    await add_trigger("never a schedule", automation_type="TYPE_NONE", deployed_at=T0 + 10 * MINUTE)
    active = await add_trigger("active", updated_at=T0 + 10 * MINUTE)
    for id_ in (paused, deleted, retyped, active):
        await confirm(id_, T0 + 5 * MINUTE)
    await confirm(settled, T0 + 10 * MINUTE)
    assert [row.id for row in await store.ended(None)] == [paused, deleted, retyped]
    assert [row.id for row in await store.ended(T0 + 9 * MINUTE)] == [paused, deleted, retyped, unknown]
    assert [row.id for row in await store.ended(T0 + 10 * MINUTE)] == [paused, deleted, retyped]
