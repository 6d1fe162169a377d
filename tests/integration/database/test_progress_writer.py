"""What the progress writer brings into the database, and in which order."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.progress_store import ProgressUpdate
from scheduler_worker.database.settlement_store import SettlementStore
from scheduler_worker.database.unfired_store import UnfiredFire
from scheduler_worker.domain.fire import ArmedTrigger
from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.life import Span
from scheduler_worker.domain.outcomes import UnfiredReason
from scheduler_worker.domain.schedule import CronRule, schedule_of
from scheduler_worker.domain.trigger import Trigger, TriggerKey
from scheduler_worker.errors import DatabaseUnavailableError
from scheduler_worker.progress_writer import ROWS_PER_WRITE, ProgressWriter
from scheduler_worker.telemetry.metrics import Metrics

T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MINUTELY = schedule_of(CronRule("* * * * *"), activated_at=T0)


class Store(SettlementStore):
    """The real store; notes what each write held, and can be away."""

    writes: list[tuple[int, int]]
    is_away = False

    async def write(
        self,
        progress: Sequence[ProgressUpdate],
        unfired: Sequence[UnfiredFire] = (),
        resolved: Sequence[tuple[int, datetime]] = (),
    ) -> None:
        if self.is_away:
            raise DatabaseUnavailableError("away")
        await super().write(progress, unfired, resolved)
        self.writes.append((len(progress), len(unfired)))


@pytest.fixture
def store(engine: AsyncEngine) -> Store:
    store = Store(engine, touch_triggered_at=False)
    store.writes = []
    return store


@pytest.fixture
def writer(store: Store) -> ProgressWriter:
    return ProgressWriter(store, metrics=Metrics())


@pytest.fixture
async def account(add_trigger: Callable[..., Awaitable[int]]) -> ArmedTrigger:
    trigger = Trigger(
        id=await add_trigger(),
        key=TriggerKey("shop", "production", "report", "nightly"),
        revision=1,
        in_force_from=T0,
        schedule=MINUTELY,
    )
    return ArmedTrigger(trigger, Ledger((Span(MINUTELY, T0),), confirmed_through=T0))


async def marks(engine: AsyncEngine) -> list[datetime]:
    async with engine.connect() as connection:
        return list((await connection.scalars(sa.text("SELECT confirmed_through FROM scheduler_progress"))).all())


async def test_first_marks_wait_while_others_are_written(
    writer: ProgressWriter, store: Store, engine: AsyncEngine, account: ArmedTrigger
) -> None:
    writer.has_no_mark(account)
    await writer.write()
    assert (store.writes, writer.pending) == ([], 1)
    writer.first_marks_wait = False
    await writer.write()
    assert (store.writes, writer.pending) == ([(1, 0)], 0)
    assert await marks(engine) == [T0]


async def test_a_first_mark_that_was_asked_for_twice_is_written_once(
    writer: ProgressWriter, store: Store, account: ArmedTrigger
) -> None:
    writer.first_marks_wait = False
    writer.has_no_mark(account)
    writer.has_no_mark(account)
    writer.moved(account)
    await writer.write()
    assert (store.writes, writer.pending) == ([(1, 0)], 0)


async def test_a_first_mark_never_goes_before_the_unfired_rows_that_it_covers(
    writer: ProgressWriter, store: Store, engine: AsyncEngine, account: ArmedTrigger
) -> None:
    writer.first_marks_wait = False
    writer.has_no_mark(account)
    for number in range(1, ROWS_PER_WRITE + 2):
        assert writer.will_not_run(account, T0 + number * MINUTE, reason=UnfiredReason.WINDOW)
    await writer.write()
    assert store.writes == [(0, ROWS_PER_WRITE), (1, 1)]
    assert await marks(engine) == [T0 + (ROWS_PER_WRITE + 1) * MINUTE]


async def test_a_first_mark_that_failed_is_written_later(
    writer: ProgressWriter, store: Store, engine: AsyncEngine, account: ArmedTrigger
) -> None:
    writer.first_marks_wait = False
    writer.has_no_mark(account)
    store.is_away = True
    assert not await writer.try_to_write()
    assert writer.is_pending(account.trigger.id)
    store.is_away = False
    assert await writer.try_to_write()
    assert await marks(engine) == [T0]
