"""Progress, unfired fires, and both at once."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.progress_store import ProgressStore, ProgressUpdate
from scheduler_worker.database.settlement_store import SettlementStore
from scheduler_worker.database.trigger_store import TriggerStore
from scheduler_worker.database.unfired_store import UnfiredFilter, UnfiredFire, UnfiredStore
from scheduler_worker.domain.trigger import TriggerKey

T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = TriggerKey("shop", "production", "report", "nightly")
AddTrigger = Callable[..., Awaitable[int]]


@pytest.fixture
def progress(engine: AsyncEngine) -> ProgressStore:
    return ProgressStore(engine)


@pytest.fixture
def unfired(engine: AsyncEngine) -> UnfiredStore:
    return UnfiredStore(engine)


def update(trigger_id: int, minutes: int, fired_minutes: int | None = None) -> ProgressUpdate:
    plain = ProgressUpdate(trigger_id=trigger_id, confirmed_through=T0 + minutes * MINUTE, revision=1)
    if fired_minutes is None:
        return plain
    return replace(
        plain,
        last_fire_time=T0 + fired_minutes * MINUTE,
        last_run_name=f"r{fired_minutes}",
        last_outcome="created",
        last_lateness_ms=1.5,
    )


def fire(trigger_id: int, minutes: int, **values: object) -> UnfiredFire:
    plain = UnfiredFire(
        trigger_id=trigger_id,
        key=KEY,
        fire_time=T0 + minutes * MINUTE,
        run_name=f"r{minutes}",
        reason="gave_up",
        code="INTERNAL",
        message="the service's words",
        attempts=3,
    )
    return replace(plain, **values)  # type: ignore[arg-type]  # the table of cases names fields


async def test_progress_moves_forward_only(progress: ProgressStore) -> None:
    await progress.write([update(1, 10, 10), update(2, 5)], touch_triggered_at=False)
    await progress.write([update(1, 8, 8), update(2, 7, 7)], touch_triggered_at=False)
    stored = await progress.for_ids([1, 2, 3])
    assert set(stored) == {1, 2}
    assert stored[1].confirmed_through == T0 + 10 * MINUTE
    assert (stored[1].last_fire_time, stored[1].last_run_name) == (T0 + 10 * MINUTE, "r10")
    assert stored[2].confirmed_through == T0 + 7 * MINUTE
    assert (stored[2].last_run_name, stored[2].last_outcome, stored[2].last_lateness_ms) == ("r7", "created", 1.5)


async def test_only_a_newer_revision_takes_progress_back(progress: ProgressStore) -> None:
    await progress.write([update(1, 10)], touch_triggered_at=False)
    await progress.write([replace(update(1, 4), revision=2)], touch_triggered_at=False)
    stored = (await progress.for_ids([1]))[1]
    assert (stored.confirmed_through, stored.revision) == (T0 + 4 * MINUTE, 2)
    await progress.write([update(1, 20)], touch_triggered_at=False)
    stored = (await progress.for_ids([1]))[1]
    assert (stored.confirmed_through, stored.revision) == (T0 + 4 * MINUTE, 2), "made without knowing the edit"


async def test_progress_without_a_run_keeps_the_last_run(progress: ProgressStore) -> None:
    await progress.write([update(1, 10, 10)], touch_triggered_at=False)
    await progress.write([update(1, 20)], touch_triggered_at=False)
    stored = (await progress.for_ids([1]))[1]
    assert (stored.confirmed_through, stored.last_run_name) == (T0 + 20 * MINUTE, "r10")


async def test_one_batch_may_name_a_trigger_twice(progress: ProgressStore) -> None:
    await progress.write([update(1, 20, 20), update(1, 10, 10)], touch_triggered_at=False)
    assert (await progress.for_ids([1]))[1].confirmed_through == T0 + 20 * MINUTE
    await progress.write([], touch_triggered_at=True)


@pytest.mark.parametrize(
    ("before", "touch", "after"),
    [(None, True, 10), (5, True, 10), (15, True, 15), (None, False, None), (5, False, 5)],
)
async def test_triggered_at_follows_the_last_fire_if_wanted(
    engine: AsyncEngine, add_trigger: AddTrigger, before: int | None, touch: bool, after: int | None
) -> None:
    def at(minutes: int | None) -> datetime | None:
        return None if minutes is None else T0 + minutes * MINUTE

    id_ = await add_trigger(triggered_at=at(before))
    await SettlementStore(engine, touch_triggered_at=touch).write([update(id_, 12, 10)])
    (row,) = await TriggerStore(engine).rows_by_id([id_])
    assert row.triggered_at == at(after)
    assert row.revision == 1


async def test_a_fire_is_recorded_once(unfired: UnfiredStore) -> None:
    await unfired.record([fire(1, 1), fire(1, 1, attempts=4), fire(1, 2, code=None, message=None)])
    await unfired.record([fire(1, 1, reason="permanent_error", attempts=9, message="nul \0 byte")])
    newest, oldest = await unfired.list()
    assert newest.fire == fire(1, 2, code=None, message=None)
    assert oldest.fire == fire(1, 1, reason="permanent_error", attempts=9, message="nul  byte")
    assert oldest.retry_requested_at is None
    assert await unfired.count() == 2


@pytest.mark.parametrize(
    ("filter_", "minutes"),
    [
        (UnfiredFilter(), [4, 3, 2, 1]),
        (UnfiredFilter(reason="paused"), [3]),
        (UnfiredFilter(project="other"), [4]),
        (UnfiredFilter(project="shop", name="nightly", task_name="report", domain="production"), [3, 2, 1]),
        (UnfiredFilter(since=T0 + 2 * MINUTE, until=T0 + 4 * MINUTE), [3, 2]),
        (UnfiredFilter(waiting=True), []),
        (UnfiredFilter(ids=()), []),
        (UnfiredFilter(waiting=False, reason="gave_up"), [4, 2, 1]),
    ],
)
async def test_records_are_found_by_filter(unfired: UnfiredStore, filter_: UnfiredFilter, minutes: list[int]) -> None:
    other = KEY._replace(project="other")
    await unfired.record([fire(1, 1), fire(1, 2), fire(1, 3, reason="paused"), fire(2, 4, key=other)])
    assert [record.fire.fire_time for record in await unfired.list(filter_)] == [T0 + m * MINUTE for m in minutes]
    assert await unfired.count(filter_) == len(minutes)


async def test_a_wish_stays_until_the_fire_is_done_with(unfired: UnfiredStore, add_trigger: AddTrigger) -> None:
    id_, paused = await add_trigger("a"), await add_trigger("b", active=False)
    await unfired.record([fire(id_, 1), fire(id_, 2), fire(id_, 3), fire(paused, 1)])
    assert await unfired.take_retries(10) == []
    wanted = UnfiredFilter(until=T0 + 3 * MINUTE)
    assert await unfired.request_retry(wanted) == 3
    assert await unfired.request_retry(wanted) == 0
    assert [each.fire_time for each in await unfired.take_retries(10)] == [T0 + MINUTE, T0 + 2 * MINUTE]
    assert len(await unfired.take_retries(1)) == 1
    await unfired.resolve([(id_, T0 + MINUTE)])
    await unfired.record([fire(id_, 2, attempts=7)])
    assert await unfired.take_retries(10) == []
    assert {(record.fire.trigger_id, record.fire.fire_time) for record in await unfired.list()} == {
        (id_, T0 + 2 * MINUTE),
        (id_, T0 + 3 * MINUTE),
        (paused, T0 + MINUTE),
    }


async def test_old_records_are_pruned(unfired: UnfiredStore, engine: AsyncEngine) -> None:
    await unfired.record([fire(1, minutes) for minutes in range(4)])
    statement = sa.text(
        "UPDATE scheduler_unfired SET recorded_at = '2026-05-01T12:00Z',"
        " retry_requested_at = CASE id WHEN 2 THEN now() WHEN 3 THEN timestamptz '2026-05-01T12:00Z' END WHERE id < 4"
    )
    async with engine.begin() as connection:
        await connection.execute(statement)
    assert await unfired.prune(T0 + MINUTE) == 2
    assert sorted(record.id for record in await unfired.list()) == [2, 4]


async def test_a_settlement_is_written_whole_or_not_at_all(engine: AsyncEngine, unfired: UnfiredStore) -> None:
    store = SettlementStore(engine, touch_triggered_at=True)
    await unfired.record([fire(1, 1)])
    too_long = update(1, 5, 5)
    with pytest.raises(DBAPIError):
        await store.write([replace(too_long, last_run_name="\0")], [fire(1, 2)], [(1, T0 + MINUTE)])
    assert [record.fire.fire_time for record in await unfired.list()] == [T0 + MINUTE]
    await store.write([too_long], [fire(1, 2)], [(1, T0 + MINUTE)])
    await store.write([too_long], [fire(1, 2)], [(1, T0 + MINUTE)])
    assert [record.fire.fire_time for record in await unfired.list()] == [T0 + 2 * MINUTE]
    assert (await ProgressStore(engine).for_ids([1]))[1].confirmed_through == T0 + 5 * MINUTE
