"""Migrations up, down and up again, on a database of one's own and on Flyte's."""

from scheduler_worker.database import migrate


async def test_x(database_url: str) -> None:
    state = await migrate.current(database_url)
    assert state.revision == "0002"
    assert state.pending == ()
    assert state.hooks is migrate.Hooks.ON
