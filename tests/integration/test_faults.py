"""What breaks around the worker: the Run Service, the database, the lease; and how it stops."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler_worker.database import migrate
from scheduler_worker.database.lease import Lease
from scheduler_worker.domain.schedule import CronRule
from scheduler_worker.embedded_postgres import EmbeddedPostgres
from scheduler_worker.run_service.mock_faults import Faults
from scheduler_worker.run_service.mock_server import MockRunService
from scheduler_worker.worker import Role
from tests.integration.stand import MINUTE, OPTIONS, SettableClock, Stand, this_minute
from tests.integration.stand import stand as open_stand

SECOND = timedelta(seconds=1)


# -- the Run Service -----------------------------------------------------------------------------------------------


async def test_an_outage_of_the_service_loses_nothing_and_does_not_hammer_it(stand: Stand) -> None:
    start = stand.clock.now
    for number in range(30):
        await stand.table.deploy(f"n{number}", at=start)
    await stand.start()
    stand.service.faults = Faults(outage=True)
    await stand.move_to(start + MINUTE)
    await stand.until(
        lambda: not stand.term.executor.reachability.is_reachable and stand.term.dispatcher.calls_in_flight == 0
    )
    before = stand.service.calls + stand.service.details_calls
    await stand.move_to(start + 2 * MINUTE)
    await stand.until(lambda: stand.service.calls + stand.service.details_calls > before)
    assert stand.service.calls + stand.service.details_calls - before <= 2, "one probe, not every fire on its own"
    stand.service.faults = Faults()
    await stand.service.wait_for_runs(60)
    await stand.settled()
    assert stand.term.executor.reachability.is_reachable
    created = await stand.table.sql("SELECT count(*), min(confirmed_through) FROM scheduler_progress")
    assert created == [(30, start + 2 * MINUTE)]


async def test_an_answer_that_got_lost_is_looked_up_and_not_sent_again(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    stand.service.faults = Faults(lost_answer_rate=1.0)
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.service.details_calls == 1)
    await stand.settled()
    assert stand.service.calls == 1
    assert await stand.table.sql("SELECT last_outcome FROM scheduler_progress") == [("found",)]


async def test_one_call_that_never_answers_holds_back_nobody_else(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy("hangs", at=start)
    await stand.start(calls=replace(OPTIONS.calls, deadline=timedelta(seconds=1)))
    stand.service.faults = Faults(lost_answer_rate=1.0, lost_answer="silence")
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.service.in_flight == 1)
    stand.service.faults = Faults()
    await stand.table.deploy("quick", at=start + MINUTE)
    await stand.until(lambda: len(stand.term.scheduler.store) == 2)
    await stand.move_to(start + 2 * MINUTE)
    await stand.until(lambda: stand.runs("quick") == [start + 2 * MINUTE])
    assert stand.service.in_flight >= 1
    await stand.settled()


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "UNIMPLEMENTED", "OUT_OF_RANGE"])
async def test_a_permanent_refusal_is_recorded_and_the_trigger_goes_on(stand: Stand, code: str) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    stand.service.faults = Faults(error_rate=1.0, error_code=code)
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.service.calls == 1)
    await stand.settled()
    stand.service.faults = Faults()
    assert await stand.table.unfired() == [("n", start + MINUTE, "permanent_error")]
    assert await stand.table.sql("SELECT code, attempts FROM scheduler_unfired") == [(code, 1)]
    await stand.move_to(start + 2 * MINUTE)
    await stand.service.wait_for_runs(1)
    assert stand.runs()[-1] == start + 2 * MINUTE


async def test_a_doubtful_failure_is_tried_again_and_given_up_after_a_time(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start(calls=replace(OPTIONS.calls, give_up_after=SECOND))
    stand.service.faults = Faults(error_rate=1.0, error_code="PERMISSION_DENIED")
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.service.calls >= 2)
    await stand.settled()
    assert await stand.table.unfired() == [("n", start + MINUTE, "gave_up")]


async def test_an_unfired_fire_is_sent_again_when_a_person_asks(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    stand.service.faults = Faults(error_rate=1.0, error_code="INVALID_ARGUMENT")
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.service.calls == 1)
    await stand.settled()
    stand.service.faults = Faults()
    await stand.table.sql("UPDATE scheduler_unfired SET retry_requested_at = now()")
    await stand.sync()
    await stand.service.wait_for_runs(1)
    await stand.settled()
    assert await stand.table.unfired() == []
    assert stand.runs() == [start + MINUTE, start + MINUTE]  # refused once, made once


# -- the trigger, just before the call -----------------------------------------------------------------------------


async def test_a_fire_that_waits_for_the_limiter_is_not_sent_after_a_pause(stand: Stand) -> None:
    start = stand.clock.now
    keys = [await stand.table.deploy(f"n{number}", at=start) for number in range(5)]
    await stand.start(
        notify=False, resync_interval=timedelta(hours=1), limits=replace(OPTIONS.limits, qps=2.0, burst=1)
    )
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    for key in keys:
        await stand.table.set_active(key, False, at=start + MINUTE + SECOND)
    await stand.settled()
    fired, recorded = {run.trigger_name.name for run in stand.service.requests}, await stand.table.unfired()
    assert len(fired) <= 2
    assert {(name, reason) for name, _, reason in recorded} == {
        (key.name, "paused") for key in keys if key.name not in fired
    }


async def test_an_edit_while_a_fire_waits_keeps_what_the_old_schedule_owed(stand: Stand) -> None:
    start = stand.clock.now
    for number in range(3):
        await stand.table.deploy(f"n{number}", at=start)
    await stand.start(
        notify=False, resync_interval=timedelta(hours=1), limits=replace(OPTIONS.limits, qps=2.0, burst=1)
    )
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    for number in range(3):
        await stand.table.deploy(f"n{number}", CronRule("0 0 1 1 *"), at=start + MINUTE + SECOND)
    await stand.service.wait_for_runs(3)
    await stand.settled()
    assert stand.runs() == [start + MINUTE] * 3


# -- the database --------------------------------------------------------------------------------------------------


async def test_triggers_go_on_firing_while_the_database_is_away(own_postgres: EmbeddedPostgres) -> None:
    own_postgres.create_database("away")
    url = own_postgres.url("away")
    await migrate.upgrade(url)
    async with open_stand(url) as stand:
        start = stand.clock.now
        await stand.table.deploy(at=start)
        await stand.start()
        term = stand.term
        await stand.engine.dispose()
        await asyncio.to_thread(own_postgres.stop)
        for minutes in (1, 2, 3):
            await stand.move_to(start + minutes * MINUTE)
            await stand.service.wait_for_runs(minutes)
        await asyncio.to_thread(own_postgres.start)
        await stand.until(lambda: stand.worker is not None and stand.worker.is_sure_of_lease)
        await stand.move_to(start + 4 * MINUTE)
        await stand.service.wait_for_runs(4)
        await stand.settled()
        assert stand.term is term
        assert await stand.table.sql("SELECT confirmed_through FROM scheduler_progress") == [(start + 4 * MINUTE,)]
        assert stand.runs() == [start + n * MINUTE for n in range(1, 5)]


async def test_without_the_database_nothing_fires_if_that_is_what_is_wanted(own_postgres: EmbeddedPostgres) -> None:
    own_postgres.create_database("away")
    url = own_postgres.url("away")
    await migrate.upgrade(url)
    async with open_stand(url) as stand:
        start = stand.clock.now
        await stand.table.deploy(at=start)
        await stand.start(fire_without_database=False)
        await stand.engine.dispose()
        await asyncio.to_thread(own_postgres.stop)
        await stand.until(lambda: stand.worker is not None and not stand.worker.is_sure_of_lease)
        await stand.move_to(start + MINUTE)
        await stand.until(lambda: stand.term.queue.live == 1)
        await asyncio.to_thread(own_postgres.start)
        await stand.service.wait_for_runs(1)
        assert stand.worker is not None
        assert stand.worker.is_sure_of_lease


# -- the lease -----------------------------------------------------------------------------------------------------

END_LEASE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'scheduler-worker lease'"


async def test_a_lease_that_can_be_had_back_goes_on_with_its_term(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    term = stand.term
    lost = stand.worker_lease.lost
    await stand.table.sql(END_LEASE)
    await stand.until(lost.is_set)
    await stand.until(lambda: not lost.is_set())
    await stand.move_to(start + MINUTE)
    await stand.service.wait_for_runs(1)
    assert stand.term is term


async def test_a_lease_that_another_worker_took_ends_the_term_at_once(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    term = stand.term
    rival = Lease(stand.url)
    waiting = asyncio.create_task(rival.acquire())
    # The rival asks again and again; the owner's tries to get it back must come second once.
    while not rival.is_held:
        await stand.table.sql(
            END_LEASE + " AND pid = (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)"
        )
        await asyncio.sleep(0.05)
    await waiting
    await stand.until(lambda: stand.worker is not None and stand.worker.role is Role.STANDBY)
    assert not term.scheduler.running
    await stand.move_to(start + MINUTE)
    await rival.release()
    await stand.until(lambda: stand.worker is not None and stand.worker.term is not None)
    await stand.service.wait_for_runs(1)
    await stand.settled()
    assert stand.runs() == [start + MINUTE]


async def test_a_standby_takes_over_when_the_owner_is_gone(database_url: str) -> None:
    async with MockRunService() as service:
        clock = SettableClock(this_minute())
        owner, standby = Stand(database_url, service, clock), Stand(database_url, service, clock)
        start = clock.now
        await owner.table.deploy(at=start)
        await owner.start()
        starting = asyncio.create_task(standby.start())
        await standby.until(lambda: standby.worker is not None and standby.worker.role is Role.STANDBY)
        await owner.move_to(start + MINUTE)
        await service.wait_for_runs(1)
        await owner.crash()
        clock.now = start + 2 * MINUTE
        await starting
        await service.wait_for_runs(2)
        assert owner.runs() == [start + MINUTE, start + 2 * MINUTE]
        await standby.stop()
        for each in (owner, standby):
            await each.engine.dispose()


# -- stopping ------------------------------------------------------------------------------------------------------


async def test_stopping_waits_for_the_call_in_flight_and_writes_its_progress(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start()
    stand.service.faults = Faults(latency_ms=300)
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.service.in_flight == 1)
    await stand.stop()
    assert await stand.table.sql("SELECT confirmed_through, last_outcome FROM scheduler_progress") == [
        (start + MINUTE, "created")
    ]


async def test_a_call_that_outlasts_the_grace_stays_owed(stand: Stand) -> None:
    start = stand.clock.now
    await stand.table.deploy(at=start)
    await stand.start(shutdown_grace=timedelta(seconds=0.1))
    stand.service.faults = Faults(latency_ms=60_000)
    await stand.move_to(start + MINUTE)
    await stand.until(lambda: stand.service.in_flight == 1)
    await stand.stop()
    stand.service.faults = Faults()
    await stand.start()
    await stand.settled()
    assert await stand.table.sql("SELECT confirmed_through FROM scheduler_progress") == [(start + MINUTE,)]
    assert stand.runs()[-1] == start + MINUTE
