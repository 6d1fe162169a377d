"""Keeps APScheduler's job store in step with the trigger rows, and owed times on their way.

Decides for every row whether it is armed, from which fire time on, and what it owes. One object per trigger holds its
account over edits, pauses and resumes. A bad row is reported once per revision and harms only itself.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import structlog

from scheduler_worker.catch_up import CatchUp, CatchUpRules
from scheduler_worker.database.trigger_store import RevisionRow, TriggerRow
from scheduler_worker.database.unfired_store import UnfiredFire
from scheduler_worker.domain.fire import ArmedTrigger, Fire, FireKind
from scheduler_worker.domain.ledger import Ledger
from scheduler_worker.domain.life import THE_END, Forfeit, Revision, spans_of
from scheduler_worker.domain.outcomes import UnfiredReason
from scheduler_worker.domain.run_name import RunNameClaims
from scheduler_worker.domain.trigger import Trigger, TriggerKey
from scheduler_worker.fire_dispatcher import FireDispatcher
from scheduler_worker.parted_dict import PartedDict, by_neighbours
from scheduler_worker.progress_writer import ProgressWriter
from scheduler_worker.scheduling.scheduler import RunScheduler
from scheduler_worker.scheduling.triggers import LIVE_WINDOW, trigger_for
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.trigger_rows import baseline, decode, first_unnoticed, is_scheduled, life_of, needs_history

ROWS_PER_LOOP_TURN = 100
"""Rows taken in before the event loop gets its turn: a few milliseconds."""

log = structlog.get_logger(__name__)


class TriggerReader(Protocol):
    """What is read of the database while triggers are armed and fired."""

    async def rows_by_id(self, ids: Collection[int]) -> Sequence[TriggerRow]:
        """Return the rows in whatever state they are; a row that is gone is absent."""

    async def history(self, since: Mapping[TriggerKey, datetime]) -> Mapping[TriggerKey, Sequence[RevisionRow]]:
        """Return per trigger the revision in force at the given instant and the later ones, oldest first."""


class TriggerScheduler:
    """The armed triggers of one worker, for as long as it is the owner.

    Attributes:
        known: the revision of every active row, armed or bad: what a sync need not look at again.
        bad_rows: what is wrong, by trigger id.
        is_loading: until `end_load`. Meanwhile single triggers are not worth a line of log.
    """

    def __init__(
        self,
        *,
        scheduler: RunScheduler,
        reader: TriggerReader,
        dispatcher: FireDispatcher,
        progress: ProgressWriter,
        rules: CatchUpRules,
        clock: Callable[[], datetime],
        metrics: Metrics,
    ) -> None:
        self._scheduler = scheduler
        self._reader = reader
        self._dispatcher = dispatcher
        self._progress = progress
        self._clock = clock
        self._metrics = metrics
        self._rules = rules
        dispatcher.queue.on_evicted = lambda fire: self._put_back(fire.armed, fire.time)
        self._catch_up = CatchUp(rules, missed_through=clock(), offer=dispatcher.offer, will_not_run=self._will_not_run)
        self._runs_left = rules.max_runs
        self._accounts: PartedDict[int, ArmedTrigger] = PartedDict(by_neighbours)
        self._ended: dict[int, ArmedTrigger] = {}
        self._run_names = RunNameClaims()
        self._retried: dict[tuple[int, datetime], Fire] = {}
        self.known: PartedDict[int, int] = PartedDict(by_neighbours)
        self.bad_rows: dict[int, str] = {}
        self.is_loading = True
        self._updating = asyncio.Lock()

    # -- rows in ---------------------------------------------------------------------------------------------------

    async def update_schedules(
        self, rows: Sequence[TriggerRow], gone: Iterable[int] = (), *, seen_since: datetime | None = None
    ) -> None:
        """Arm, replace and disarm by `rows`, whatever state they are in, and disarm what is `gone` from the table.

        A row older than what is known here is passed over, so the order of overlapping reads does not matter.
        `seen_since` is for rows that ended before they were ever seen here: what they owed from then on was left open.

        Raises:
            DatabaseUnavailableError: a row's history could not be read; nothing of `rows` was taken in.
        """
        async with self._updating:
            since = {row.id: self._look_back_to(row, seen_since) for row in rows}
            history = await self._history_of(rows, since)
            for count, row in enumerate(rows, start=1):
                if row.revision > self._newest_revision(row.id):
                    self._take_in(row, since[row.id], history.get(row.key, ()))
                if count % ROWS_PER_LOOP_TURN == 0:
                    await asyncio.sleep(0)
            for trigger_id in gone:
                self._take_out(trigger_id)
        self._count()

    async def reload(self, ids: Collection[int]) -> None:
        """Read the rows of `ids` and take them in; those that are gone from the table are disarmed.

        Raises:
            DatabaseUnavailableError: the database is away; some of them may have been taken in.
        """
        rows = await self._reader.rows_by_id(ids)
        await self.update_schedules(rows, gone=set(ids) - {row.id for row in rows})

    def end_load(self) -> None:
        """Note that every trigger was taken in once."""
        self.is_loading = False
        self._progress.first_marks_wait = False

    async def _history_of(
        self, rows: Sequence[TriggerRow], since: Mapping[int, datetime]
    ) -> Mapping[TriggerKey, Sequence[RevisionRow]]:
        wanted = {row.key: since[row.id] for row in rows if needs_history(row, since[row.id])}
        return await self._reader.history(wanted) if wanted else {}

    def _newest_revision(self, trigger_id: int) -> int:
        account = self._accounts.get(trigger_id)
        return self.known.get(trigger_id) or 0 if account is None else account.trigger.revision

    def _look_back_to(self, row: TriggerRow, seen_since: datetime | None) -> datetime:
        """Return the instant from which on the trigger's revisions matter."""
        account = self._accounts.get(row.id)
        if account is not None:
            # An edit that was not noticed may be older than what the old schedule has fired since.
            return min(account.ledger.confirmed_through, account.trigger.in_force_from)
        if row.confirmed_through is None and seen_since is not None:
            return min(seen_since, baseline(row))
        return baseline(row)

    # -- one row ---------------------------------------------------------------------------------------------------

    def _take_in(self, row: TriggerRow, since: datetime, history: Sequence[RevisionRow]) -> None:
        now = self._clock()
        trigger, fault = decode(row)
        if trigger.schedule is not None and (other := self._run_names.claim(trigger.key)) is not None:
            fault = f"its run names would be those of trigger {other}: names with ':' in them run together; rename one"
        account = self._accounts.get(row.id)
        if account is not None and trigger.in_force_from <= account.trigger.in_force_from:
            # Written by hand without moving its times: it counts from now, since edits are not retroactive.
            trigger = trigger.counting_from(now)
        if fault is not None:
            trigger = trigger.without_schedule()
        has_moved = False
        if account is not None:
            has_moved = account.ledger.reopen(first_unnoticed(trigger, history, account.trigger))
            since = account.ledger.confirmed_through
        spans = life_of(trigger, row, history, account.trigger if account else None, since)
        if is_scheduled(row):
            self.known[row.id] = row.revision
        else:
            self.known.discard(row.id)
        self._note_fault(trigger, fault)
        if account is None:
            account = ArmedTrigger(trigger, Ledger(spans, confirmed_through=since))
        else:
            account.trigger, account.ledger.spans = trigger, spans
        self._accounts[row.id] = account
        has_moved |= account.ledger.close_up_to(min(trigger.in_force_from, now))
        if has_moved:
            self._progress.moved(account)
        elif row.confirmed_through is None:
            self._progress.has_no_mark(account)
        if trigger.schedule is None:
            self._run_names.give_up(trigger.key)
            self._disarm(account)
        else:
            self._arm(account, now)

    def _take_out(self, trigger_id: int) -> None:
        """Disarm a trigger whose row is gone from the table: it ends now, and what it owed is forfeited."""
        self.known.discard(trigger_id)
        self.bad_rows.pop(trigger_id, None)
        account = self._accounts.get(trigger_id)
        if account is None:
            return
        end = self._clock()
        old = account.trigger
        revisions = [
            Revision(number=old.revision, in_force_from=old.in_force_from, schedule=old.schedule),
            Revision(number=old.revision + 1, in_force_from=end, ended_by=Forfeit.DELETED),
        ]
        account.ledger.spans = spans_of(revisions, baseline=account.ledger.confirmed_through)
        account.trigger = old.without_schedule().counting_from(end)
        self._run_names.give_up(old.key)
        self._disarm(account)

    def _arm(self, account: ArmedTrigger, now: datetime) -> None:
        trigger, ledger = account.trigger, account.ledger
        schedule = trigger.schedule
        assert schedule is not None
        # Times that nobody was there for go through catch-up; times that were only seen late are due now. The job
        # begins with this revision; what earlier ones still owe has no job and goes through catch-up.
        live_from = max(
            now - LIVE_WINDOW,
            self._catch_up.missed_through,
            ledger.confirmed_through,
            trigger.in_force_from,
        )
        first_open, _ = next(ledger.owed(THE_END), (None, None))
        next_fire = first_open
        if first_open is not None and first_open <= live_from:
            self._catch_up.add(account)
            next_fire = schedule.next_after(live_from)
        job_id = str(trigger.id)
        if next_fire is None:
            was_armed = self._scheduler.disarm(job_id)
        else:
            was_armed = self._scheduler.arm(job_id, trigger_for(schedule), self._due, account, next_fire)
        self._ended.pop(trigger.id, None)
        if not self.is_loading:
            log.info(
                "trigger_replaced" if was_armed else "trigger_armed",
                trigger=str(trigger.key),
                trigger_id=trigger.id,
                revision=trigger.revision,
                next_fire=None if next_fire is None else next_fire.isoformat(),
            )

    def _disarm(self, account: ArmedTrigger) -> None:
        trigger = account.trigger
        if self._scheduler.disarm(str(trigger.id)):
            log.info("trigger_removed", trigger=str(trigger.key), trigger_id=trigger.id, revision=trigger.revision)
        self._ended[trigger.id] = account
        self._catch_up.add_first(account)

    def _due(self, account: ArmedTrigger, fire_times: Sequence[datetime] = ()) -> None:
        """Take in the fire times that APScheduler found due."""
        oldest_live = self._clock() - LIVE_WINDOW
        ledger = account.ledger
        for time in fire_times:
            if ledger.is_known(time):
                continue
            if time < oldest_live:
                self._catch_up.add(account)
                continue
            ledger.hand_out(time)
            if not self._dispatcher.offer(Fire(account, time, FireKind.LIVE, ledger.spans)):
                self._put_back(account, time)

    def _put_back(self, account: ArmedTrigger, time: datetime) -> None:
        """Take back a fire that the queue has no room for: it is owed, and catch-up's."""
        account.ledger.release(time)
        self._catch_up.add(account)

    def _note_fault(self, trigger: Trigger, fault: str | None) -> None:
        if fault is None:
            self.bad_rows.pop(trigger.id, None)
            return
        self.bad_rows[trigger.id] = fault
        log.error(
            "trigger_bad", trigger=str(trigger.key), trigger_id=trigger.id, revision=trigger.revision, fault=fault
        )

    # -- owed times ------------------------------------------------------------------------------------------------

    async def catchup_all(self, now: datetime, *, refill: bool) -> int:
        """Hand out owed times of the past and return how many; `refill` grants the runs of one more sync."""
        if refill:
            self._runs_left = self._rules.max_runs
        budget = min(self._runs_left, self._rules.max_runs - self._dispatcher.queue.late)
        handed_out = await self._catch_up.run(now, budget=budget)
        self._runs_left -= handed_out
        self._close_ended()
        self._count()
        return handed_out

    def times_were_missed(self, through: datetime) -> None:
        """Note that nobody was there for the times up to `through`: the process slept, or the clock jumped."""
        self._catch_up.missed_through = max(self._catch_up.missed_through, through)

    def retry_unfired(self, asked_for: Iterable[UnfiredFire]) -> None:
        """Queue unfired fires that a person asked for again. Those of a trigger that is not active wait until it is."""
        self._retried = {place: fire for place, fire in self._retried.items() if not fire.is_done}
        for unfired in asked_for:
            place = (unfired.trigger_id, unfired.fire_time)
            account = self._accounts.get(unfired.trigger_id)
            if account is None or account.trigger.schedule is None or place in self._retried:
                continue
            fire = Fire(account, unfired.fire_time, FireKind.UNFIRED, account.ledger.spans, ask_first=True)
            if self._dispatcher.offer(fire):
                self._retried[place] = fire

    def _will_not_run(self, account: ArmedTrigger, time: datetime, reason: UnfiredReason) -> bool:
        return self._progress.will_not_run(account, time, reason=reason)

    def _close_ended(self) -> None:
        """Let go of triggers that are over and owe nothing more, once a last mark that says so is written."""
        for trigger_id, account in list(self._ended.items()):
            if account in self._catch_up or account.ledger.open_fires:
                continue
            if account.ledger.close_up_to(account.trigger.in_force_from):
                self._progress.moved(account)
            # Until the mark is written a resumed row would be read with an older one, and owe again what is settled.
            if not self._progress.is_pending(trigger_id):
                del self._ended[trigger_id]
                self._accounts.discard(trigger_id)

    # -- self-check ------------------------------------------------------------------------------------------------

    def rearm_lost_jobs(self) -> int:
        """Arm again what should have a job and has none (its trigger raised, or a fault of ours); return how many."""
        store = self._scheduler.store
        if len(store) == len(self._accounts) - len(self._ended):
            return 0
        lost = [
            account
            for account in self._accounts.values()
            if account.trigger.schedule is not None and store.lookup_job(str(account.trigger.id)) is None
        ]
        for account in lost:
            self._arm(account, self._clock())
            log.warning("trigger_armed_again", trigger=str(account.trigger.key))
        self._metrics.jobs_rearmed.inc(len(lost))
        return len(lost)

    def _count(self) -> None:
        self._metrics.armed_triggers.set(len(self._scheduler.store))
        self._metrics.bad_triggers.set(len(self.bad_rows))
        self._metrics.owing_triggers.set(len(self._catch_up))
