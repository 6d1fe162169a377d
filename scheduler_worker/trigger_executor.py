"""One fire, one CreateRun, and what its answer means.

A fire leaves this module settled, recorded as unfired, or back in the queue. Whatever happens in between, a fire that
did not get that far is still owed.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from scheduler_worker.domain.fire import Fire
from scheduler_worker.domain.outcomes import (
    Failure,
    Outcome,
    UnfiredReason,
    backoff,
    failure_of,
    may_have_created_a_run,
)
from scheduler_worker.domain.run_name import run_name
from scheduler_worker.domain.trigger import Trigger
from scheduler_worker.errors import RunServiceError
from scheduler_worker.fire_queue import FireQueue
from scheduler_worker.progress_writer import ProgressWriter
from scheduler_worker.reachability import Reachability
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.run_service.requests import create_run_request
from scheduler_worker.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class CallRules:
    """How calls are made.

    Attributes:
        deadline: how long one call may take.
        give_up_after: how long a doubtful failure is tried again, counted from the first try.
    """

    deadline: timedelta
    give_up_after: timedelta


class TriggerExecutor:
    """Makes runs of fires, one call at a time for each.

    Attributes:
        reachability: whether the Run Service answers, as the calls made here tell.
    """

    def __init__(
        self,
        *,
        client: RunServiceClient,
        queue: FireQueue,
        progress: ProgressWriter,
        reachability: Reachability,
        rules: CallRules,
        clock: Callable[[], datetime],
        metrics: Metrics,
        org: str = "",
    ) -> None:
        self._client = client
        self._queue = queue
        self._progress = progress
        self._rules = rules
        self._clock = clock
        self._metrics = metrics
        self._org = org
        self.reachability = reachability

    async def execute(self, fire: Fire) -> None:
        """Make the run of one fire: ask for it first if it may exist already, then CreateRun; note what came of it."""
        trigger = fire.armed.trigger
        name = run_name(trigger.key, fire.time)
        if fire.first_tried_at is None:
            fire.first_tried_at = asyncio.get_running_loop().time()
        try:
            if fire.ask_first and await self._run_exists(trigger, name):
                outcome = Outcome.FOUND
            else:
                outcome = await self._create_run(trigger, fire.time, name)
        except RunServiceError as error:
            self._failed(fire, name, error)
        else:
            self.reachability.answered()
            self._settled(fire, name, outcome)

    async def _run_exists(self, trigger: Trigger, name: str) -> bool:
        key, deadline = trigger.key, self._rules.deadline.total_seconds()
        return await self._client.run_exists(self._org, key.project, key.domain, name, timeout_seconds=deadline)

    async def _create_run(self, trigger: Trigger, fire_time: datetime, name: str) -> Outcome:
        loop = asyncio.get_running_loop()
        started = loop.time()
        request = create_run_request(trigger, fire_time, org=self._org, name=name)
        try:
            answer = await self._client.create_run(request, timeout_seconds=self._rules.deadline.total_seconds())
        finally:
            self._metrics.call_ended(loop.time() - started)
        return Outcome(answer.value)

    def _settled(self, fire: Fire, name: str, outcome: Outcome) -> None:
        # A crash from here until the next write of progress leaves the fire owed; the run's name settles that.
        lateness = self._clock() - fire.time
        self._metrics.fire_settled(outcome, lateness.total_seconds())
        self._progress.settled(fire, run_name=name, outcome=outcome, lateness=lateness)
        if log.is_enabled_for(logging.DEBUG):  # at thousands a second the fields alone are worth leaving out
            log.debug(
                "run_created",
                trigger=str(fire.armed.trigger.key),
                revision=fire.armed.trigger.revision,
                fire_time=fire.time.isoformat(),
                run_name=name,
                outcome=outcome,
                lateness_seconds=lateness.total_seconds(),
            )

    def _failed(self, fire: Fire, name: str, error: RunServiceError) -> None:
        loop_time = asyncio.get_running_loop().time()
        fire.attempts += 1
        fire.ask_first = fire.ask_first or may_have_created_a_run(error.code)
        self.reachability.failed(error.code, now=loop_time)
        self._metrics.call_failed(error.code)
        reason = self._giving_up(fire, error, loop_time)
        if reason is not None and self._progress.unfired(fire, reason=reason, error=error):
            return
        wait = backoff(fire.attempts, jitter=random.random()).total_seconds()  # noqa: S311 - spreads retries, no secret
        if self.reachability.is_reachable:
            self._queue.put_back_later(fire, seconds=wait)
        else:
            self._queue.put_back(fire)  # the probe sets the pace for all
        log.info(
            "fire_retrying",
            trigger=str(fire.armed.trigger.key),
            fire_time=fire.time.isoformat(),
            run_name=name,
            code=error.code,
            details=error.details,
            attempts=fire.attempts,
        )

    def _giving_up(self, fire: Fire, error: RunServiceError, loop_time: float) -> UnfiredReason | None:
        failure = failure_of(error.code)
        if failure is Failure.PERMANENT:
            return UnfiredReason.PERMANENT_ERROR
        tried_for = loop_time - (loop_time if fire.first_tried_at is None else fire.first_tried_at)
        if failure is Failure.DOUBTFUL and tried_for >= self._rules.give_up_after.total_seconds():
            return UnfiredReason.GAVE_UP
        return None
