"""The way from the workers to the Run Service: a TCP proxy whose connections can be reset, cut and held up.

It also counts connections, which is what an outage must not be hammered with.
"""

import asyncio
import contextlib
import socket
import struct
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 65536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time: what is unsent is dropped and the peer is told so


class Network:
    """Forwards connections to `target_port` of this host.

    Attributes:
        port: where it listens.
        connected_at: when each connection came in.
    """

    def __init__(self, target_port: int, port: int = 0) -> None:
        self.port = port
        self.connected_at: list[datetime] = []
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        self.let_through()
        self.reset()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold_up(self) -> None:
        """Let nothing through until `let_through`; new connections are taken in and wait too."""
        self._flows.clear()

    def let_through(self) -> None:
        """Forward everything again, also what came in meanwhile."""
        self._flows.set()

    def reset(self) -> None:
        """Break every connection, with all that is on its way."""
        for writer in self._writers:
            connection: socket.socket = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()
        self._writers.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected_at.append(datetime.now(UTC))
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            await self._flows.wait()
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            self._writers.add(target_writer)
            try:
                await self._forward_both_ways(reader, writer, target_reader, target_writer)
            finally:
                self._writers.discard(target_writer)
                target_writer.transport.abort()
        except OSError:
            pass  # one end has gone; so goes the other
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _forward_both_ways(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target_reader: asyncio.StreamReader,
        target_writer: asyncio.StreamWriter,
    ) -> None:
        ways = {
            asyncio.create_task(self._forward(reader, target_writer)),
            asyncio.create_task(self._forward(target_reader, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            await self._flows.wait()
            writer.write(chunk)
            await writer.drain()
