"""The order of fires, the bound on their number, and the back-off."""

import asyncio
from datetime import UTC, datetime, timedelta

from scheduler_worker.domain.fire import ArmedTrigger, Fire, FireKind
from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.trigger import Trigger, TriggerKey
from scheduler_worker.fire_queue import FireQueue

START = datetime(2026, 3, 1, tzinfo=UTC)


def fire(kind: FireKind, second: int = 0) -> Fire:
    trigger = Trigger(id=1, key=TriggerKey("p", "d", "t", "n"), revision=1, in_force_from=START, schedule=None)
    return Fire(ArmedTrigger(trigger, Ledger((), confirmed_through=START)), START + timedelta(seconds=second), kind, ())


def test_live_fires_go_before_late_ones_and_each_lane_keeps_its_order() -> None:
    queue = FireQueue(capacity=10)
    late, live = [fire(FireKind.LATE, n) for n in range(2)], [fire(FireKind.LIVE, n) for n in range(2)]
    for each in [late[0], live[0], late[1], live[1]]:
        assert queue.offer(each)
    assert [queue.pop(late_allowed=True) for _ in range(5)] == [*live, *late, None]


def test_late_fires_stay_when_they_are_not_allowed() -> None:
    queue = FireQueue(capacity=10)
    queue.offer(fire(FireKind.LATE))
    assert queue.pop(late_allowed=False) is None
    assert queue.late == queue.late_pending == 1


async def test_a_full_queue_refuses_new_fires_and_takes_its_own_back() -> None:
    queue = FireQueue(capacity=2)
    assert queue.offer(fire(FireKind.LIVE))
    queue.put_back_later(fire(FireKind.LATE), seconds=60)
    assert not queue.offer(fire(FireKind.LATE))
    queue.put_back(fire(FireKind.LIVE))
    assert len(queue) == 3
    queue.close()


async def test_a_fire_comes_back_after_its_wait_the_soonest_first() -> None:
    queue = FireQueue(capacity=10)
    changed = asyncio.Event()
    queue.on_change = changed.set
    slow, quick = fire(FireKind.LATE), fire(FireKind.LIVE)
    queue.put_back_later(slow, seconds=0.02)
    queue.put_back_later(quick, seconds=0.01)
    assert (queue.waiting, queue.late_pending) == (2, 1)
    await changed.wait()
    assert queue.pop(late_allowed=True) is quick
    changed.clear()
    await changed.wait()
    assert queue.pop(late_allowed=True) is slow
    assert len(queue) == queue.late_pending == 0


async def test_a_closed_queue_is_empty_and_has_no_timer() -> None:
    queue = FireQueue(capacity=10)
    queue.put_back_later(fire(FireKind.LATE), seconds=0.01)
    queue.offer(fire(FireKind.LIVE))
    queue.close()
    assert len(queue) == queue.late_pending == 0


async def test_a_live_fire_takes_the_place_of_one_that_waits_for_its_next_try() -> None:
    queue = FireQueue(capacity=2)
    evicted: list[Fire] = []
    queue.on_evicted = evicted.append
    failing, live = [fire(FireKind.LATE, n) for n in range(2)], [fire(FireKind.LIVE, n) for n in range(3)]
    for seconds, each in enumerate(failing, start=60):
        queue.put_back_later(each, seconds=seconds)
    assert [queue.offer(each) for each in live] == [True, True, False]
    assert evicted == list(reversed(failing))
    assert (len(queue), queue.late_pending) == (2, 0)
    queue.close()
