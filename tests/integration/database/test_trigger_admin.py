"""Writing triggers as Flyte does, and showing them."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from scheduler_worker.database.progress_store import ProgressStore, ProgressUpdate
from scheduler_worker.database.trigger_admin import Change, TriggerAdmin, TriggerDefinition, Written
from scheduler_worker.database.trigger_catalog import TriggerCatalog, TriggerFilter
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.errors import RevisionConflictError, TriggerNotFoundError

KEY = TriggerKey("shop", "production", "report", "nightly")
OTHER = KEY._replace(name="hourly")
NIGHTLY = TriggerDefinition(key=KEY, automation_spec=b"automation", spec=b"spec", task_version="v1", description="hi")
HOURLY = replace(NIGHTLY, key=OTHER)


@pytest.fixture
def admin(engine: AsyncEngine) -> TriggerAdmin:
    return TriggerAdmin(engine, by="somebody")


@pytest.fixture
def catalog(engine: AsyncEngine) -> TriggerCatalog:
    return TriggerCatalog(engine)


async def snapshots(engine: AsyncEngine) -> list[Any]:
    async with engine.connect() as connection:
        rows = await connection.execute(sa.text("SELECT * FROM trigger_revisions ORDER BY revision, name"))
        return list(rows.all())


async def row_of(engine: AsyncEngine, key: TriggerKey = KEY) -> Any:
    async with engine.connect() as connection:
        statement = sa.text("SELECT * FROM triggers WHERE name = :name")
        return (await connection.execute(statement, {"name": key.name})).one()


async def database_now(engine: AsyncEngine) -> datetime:
    async with engine.connect() as connection:
        now: datetime = (await connection.execute(sa.text("SELECT clock_timestamp()"))).scalar_one()
        return now


async def test_a_deploy_makes_a_trigger_and_its_snapshot(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    before = await database_now(engine)
    assert await admin.apply([NIGHTLY, HOURLY]) == [Written(KEY, 1, Change.CREATED), Written(OTHER, 1, Change.CREATED)]
    row = await row_of(engine)
    assert before < row.deployed_at == row.updated_at
    assert (row.latest_revision, row.active, row.automation_type) == (1, True, "TYPE_SCHEDULE")
    assert (row.spec, row.automation_spec, row.description, row.task_version) == (b"spec", b"automation", "hi", "v1")
    assert (row.deployed_by, row.triggered_at, row.deleted_at) == ("somebody", None, None)
    hourly, nightly = await snapshots(engine)
    assert (hourly.name, nightly.name) == ("hourly", "nightly")
    assert (nightly.revision, nightly.action) == (1, "TRIGGER_REVISION_ACTION_DEPLOY")
    assert (nightly.spec, nightly.automation_spec, nightly.active) == (b"spec", b"automation", True)
    assert nightly.deployed_at == nightly.updated_at == nightly.created_at == row.deployed_at


async def test_an_edit_moves_the_deploy_time_alone(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    await admin.apply([NIGHTLY])
    before = await row_of(engine)
    edited = replace(NIGHTLY, automation_spec=b"other")
    assert await admin.apply([edited]) == [Written(KEY, 2, Change.UPDATED)]
    after = await row_of(engine)
    assert after.id == before.id
    assert after.deployed_at > before.deployed_at
    assert after.updated_at == before.updated_at
    assert [row.automation_spec for row in await snapshots(engine)] == [b"automation", b"other"]


async def test_a_deploy_that_switches_off_moves_both_times(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    await admin.apply([NIGHTLY])
    before = await row_of(engine)
    await admin.apply([replace(NIGHTLY, active=False)])
    after = await row_of(engine)
    assert after.updated_at == after.deployed_at > before.updated_at


async def test_an_equal_deploy_changes_nothing(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    await admin.apply([NIGHTLY])
    before = await row_of(engine)
    assert await admin.apply([NIGHTLY]) == [Written(KEY, 1, Change.UNCHANGED)]
    assert await row_of(engine) == before
    assert len(await snapshots(engine)) == 1


async def test_pause_and_resume(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    await admin.apply([NIGHTLY, HOURLY])
    deployed = await row_of(engine)
    assert await admin.set_active([KEY], active=False) == [Written(KEY, 2, Change.PAUSED)]
    paused = await row_of(engine)
    assert (paused.active, paused.latest_revision) == (False, 2)
    assert paused.updated_at > deployed.updated_at
    assert paused.deployed_at == deployed.deployed_at
    assert await admin.set_active([KEY, OTHER], active=True) == [
        Written(KEY, 3, Change.RESUMED),
        Written(OTHER, 1, Change.UNCHANGED),
    ]
    resumed = await row_of(engine)
    assert resumed.updated_at > paused.updated_at
    actions = [row.action.removeprefix("TRIGGER_REVISION_ACTION_") for row in await snapshots(engine)]
    assert actions == ["DEPLOY", "DEPLOY", "DEACTIVATE", "ACTIVATE"]


async def test_a_deleted_trigger_keeps_its_row_and_comes_back(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    await admin.apply([NIGHTLY])
    deployed = await row_of(engine)
    assert await admin.delete([KEY]) == [Written(KEY, 2, Change.DELETED)]
    deleted = await row_of(engine)
    assert (deleted.active, deleted.updated_at) == (False, deployed.updated_at)
    assert deleted.deleted_at > deployed.deployed_at
    assert (await snapshots(engine))[-1].deleted_at == deleted.deleted_at
    for write in (admin.delete([KEY]), admin.set_active([KEY], active=True)):
        with pytest.raises(TriggerNotFoundError, match="shop/production/report/nightly"):
            await write
    assert await admin.apply([NIGHTLY]) == [Written(KEY, 3, Change.CREATED)]
    revived = await row_of(engine)
    assert (revived.id, revived.active, revived.deleted_at) == (deployed.id, True, None)
    assert revived.updated_at == revived.deployed_at > deleted.deleted_at


async def test_unknown_keys_are_named_and_nothing_is_written(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    await admin.apply([NIGHTLY])
    missing = [KEY._replace(name="x"), KEY._replace(name="y")]
    with pytest.raises(TriggerNotFoundError) as caught:
        await admin.set_active([KEY, *missing], active=False)
    assert caught.value.keys == tuple(map(str, missing))
    assert (await row_of(engine)).active


async def test_a_stale_revision_is_refused_and_nothing_is_written(engine: AsyncEngine, admin: TriggerAdmin) -> None:
    await admin.apply([NIGHTLY])
    await admin.apply([replace(NIGHTLY, spec=b"2", expected_revision=1)])
    with pytest.raises(RevisionConflictError, match="is at revision 2, not at revision 1"):
        await admin.apply([HOURLY, replace(NIGHTLY, spec=b"3", expected_revision=1)])
    with pytest.raises(RevisionConflictError, match="does not exist"):
        await admin.apply([replace(HOURLY, expected_revision=5)])
    assert len(await snapshots(engine)) == 2


async def test_the_catalog_shows_row_and_progress(
    engine: AsyncEngine, admin: TriggerAdmin, catalog: TriggerCatalog
) -> None:
    await admin.apply([NIGHTLY, HOURLY])
    await admin.delete([OTHER])
    id_ = (await row_of(engine)).id
    now = await database_now(engine)
    update = ProgressUpdate(
        trigger_id=id_,
        confirmed_through=now,
        revision=1,
        last_fire_time=now,
        last_run_name="r1",
        last_outcome="created",
        last_lateness_ms=2.5,
    )
    await ProgressStore(engine).write([update], touch_triggered_at=False)
    shown = await catalog.show(KEY)
    assert (shown.row.key, shown.row.confirmed_through) == (KEY, now)
    assert (shown.task_version, shown.description, shown.deployed_by) == ("v1", "hi", "somebody")
    assert (shown.last_fire_time, shown.last_run_name, shown.last_outcome) == (now, "r1", "created")
    assert shown.last_lateness_ms == 2.5
    assert (await catalog.show(OTHER)).row.deleted_at is not None
    with pytest.raises(TriggerNotFoundError):
        await catalog.show(KEY._replace(project="nowhere"))


async def test_the_catalog_finds_by_filter(admin: TriggerAdmin, catalog: TriggerCatalog) -> None:
    await admin.apply([NIGHTLY, HOURLY])
    await admin.delete([OTHER])

    async def names(limit: int | None = None, **filter_: Any) -> list[str]:
        return [each.row.key.name for each in await catalog.find(TriggerFilter(**filter_), limit=limit)]

    assert await names() == ["nightly"]
    assert await names(with_deleted=True) == ["hourly", "nightly"]
    assert await names(with_deleted=True, limit=1) == ["hourly"]
    assert await names(project="shop", domain="production", task_name="report", name="nightly") == ["nightly"]
    assert await names(project="other") == []
