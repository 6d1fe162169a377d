"""The checker finds each kind of broken promise, and only those."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scheduler_worker.domain.schedule import CronRule, RateRule, Rule
from scheduler_worker.run_service.codec import encode_automation
from tests.chaos.checker import check, unsettled
from tests.chaos.history import Call, Disturbance, History, Key, Mark, Revision, Sample, Unfired, Write
from tests.chaos.oracle import owed_times, run_name

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY = Key("p", "d", "t", "n")


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def revision(number: int, seconds: float, rule: Rule | None = None, *, active: bool = True) -> Revision:
    return Revision(
        number=number,
        action="DEPLOY",
        active=active,
        automation_spec=encode_automation(rule or CronRule("@every 2s")),
        deployed_at=at(seconds),
        updated_at=at(seconds),
        deleted_at=None,
    )


def call(seconds: float, *, received: float | None = None, outcome: str = "created") -> Call:
    return Call(
        line=1,
        received_at=at(seconds + 0.01 if received is None else received),
        key=KEY,
        run_name=run_name(KEY, at(seconds)),
        fire_time=at(seconds),
        outcome=outcome,
    )


def unfired(seconds: float, reason: str) -> Unfired:
    return Unfired(key=KEY, fire_time=at(seconds), run_name=run_name(KEY, at(seconds)), reason=reason)


def sound() -> History:
    """Every 2 s from 12:00:00.5, paused at 12:00:10.5 with the time of 10 still open, resumed at 20.5 every 5 s."""
    return History(
        horizon=at(31),
        revisions={
            KEY: [
                revision(1, 0.5),
                replace(revision(2, 10.5, active=False), updated_at=at(10.5)),
                revision(3, 20.5, CronRule("@every 5s")),
            ]
        },
        calls=[
            call(2),
            call(4),
            call(6, received=7, outcome="INTERNAL"),
            call(6, received=8),
            call(8),
            call(25),
            call(30),
        ],
        unfired=[unfired(10, "paused")],
        writes={(KEY, 2): Write(asked_at=at(10.4), done_at=at(10.6), had_progress=True)},
        samples=[Sample(at=at(5), marks={KEY: Mark(at(4), 1)}), Sample(at=at(9), marks={KEY: Mark(at(8), 1)})],
        last_marks={KEY: Mark(at(30), 3)},
    )


def kinds(history: History) -> list[str]:
    return [mismatch.kind for mismatch in check(history).mismatches]


def test_a_sound_history_passes_and_is_counted() -> None:
    verdict = check(sound())
    assert verdict.mismatches == []
    assert verdict.counts["owed"] == 7
    assert verdict.counts["runs"] == 6
    assert verdict.counts["unfired: paused"] == 1
    assert len(verdict.lateness_seconds) == 6


Damage = Callable[[History], object]


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        pytest.param(lambda h: h.calls.remove(call(4)), "lost", id="a run is missing"),
        pytest.param(lambda h: h.unfired.clear(), "lost", id="a record is missing"),
        pytest.param(lambda h: h.calls.append(call(4, received=4.5)), "doubled", id="a run was started twice"),
        pytest.param(lambda h: h.calls.append(call(14)), "unowed", id="sent for a paused time"),
        pytest.param(lambda h: h.calls.append(call(14, outcome="INTERNAL")), "unowed", id="sent in vain for one"),
        pytest.param(lambda h: h.calls.append(call(26)), "unowed", id="sent by the schedule before the edit"),
        pytest.param(lambda h: h.calls.append(call(3)), "unowed", id="sent between two times"),
        pytest.param(
            lambda h: h.calls.append(call(10, received=14)), "sent after its end", id="sent when paused for long"
        ),
        pytest.param(
            lambda h: h.calls.append(replace(call(25, outcome="already_exists"), run_name="r1")), "bad name", id="name"
        ),
        pytest.param(lambda h: h.calls.append(replace(call(25), fire_time=None)), "bad request", id="no start time"),
        pytest.param(lambda h: h.unfired.append(unfired(14, "paused")), "wrong record", id="a record of nothing owed"),
        pytest.param(lambda h: h.unfired.append(unfired(4, "deleted")), "wrong record", id="the wrong reason"),
        pytest.param(lambda h: h.unfired.append(unfired(25, "paused")), "wrong record", id="not paused at all"),
        pytest.param(
            lambda h: h.unfired.append(unfired(6, "permanent_error")), "wrong record", id="never refused for good"
        ),
        pytest.param(
            lambda h: h.samples.append(Sample(at=at(9.5), marks={KEY: Mark(at(6), 1)})),
            "mark went back",
            id="mark backwards",
        ),
        pytest.param(
            lambda h: h.samples.insert(0, Sample(at=at(3), marks={KEY: Mark(at(4), 1)})),
            "mark ran ahead",
            id="mark too early",
        ),
        pytest.param(lambda h: h.last_marks.update({KEY: Mark(at(25), 3)}), "mark stands still", id="mark left behind"),
    ],
)
def test_damage_is_found(damage: Damage, kind: str) -> None:
    history = sound()
    damage(history)
    assert kind in kinds(history)


@pytest.mark.parametrize(
    "harmless",
    [
        pytest.param(lambda h: h.calls.append(call(12)), id="fired while the pause was committed"),
        pytest.param(lambda h: h.calls.append(call(10, received=12)), id="sent while the pause was committed"),
        pytest.param(lambda h: h.calls.append(call(4, outcome="already_exists")), id="sent again and refused"),
        pytest.param(lambda h: h.calls.append(call(35)), id="owed later than the horizon"),
    ],
)
def test_what_nobody_can_tell_apart_is_allowed(harmless: Damage) -> None:
    history = sound()
    harmless(history)
    assert kinds(history) == []


def test_a_database_that_was_away_explains_a_pause_that_was_noticed_late() -> None:
    history = sound()
    history.calls.append(call(16))
    assert kinds(history) == ["unowed"]
    history.disturbances.append(Disturbance(lane="database", kind="stop", start=at(11), end=at(15)))
    assert kinds(history) == []


def test_a_pause_before_the_first_progress_may_leave_no_record() -> None:
    history = sound()
    history.unfired.clear()
    history.writes[KEY, 2] = replace(history.writes[KEY, 2], had_progress=False)
    assert kinds(history) == []
    assert check(history).counts["allowed: switched off before it was known"] == 1


def test_a_mark_made_without_knowing_a_revision_counts_only_up_to_it() -> None:
    history = sound()
    history.samples.append(Sample(at=at(26), marks={KEY: Mark(at(28), 2)}))
    assert kinds(history) == []
    history.samples.append(Sample(at=at(27), marks={KEY: Mark(at(30), 3)}))
    assert kinds(history) == ["mark ran ahead"]


def test_unsettled_counts_what_is_still_open() -> None:
    history = sound()
    assert unsettled(history) == 0
    history.calls.remove(call(30))
    history.unfired.clear()
    history.last_marks[KEY] = Mark(at(8), 3)
    assert unsettled(history) == 3  # two times, one mark


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        pytest.param(CronRule("@every 3s"), [3, 6], id="every"),
        pytest.param(CronRule("* * * * *", "Asia/Kathmandu"), [], id="minutes"),
        pytest.param(RateRule(1, "minute", at(-53)), [7], id="rate from a start time"),
        pytest.param(RateRule(1, "minute", at(7)), [7], id="a start time is a fire time"),
        pytest.param(CronRule("0 0 30 2 *"), [], id="bad"),
        pytest.param(CronRule(""), [], id="empty"),
    ],
)
def test_the_oracle_knows_the_forms_of_the_plan(rule: Rule, seconds: list[int]) -> None:
    owed = owed_times([revision(1, 0.5, rule)], at(8.9))
    assert [one.time for one in owed] == [at(each) for each in seconds]


def test_the_oracle_reads_cron_in_its_zone() -> None:
    owed = list(owed_times([revision(1, 0.5, CronRule("15 * * * *", "Asia/Kathmandu"))], NOON + timedelta(hours=1)))
    assert [one.time for one in owed] == [NOON + timedelta(minutes=30)]  # 5:45 ahead: 12:30 is 18:15 there
