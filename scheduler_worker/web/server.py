"""An HTTP server inside the running event loop.

Decides how it starts and ends. Must never touch the process's signal handlers: they belong to the command.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import uvicorn
from starlette.types import ASGIApp

from scheduler_worker.domain.service_address import parse_listen_address
from scheduler_worker.errors import ConfigError

LISTEN_KEY: Final = "SCHEDULER_HTTP_LISTEN"

_SHUTDOWN_SECONDS: Final = 2
"""How long answers in progress may take at the end; they are all short."""

_IDLE_SECONDS: Final = 75
"""How long a quiet connection stays open: longer than the usual minute between two scrapes."""


class HttpServer:
    """Serves an application at an address, from entering the context until leaving it.

    Args:
        listen: ``HOST:PORT``; port 0 picks a free one.

    Attributes:
        address: ``HOST:PORT``, with the real port once entered.
    """

    def __init__(self, listen: str, app: ASGIApp) -> None:
        self.address = listen
        self._server = _EmbeddedServer(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                timeout_keep_alive=_IDLE_SECONDS,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            ConfigError: the address is no address, is taken, or is not this host's.
        """
        listener = _listener(self.address)
        host, _, _ = self.address.rpartition(":")
        self.address = f"{host}:{listener.getsockname()[1]}"
        self._serving = asyncio.create_task(self._serve(listener), name="http-server")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._serving is not None
        self._server.should_exit = True
        await self._serving

    async def _serve(self, listener: socket.socket) -> None:
        with listener:
            await self._server.serve(sockets=[listener])


class _EmbeddedServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def _listener(listen: str) -> socket.socket:
    try:
        host, port = parse_listen_address(listen)
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except ValueError as fault:
        raise ConfigError([f"{LISTEN_KEY}: {fault}"]) from fault
    except OSError as fault:
        raise ConfigError(
            [f"{LISTEN_KEY}: can't listen on {listen!r}: {fault.strerror or fault}; name a free address of this host"]
        ) from fault
