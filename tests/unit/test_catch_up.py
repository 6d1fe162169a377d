"""Owed times of the past: oldest first, fair, bounded, and by the policy."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from scheduler_worker.catch_up import CatchUp, CatchUpPolicy, CatchUpRules
from scheduler_worker.domain.fire import ArmedTrigger, Fire
from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.life import THE_END, Forfeit, Span
from scheduler_worker.domain.outcomes import UnfiredReason
from scheduler_worker.domain.schedule import CronRule, schedule_of
from scheduler_worker.domain.trigger import Trigger, TriggerKey

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTELY = schedule_of(CronRule("* * * * *"), activated_at=START)


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def account(trigger_id: int, *, spans: tuple[Span, ...] = (Span(MINUTELY, START, THE_END),)) -> ArmedTrigger:
    key = TriggerKey("p", "d", "t", f"n{trigger_id}")
    trigger = Trigger(id=trigger_id, key=key, revision=1, in_force_from=START, schedule=MINUTELY)
    return ArmedTrigger(trigger, Ledger(spans, confirmed_through=START))


class Bench:
    """Catch-up over a queue and a record that are plain lists."""

    def __init__(self, *, missed_through: datetime, room: int = 1_000_000, **rules: object) -> None:
        self.queued: list[Fire] = []
        self.recorded: list[tuple[ArmedTrigger, datetime, UnfiredReason]] = []
        self.room = room
        self.catch_up = CatchUp(
            CatchUpRules(**rules),  # type: ignore[arg-type]  # each test names the rules it is about
            missed_through=missed_through,
            offer=self._offer,
            will_not_run=self._record,
        )

    def _offer(self, fire: Fire) -> bool:
        if len(self.queued) >= self.room:
            return False
        self.queued.append(fire)
        return True

    def _record(self, armed: ArmedTrigger, time: datetime, reason: UnfiredReason) -> bool:
        self.recorded.append((armed, time, reason))
        armed.ledger.settle(time)
        return True

    def settle_all(self) -> None:
        for fire in self.queued:
            fire.armed.ledger.settle(fire.time)

    @property
    def times(self) -> list[datetime]:
        return [fire.time for fire in self.queued]


async def test_no_more_than_the_budget_is_handed_out_and_the_rest_waits_for_the_next_run() -> None:
    bench = Bench(missed_through=minute(200))
    bench.catch_up.add(account(1))
    assert await bench.catch_up.run(minute(200), budget=100) == 100
    assert bench.times == [minute(number) for number in range(1, 101)]
    bench.settle_all()
    assert await bench.catch_up.run(minute(200), budget=100) == 100
    assert bench.times == [minute(number) for number in range(1, 201)]
    bench.settle_all()
    assert await bench.catch_up.run(minute(200), budget=100) == 0
    assert len(bench.catch_up) == 0


async def test_one_triggers_backlog_does_not_starve_the_others() -> None:
    bench = Bench(missed_through=minute(5000))
    bench.catch_up.add(account(0))
    for trigger_id in range(1, 50):
        bench.catch_up.add(account(trigger_id, spans=(Span(MINUTELY, minute(4999), THE_END),)))
    await bench.catch_up.run(minute(5000), budget=100)
    shares = Counter(fire.armed.trigger.id for fire in bench.queued)
    assert shares == {0: 51} | dict.fromkeys(range(1, 50), 1)


async def test_turns_go_on_where_the_last_run_left_off() -> None:
    bench = Bench(missed_through=minute(100))
    for trigger_id in range(10):
        bench.catch_up.add(account(trigger_id))
    for _ in range(5):
        await bench.catch_up.run(minute(100), budget=4)
    assert set(Counter(fire.armed.trigger.id for fire in bench.queued).values()) == {2}


async def test_missed_fires_ask_first_and_those_of_our_own_time_do_not() -> None:
    bench = Bench(missed_through=minute(2))
    bench.catch_up.add(account(1))
    await bench.catch_up.run(minute(4), budget=100)
    assert [fire.ask_first for fire in bench.queued] == [True, True, False, False]


async def test_a_full_queue_leaves_the_time_owed() -> None:
    bench = Bench(missed_through=minute(5), room=2)
    armed = account(1)
    bench.catch_up.add(armed)
    assert await bench.catch_up.run(minute(5), budget=100) == 2
    assert [time for time, _ in armed.ledger.owed(minute(5))] == [minute(3), minute(4), minute(5)]
    assert armed in bench.catch_up


async def test_policy_none_records_what_was_missed_and_fires_what_was_not() -> None:
    bench = Bench(missed_through=minute(3), policy=CatchUpPolicy.NONE)
    armed = account(1)
    bench.catch_up.add(armed)
    await bench.catch_up.run(minute(4), budget=100)
    assert [(time, reason) for _, time, reason in bench.recorded] == [
        (minute(number), UnfiredReason.POLICY_NONE) for number in (1, 2, 3)
    ]
    assert bench.times == [minute(4)]
    assert armed.ledger.confirmed_through == minute(3)


async def test_policy_latest_fires_the_last_missed_time_and_records_the_others() -> None:
    bench = Bench(missed_through=minute(1000), policy=CatchUpPolicy.LATEST)
    armed = account(1)
    bench.catch_up.add(armed)
    await bench.catch_up.run(minute(1000), budget=100)
    assert bench.times == [minute(1000)]
    assert [time for _, time, _ in bench.recorded] == [minute(number) for number in range(1, 1000)]
    bench.settle_all()
    assert armed.ledger.confirmed_through == minute(1000)


async def test_times_older_than_the_window_are_recorded() -> None:
    bench = Bench(missed_through=minute(10), window=timedelta(minutes=3))
    bench.catch_up.add(account(1))
    await bench.catch_up.run(minute(10), budget=100)
    assert {reason for _, _, reason in bench.recorded} == {UnfiredReason.WINDOW}
    assert [time for _, time, _ in bench.recorded] == [minute(number) for number in range(1, 7)]
    assert bench.times == [minute(number) for number in range(7, 11)]


@pytest.mark.parametrize("why", list(Forfeit))
async def test_what_an_ended_trigger_left_open_is_recorded_also_without_budget(why: Forfeit) -> None:
    bench = Bench(missed_through=minute(0))
    bench.catch_up.add(account(1))
    bench.catch_up.add_first(account(2, spans=(Span(MINUTELY, START, minute(3), why),)))
    await bench.catch_up.run(minute(10), budget=0)
    assert [(time, str(reason)) for _, time, reason in bench.recorded] == [
        (minute(number), str(why)) for number in (1, 2, 3)
    ]
    assert bench.queued == []


async def test_an_edit_in_the_middle_of_a_run_is_respected() -> None:
    bench = Bench(missed_through=minute(50))
    armed = account(1)
    bench.catch_up.add(armed)
    await bench.catch_up.run(minute(50), budget=5)
    armed.ledger.spans = (Span(MINUTELY, START, minute(7), Forfeit.PAUSED),)
    await bench.catch_up.run(minute(50), budget=100)
    assert bench.times == [minute(number) for number in range(1, 6)]
    assert [time for _, time, _ in bench.recorded] == [minute(6), minute(7)]


async def test_an_old_schedules_last_times_before_an_edit_of_the_near_future_wait_for_their_time() -> None:
    bench = Bench(missed_through=START)
    armed = account(1, spans=(Span(MINUTELY, START, minute(3)),))
    armed.trigger = armed.trigger._replace(in_force_from=minute(3))  # the database's clock is ahead of ours
    bench.catch_up.add(armed)
    await bench.catch_up.run(minute(1), budget=100)
    assert bench.times == [minute(1)]
    await bench.catch_up.run(minute(5), budget=100)
    assert bench.times == [minute(1), minute(2), minute(3)]
    assert armed not in bench.catch_up


async def test_a_trigger_whose_fires_all_fail_leaves_the_budget_to_the_others() -> None:
    bench = Bench(missed_through=minute(1000), max_runs=10)
    failing, healthy = account(1), account(2)
    bench.catch_up.add(failing)
    await bench.catch_up.run(minute(1000), budget=10)  # all ten are tried again and again
    bench.catch_up.add(healthy)
    await bench.catch_up.run(minute(1000), budget=10)
    assert [fire.armed for fire in bench.queued] == [failing] * 10 + [healthy] * 10
    assert failing in bench.catch_up
