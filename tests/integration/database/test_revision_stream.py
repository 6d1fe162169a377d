"""The stream of revisions, in whatever pieces the connection hands it over."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.revision_stream import Pairs, stream_revisions


class Recorder:
    """A real connection; keeps the bytes of a COPY, or hands over kept ones in pieces of a size."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.kept = b""
        self.piece = 0

    async def copy_from_query(self, query: str, *, output: Callable[[bytes], Awaitable[None]], **options: Any) -> None:
        if not self.piece:
            await self._connection.copy_from_query(query, output=self._keep, **options)
            self.piece = len(self.kept)
        for start in range(0, len(self.kept), self.piece):
            await output(self.kept[start : start + self.piece])

    async def _keep(self, data: bytes) -> None:
        self.kept += data


@pytest.fixture
async def recorder(engine: AsyncEngine, add_trigger: Callable[..., Awaitable[int]]) -> Any:
    for revision in (1, 7, 2**40):
        await add_trigger(f"at {revision}", latest_revision=revision)
    async with engine.connect() as connection:
        yield Recorder((await connection.get_raw_connection()).driver_connection)


async def test_no_cut_loses_or_changes_a_pair(recorder: Any) -> None:
    async def read() -> list[int]:
        revisions: list[int] = []

        def take(pairs: Pairs) -> None:
            revisions.extend(revision for _, revision in pairs)

        await stream_revisions(recorder, "active", take)
        return sorted(revisions)

    assert await read() == [1, 7, 2**40]
    for piece in range(1, len(recorder.kept)):
        recorder.piece = piece
        assert await read() == [1, 7, 2**40], f"in pieces of {piece} bytes"
