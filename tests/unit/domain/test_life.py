"""Which fire times a trigger's life owes: edits and pauses are not retroactive."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.domain.life import THE_END, Forfeit, Revision, Span, fire_times, latest_fire_time, spans_of
from scheduler_worker.domain.schedule import CronRule, RateRule, Schedule, schedule_of

START = datetime(2026, 3, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{text}+00:00")


def cron(expression: str) -> Schedule:
    return schedule_of(CronRule(expression), activated_at=START)


MINUTELY = cron("* * * * *")
DAILY = cron("0 12 * * *")


def owed(revisions: list[Revision], *, baseline: datetime, now: datetime) -> list[tuple[datetime, Forfeit | None]]:
    spans = spans_of(revisions, baseline=baseline)
    return [(time, span.forfeit) for time, span in fire_times(spans, after=baseline, through=now)]


def deployed(number: int, when: datetime, schedule: Schedule) -> Revision:
    return Revision(number=number, in_force_from=when, schedule=schedule)


def ended(number: int, when: datetime, why: Forfeit) -> Revision:
    return Revision(number=number, in_force_from=when, ended_by=why)


def test_a_trigger_first_seen_late_still_owes_its_first_fire() -> None:
    life = [deployed(1, at("12:00:50"), MINUTELY)]
    assert owed(life, baseline=at("12:00:50"), now=at("12:01:05")) == [(at("12:01:00"), None)]


def test_a_fire_time_at_the_very_instant_of_the_deploy_is_not_owed() -> None:
    life = [deployed(1, at("12:01:00"), MINUTELY)]
    assert owed(life, baseline=at("12:01:00"), now=at("12:02:00")) == [(at("12:02:00"), None)]


def test_an_edit_owes_nothing_from_before_it() -> None:
    life = [deployed(1, START, DAILY), deployed(2, at("18:01:00"), cron("*/5 * * * *"))]
    assert owed(life, baseline=at("12:00:00"), now=at("18:02:00")) == []
    assert owed(life, baseline=at("12:00:00"), now=at("18:05:00")) == [(at("18:05:00"), None)]


def test_what_the_old_schedule_owed_before_an_edit_stays_owed() -> None:
    life = [deployed(1, START, DAILY), deployed(2, at("18:01:00"), MINUTELY)]
    assert owed(life, baseline=at("11:00:00"), now=at("18:02:30")) == [(at("12:00:00"), None), (at("18:02:00"), None)]


def test_an_old_schedule_does_not_fire_after_the_edit() -> None:
    life = [deployed(1, START, cron("0 23 * * *")), deployed(2, at("12:00:00"), cron("0 5 * * *"))]
    assert owed(life, baseline=START, now=at("23:30:00")) == []


def test_a_redeploy_with_an_unchanged_schedule_neither_drops_nor_repeats() -> None:
    life = [deployed(1, at("11:59:30"), MINUTELY), deployed(2, at("12:01:00"), MINUTELY)]
    assert owed(life, baseline=at("11:59:30"), now=at("12:02:00")) == [
        (at("12:00:00"), None),
        (at("12:01:00"), None),
        (at("12:02:00"), None),
    ]


def test_a_paused_trigger_owes_nothing_for_the_paused_time() -> None:
    life = [
        deployed(1, at("11:59:30"), MINUTELY),
        ended(2, at("12:00:30"), Forfeit.PAUSED),
        deployed(3, at("12:03:30"), MINUTELY),
    ]
    assert owed(life, baseline=at("12:00:00"), now=at("12:04:10")) == [(at("12:04:00"), None)]


@pytest.mark.parametrize("why", list(Forfeit))
def test_what_was_open_when_a_trigger_ended_is_forfeited_with_the_reason(why: Forfeit) -> None:
    life = [deployed(1, at("11:59:30"), MINUTELY), ended(2, at("12:01:30"), why)]
    assert owed(life, baseline=at("12:00:00"), now=at("12:10:00")) == [(at("12:01:00"), why)]


def test_a_delete_and_a_deploy_of_the_same_name_start_anew() -> None:
    life = [
        deployed(1, at("11:59:30"), MINUTELY),
        ended(2, at("12:00:30"), Forfeit.DELETED),
        deployed(3, at("12:03:30"), cron("*/5 * * * *")),
    ]
    assert owed(life, baseline=at("11:59:30"), now=at("12:05:00")) == [
        (at("12:00:00"), Forfeit.DELETED),
        (at("12:05:00"), None),
    ]


def test_a_bad_revision_owes_nothing_and_forfeits_nothing() -> None:
    life = [deployed(1, at("11:59:30"), MINUTELY), Revision(number=2, in_force_from=at("12:00:30"))]
    assert owed(life, baseline=at("11:59:30"), now=at("12:05:00")) == [(at("12:00:00"), None)]


def test_times_that_run_backwards_between_revisions_make_an_empty_span() -> None:
    life = [
        deployed(1, at("12:00:00"), MINUTELY),
        deployed(2, at("12:03:30"), MINUTELY),
        deployed(3, at("12:02:30"), cron("*/10 * * * *")),
    ]
    assert owed(life, baseline=at("12:00:00"), now=at("12:10:00")) == [
        (at("12:01:00"), None),
        (at("12:02:00"), None),
        (at("12:10:00"), None),
    ]


def test_owed_times_of_a_long_outage_are_computed_lazily() -> None:
    spans = (Span(MINUTELY, START - timedelta(days=3650), THE_END),)
    first = next(fire_times(spans, after=START - timedelta(days=365), through=START))
    assert first[0] == START - timedelta(days=365) + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("expression", "after", "through", "latest"),
    [
        ("* * * * *", "00:00:00", "12:00:30", "12:00:00"),
        ("0 12 * * *", "00:00:00", "23:59:00", "12:00:00"),
        ("0 12 * * *", "12:00:00", "23:59:00", None),
        ("0 12 * * *", "00:00:00", "12:00:00", "12:00:00"),
        ("0,1,2 3 * * *", "00:00:00", "23:00:00", "03:02:00"),
    ],
)
def test_the_latest_fire_time_is_found_from_behind(
    expression: str, after: str, through: str, latest: str | None
) -> None:
    span = Span(cron(expression), START, THE_END)
    found = latest_fire_time(span, after=at(after), through=at(through))
    assert found == (None if latest is None else at(latest))


# -- against a naive model of a trigger's life ---------------------------------------------------------------------

_PERIODS = {minutes: schedule_of(RateRule(minutes, "minute", START), activated_at=START) for minutes in (1, 2, 3, 7)}
_events = st.lists(
    st.tuples(
        st.integers(1, 400), st.sampled_from(["deploy", "pause", "delete", "bad"]), st.sampled_from(sorted(_PERIODS))
    ),
    min_size=1,
    max_size=8,
)


@given(_events, st.integers(0, 4000), st.integers(0, 4000))
def test_spans_agree_with_walking_every_second(events: list[tuple[int, str, int]], baseline: int, now: int) -> None:
    clock, life, model = 0, [], []
    for number, (pause, kind, period) in enumerate(events, start=1):
        clock += pause
        when = START + timedelta(seconds=clock)
        model.append((clock, kind, period))
        if kind == "deploy":
            life.append(deployed(number, when, _PERIODS[period]))
        elif kind == "bad":
            life.append(Revision(number=number, in_force_from=when))
        else:
            life.append(ended(number, when, Forfeit.PAUSED if kind == "pause" else Forfeit.DELETED))

    def in_force(second: int) -> int | None:
        written = [index for index, (time, _, _) in enumerate(model) if time < second]
        return written[-1] if written else None

    expected = []
    for second in range(baseline + 1, now + 1):
        index = in_force(second)
        if index is None or model[index][1] != "deploy" or second % (60 * model[index][2]):
            continue
        endings = [kind for _, kind, _ in model[index + 1 :] if kind in {"pause", "delete"}]
        why = {None: None, "pause": Forfeit.PAUSED, "delete": Forfeit.DELETED}[endings[0] if endings else None]
        expected.append((START + timedelta(seconds=second), why))

    assert owed(life, baseline=START + timedelta(seconds=baseline), now=START + timedelta(seconds=now)) == expected
