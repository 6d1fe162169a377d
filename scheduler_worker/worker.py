"""Start order and stop order: one owner at a time, everything else built anew for each term of ownership.

A term begins when the lease is held and ends when it is lost, when the worker is told to stop, or when a part fails.
"""

import asyncio
from enum import StrEnum
from typing import Any

import structlog

from scheduler_worker import garbage
from scheduler_worker.clock import Clock
from scheduler_worker.errors import DatabaseUnavailableError
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.term import Adapters, Term, WorkerOptions

LEASE_RETRY_SECONDS = 0.5
"""Wait between two tries to get a lost lease back: a little less than a standby's, which has to reload everything."""

log = structlog.get_logger(__name__)


class Role(StrEnum):
    """What a worker is doing."""

    STARTING = "starting"
    STANDBY = "standby"
    OWNER = "owner"
    STOPPING = "stopping"


class Worker:
    """Waits for the lease, works while it is held, and starts over when it is lost.

    Attributes:
        role: what it is doing now.
        term: the parts at work; None while it is not the owner.
        database_fault: why the lease can't be seen just now; None while the database answers.
    """

    def __init__(self, adapters: Adapters, options: WorkerOptions, *, clock: Clock, metrics: Metrics) -> None:
        self._adapters = adapters
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self.role = Role.STARTING
        self.term: Term | None = None
        self.database_fault: DatabaseUnavailableError | None = None

    @property
    def is_sure_of_lease(self) -> bool:
        """Whether the lease is held, as far as can be known here."""
        return self._adapters.lease.is_held

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. A part that fails ends the worker with its error: starting anew is the cure."""
        lease = self._adapters.lease
        try:
            while not stop.is_set() and await self._become_owner(stop):
                self._metrics.is_owner.set(1)
                garbage.keep_what_there_is()  # the program itself
                try:
                    await self._own(stop)
                finally:
                    self._metrics.is_owner.set(0)
                    self.term = None
                if not stop.is_set():  # the collector takes its time, and a worker that ends has a lease to give up
                    garbage.let_go()  # the parts of a term know each other: only the collector can free them
        finally:
            self.role = Role.STOPPING
            await lease.release()

    async def _become_owner(self, stop: asyncio.Event) -> bool:
        """Wait for the lease; say False when told to stop first."""
        self.role = Role.STANDBY
        log.info("lease_waiting")
        acquiring = asyncio.create_task(self._adapters.lease.acquire(on_wait=self._note_database))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                return False
            await acquiring
        finally:
            await _cancel({acquiring, stopping})
        self._note_database(None)
        self.role = Role.OWNER
        log.info("lease_acquired")
        return True

    async def _own(self, stop: asyncio.Event) -> None:
        term = self.term = Term(self._adapters, self._options, clock=self._clock, metrics=self._metrics)
        tasks = {asyncio.create_task(loop) for loop in term.work()}
        lease_gone = asyncio.create_task(self._keep_lease(term))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({lease_gone, stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, lease_gone):
                if task.done():
                    await task  # a loop that ended has failed
            if stopping.done():
                self.role = Role.STOPPING
                log.info("worker_stopping")
                await term.finish(self._options.shutdown_grace)
        finally:
            await term.abandon()
            await _cancel({lease_gone, stopping, *tasks})
        # Also after the lease has gone to another worker: marks only move forward, and these are true.
        await term.write_last_progress()

    async def _keep_lease(self, term: Term) -> None:
        """Return when the lease has gone to another worker.

        A lost lease stops firing at once, until it is clear who holds it. While the database is away nobody can, and
        the term goes on from memory. A network that cuts off only this worker looks the same from here: then both
        fire, and the run names keep it at one run for each fire time.
        """
        lease = self._adapters.lease
        while True:
            await lease.lost.wait()
            term.dispatcher.hold()
            log.warning("lease_lost")
            regained = None
            while regained is None:
                try:
                    regained = await lease.regain()
                except DatabaseUnavailableError as error:
                    self._note_database(error)
                    if self._options.fire_without_database:
                        term.dispatcher.go_on()
                    await asyncio.sleep(LEASE_RETRY_SECONDS)
            self._note_database(None)
            if not regained:
                return
            log.info("lease_regained")
            term.queue.ask_first()  # between the loss and now another worker may have been the owner
            term.dispatcher.go_on()
            term.syncer.ask()

    def _note_database(self, fault: DatabaseUnavailableError | None) -> None:
        before, self.database_fault = self.database_fault, fault
        if fault is not None and before is None:
            log.warning("database_away", error=str(fault))
        elif fault is None and before is not None:
            log.info("database_back")


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel what is still running and wait until it has ended, whatever it ends with."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
