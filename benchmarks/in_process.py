"""The parts of a worker in this process, for figures that are not seen from outside."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from scheduler_worker import app
from scheduler_worker.clock import system_clock
from scheduler_worker.config import load_settings
from scheduler_worker.run_service.client import RunServiceClient
from scheduler_worker.telemetry.logs import configure_logging
from scheduler_worker.telemetry.metrics import Metrics
from scheduler_worker.term import Term

_POLL_SECONDS = 0.005


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds."""
    while not condition():  # noqa: ASYNC110 - the parts are watched as they are, without hooks for a measurement
        await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def running_term(
    database_url: str, mock: str, *, held: bool = False, client: RunServiceClient | None = None, **settings: str
) -> AsyncIterator[Term]:
    """Run a term of ownership, wired as the worker wires it; ready when its first sync is through.

    `held` makes no calls; `client` stands in for the worker's own.
    """
    given = {"database_url": database_url, "run_service_url": mock, **settings}
    loaded = load_settings({f"SCHEDULER_{name.upper()}": value for name, value in given.items()})
    configure_logging(level="warning", form="json")
    async with AsyncExitStack() as stack:
        adapters = await app._open(loaded, stack)
        if client is not None:
            adapters = replace(adapters, run_service=await stack.enter_async_context(client))
        term = Term(adapters, app._options(loaded), clock=system_clock, metrics=Metrics())
        if held:
            term.dispatcher.hold()
        tasks = [asyncio.create_task(loop) for loop in term.work()]
        try:
            await term.syncer.loaded.wait()
            yield term
        finally:
            await term.abandon()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
