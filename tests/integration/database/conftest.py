"""Rows to read, written by plain SQL, as anyone may write them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.tables import triggers

T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

AddTrigger = Callable[..., Awaitable[int]]


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(database_url)
    yield engine
    await engine.dispose()


@pytest.fixture
def add_trigger(engine: AsyncEngine) -> AddTrigger:
    """Insert one row of ``triggers`` and return its id; keyword arguments replace the columns of an active trigger."""

    async def add(name: str = "nightly", **columns: Any) -> int:
        row = {
            "project": "shop",
            "domain": "production",
            "task_name": "report",
            "name": name,
            "spec": b"spec",
            "automation_spec": b"automation",
            "task_version": "v1",
            "active": True,
            "automation_type": "TYPE_SCHEDULE",
            "deployed_at": T0,
            "updated_at": T0,
            **columns,
        }
        async with engine.begin() as connection:
            return int(
                (await connection.execute(sa.insert(triggers).values(row).returning(triggers.c.id))).scalar_one()
            )

    return add
