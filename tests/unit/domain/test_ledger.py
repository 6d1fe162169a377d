"""The account of one trigger: what is settled stays settled, what is open stays owed."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.life import THE_END, Span
from scheduler_worker.domain.schedule import CronRule, schedule_of

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTELY = schedule_of(CronRule("* * * * *"), activated_at=START)


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def ledger() -> Ledger:
    return Ledger((Span(MINUTELY, START, THE_END),), confirmed_through=START)


def open_times(account: Ledger, now: datetime) -> list[datetime]:
    return [time for time, _ in account.owed(now)]


def test_the_mark_follows_fires_that_settle_in_order() -> None:
    account = ledger()
    for number in (1, 2, 3):
        account.hand_out(minute(number))
        assert account.settle(minute(number))
        assert account.confirmed_through == minute(number)


def test_the_mark_waits_for_the_smallest_open_time() -> None:
    account = ledger()
    for number in (1, 2, 3):
        account.hand_out(minute(number))
    assert not account.settle(minute(3))
    assert not account.settle(minute(2))
    assert account.confirmed_through == START
    assert account.settle(minute(1))
    assert account.confirmed_through == minute(3)


def test_a_time_that_was_never_handed_out_holds_the_mark_back() -> None:
    account = ledger()
    account.hand_out(minute(2))
    account.settle(minute(2))
    assert account.confirmed_through == START
    assert open_times(account, minute(3)) == [minute(1), minute(3)]


def test_a_handed_out_time_is_not_owed_until_it_is_released() -> None:
    account = ledger()
    account.hand_out(minute(1))
    assert open_times(account, minute(2)) == [minute(2)]
    account.release(minute(1))
    assert open_times(account, minute(2)) == [minute(1), minute(2)]


def test_settling_twice_moves_nothing() -> None:
    account = ledger()
    account.settle(minute(1))
    assert not account.settle(minute(1))
    assert account.confirmed_through == minute(1)


def test_an_account_closes_only_when_nothing_before_the_instant_is_open() -> None:
    account = ledger()
    assert not account.close_up_to(minute(2))
    account.settle(minute(1))
    account.hand_out(minute(2))
    assert not account.close_up_to(minute(2))
    account.settle(minute(2))
    assert account.close_up_to(minute(2) + timedelta(seconds=30))
    assert account.confirmed_through == minute(2) + timedelta(seconds=30)


def test_reopening_keeps_what_the_old_schedule_fired_and_owes_what_the_new_one_adds() -> None:
    every_other = Span(schedule_of(CronRule("@every 2m"), activated_at=START), START, THE_END)
    account = Ledger((every_other,), confirmed_through=START)
    account.settle(minute(2))
    account.settle(minute(4))
    account.settle(minute(8))
    assert not account.reopen(minute(5))
    assert account.reopen(minute(3))
    account.spans = (every_other._replace(until=minute(3)), Span(MINUTELY, minute(3), THE_END))
    assert account.confirmed_through == minute(3)
    assert open_times(account, minute(8)) == [minute(5), minute(6), minute(7)]
    for number in (5, 6, 7):
        account.settle(minute(number))
    assert account.confirmed_through == minute(8)


def test_a_time_of_no_span_is_nobodys() -> None:
    account = Ledger((Span(MINUTELY, START, minute(5)),), confirmed_through=START)
    assert account.span_of(minute(5)) is account.spans[0]
    assert account.span_of(minute(6)) is None
    assert account.span_of(minute(2) + timedelta(seconds=1)) is None
    assert account.is_over
    assert not ledger().is_over


_moves = st.lists(st.tuples(st.sampled_from(["hand_out", "settle", "release"]), st.integers(1, 12)), max_size=60)


@given(_moves)
def test_the_mark_is_the_end_of_the_settled_prefix_whatever_happens(moves: list[tuple[str, int]]) -> None:
    account = ledger()
    settled: set[int] = set()
    handed_out: set[int] = set()
    for move, number in moves:
        if number in settled:
            continue  # what is settled is known, and nobody touches it again
        if move == "hand_out":
            account.hand_out(minute(number))
            handed_out.add(number)
        elif move == "release":
            account.release(minute(number))
            handed_out.discard(number)
        else:
            account.settle(minute(number))
            settled.add(number)
            handed_out.discard(number)
        prefix = 0
        while prefix + 1 in settled:
            prefix += 1
        assert account.confirmed_through == minute(prefix)
        assert open_times(account, minute(12)) == [
            minute(each) for each in range(1, 13) if each not in settled and each not in handed_out
        ]
        assert account.open_fires == len(handed_out)
