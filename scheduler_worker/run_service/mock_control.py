"""A small HTTP door to a mock Run Service, for tests that run it as a process of its own.

Decides nothing: `GET /state` shows the counters, `PUT /faults` replaces all faults by those of a JSON object.
Must never be reachable in production, so it listens only where it is told to.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from scheduler_worker.domain.service_address import parse_listen_address
from scheduler_worker.run_service.mock_faults import Faults
from scheduler_worker.run_service.mock_server import MockRunService

# Names are listed to find a fault by, not to copy the journal.
_DOUBLED_NAMES_SHOWN = 100


def control_app(mock: MockRunService) -> Starlette:
    """Return the web application that shows and steers `mock`."""

    async def show_state(_request: Request) -> JSONResponse:
        return JSONResponse(state_of(mock))

    async def replace_faults(request: Request) -> JSONResponse:
        try:
            mock.faults = Faults.from_json(json.loads(await request.body()))
        except ValueError as fault:
            return JSONResponse({"error": str(fault)}, status_code=400)
        return JSONResponse(mock.faults.as_json())

    return Starlette(
        routes=[Route("/state", show_state, methods=["GET"]), Route("/faults", replace_faults, methods=["PUT"])]
    )


def state_of(mock: MockRunService) -> dict[str, Any]:
    """Return the counters and the present faults of `mock`, ready for JSON."""
    doubled = mock.runs.doubled
    return {
        "created": mock.runs.created,
        "calls": mock.calls,
        "details_calls": mock.details_calls,
        "outcomes": dict(mock.runs.outcomes),
        "known_runs": len(mock.runs.starts),
        "most_starts_of_one_run": max(mock.runs.starts.values(), default=0),
        "doubled_runs": len(doubled),
        "doubled_names": [key.name for key in doubled[:_DOUBLED_NAMES_SHOWN]],
        "in_flight": mock.in_flight,
        "most_in_flight": mock.most_in_flight,
        "faults": mock.faults.as_json(),
    }


@contextlib.asynccontextmanager
async def serve_control(mock: MockRunService, listen: str) -> AsyncIterator[str]:
    """Serve `control_app` at ``HOST:PORT`` (port 0: a free one) while the context lasts, and yield the address.

    Raises:
        OSError: the address is taken or unusable.
        ValueError: `listen` is no address.
    """
    host, port = parse_listen_address(listen)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.create_server((host.strip("[]"), port), family=family) as listener:
        server = _QuietServer(
            uvicorn.Config(control_app(mock), log_config=None, access_log=False, lifespan="off", ws="none")
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"{host}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


class _QuietServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command that owns the process."""
        yield
