"""A trigger's life in random order - deploys, edits, pauses, deletes, restarts, outages - against a naive model."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.life import Forfeit, Revision, spans_of
from scheduler_worker.domain.schedule import RateRule, schedule_of

START = datetime(2026, 3, 1, tzinfo=UTC)
SCHEDULES = {minutes: schedule_of(RateRule(minutes, "minute", START), activated_at=START) for minutes in (1, 2, 5)}

# (seconds until it happens, what happens, the period of a deploy in minutes)
_happenings = st.lists(
    st.tuples(
        st.integers(1, 200),
        st.sampled_from(["deploy", "pause", "delete", "look", "look", "restart", "outage", "back"]),
        st.sampled_from(sorted(SCHEDULES)),
    ),
    max_size=25,
)


@dataclass
class Worker:
    """What a worker does with one trigger, by the same parts and without anything around them."""

    durable_mark: datetime = START
    ledger: Ledger | None = None
    is_away: bool = False
    fired: list[datetime] = field(default_factory=list)
    recorded: list[tuple[datetime, Forfeit]] = field(default_factory=list)

    def look(self, revisions: list[Revision], now: datetime) -> None:
        if self.is_away or not revisions:
            return
        if self.ledger is None:
            self.ledger = Ledger((), confirmed_through=self.durable_mark)
        self.ledger.spans = spans_of(revisions, baseline=self.ledger.confirmed_through)
        for time, span in self.ledger.owed(now):
            if span.forfeit is None:
                self.fired.append(time)
            else:
                self.recorded.append((time, span.forfeit))
            self.ledger.settle(time)
        self.durable_mark = self.ledger.confirmed_through

    def restart(self) -> None:
        self.ledger = None


@dataclass
class Model:
    """The same, by walking the seconds: what is open is fired at the next look, unless the trigger ended before."""

    second: int = 0
    period: int | None = None
    open: list[int] = field(default_factory=list)
    forfeited: list[tuple[int, Forfeit]] = field(default_factory=list)
    fired: list[int] = field(default_factory=list)
    recorded: list[tuple[int, Forfeit]] = field(default_factory=list)

    def pass_until(self, second: int) -> None:
        for each in range(self.second + 1, second + 1):
            if self.period is not None and each % (60 * self.period) == 0:
                self.open.append(each)
        self.second = second

    def end(self, why: Forfeit) -> None:
        self.forfeited += [(second, why) for second in self.open]
        self.open.clear()
        self.period = None

    def look(self) -> None:
        self.fired += self.open
        self.recorded += self.forfeited
        self.open.clear()
        self.forfeited.clear()


@given(_happenings)
def test_every_owed_time_is_fired_once_or_recorded_whatever_happens(happenings: list[tuple[int, str, int]]) -> None:
    worker, model, revisions = Worker(), Model(), list[Revision]()
    for pause, what, period in [*happenings, (1, "back", 1), (1, "look", 1)]:
        model.pass_until(model.second + pause)
        now = START + timedelta(seconds=model.second)
        match what:
            case "deploy":
                model.period = period
                revisions.append(Revision(number=len(revisions) + 1, in_force_from=now, schedule=SCHEDULES[period]))
            case "pause" | "delete":
                why = Forfeit.PAUSED if what == "pause" else Forfeit.DELETED
                model.end(why)
                revisions.append(Revision(number=len(revisions) + 1, in_force_from=now, ended_by=why))
            case "look":
                worker.look(revisions, now)
                if not worker.is_away:
                    model.look()
            case "restart":
                worker.restart()
            case "outage" | "back":
                worker.is_away = what == "outage"
    assert worker.fired == [START + timedelta(seconds=second) for second in sorted(model.fired)]
    assert worker.recorded == [(START + timedelta(seconds=second), why) for second, why in sorted(model.recorded)]
    assert len(set(worker.fired)) == len(worker.fired)
