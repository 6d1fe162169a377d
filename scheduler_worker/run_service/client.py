"""Calls the Run Service over gRPC.

Decides which answers mean success, and when a fresh connection is needed. Must never retry: when to send again, and
whether to ask first, is the caller's decision.
"""

import asyncio
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self

import grpc
import grpc.aio

from scheduler_worker.domain.service_address import ServiceAddress, parse_run_service_url
from scheduler_worker.errors import RunServiceError
from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.channel import is_lookup_failure, open_channel
from scheduler_worker.run_service.requests import run_identifier

SERVICE_NAME = workflow_pb2.DESCRIPTOR.services_by_name["RunService"].full_name

# gRPC waits longer and longer, up to two minutes, before it looks up a name that was unknown. A service whose name
# comes and goes with it must be found soon, so the channel is replaced instead, this often at most.
_REPLACEMENT_PAUSE_SECONDS = 1.0
# Calls that were under way when a channel was replaced may still end on it.
_DRAIN_SECONDS = 60.0

# What GetRunDetails says when the run is not there, or when the service does not offer the question.
_RUN_NOT_FOUND = frozenset({"NOT_FOUND", "UNIMPLEMENTED"})


class CreateRunAnswer(Enum):
    """How CreateRun succeeded: either way the run exists."""

    CREATED = "created"
    ALREADY_EXISTS = "already_exists"


class _Connection(NamedTuple):
    channel: grpc.aio.Channel
    create_run: grpc.aio.UnaryUnaryMultiCallable[workflow_pb2.CreateRunRequest, None]
    get_run_details: grpc.aio.UnaryUnaryMultiCallable[workflow_pb2.GetRunDetailsRequest, None]
    opened_at_seconds: float  # the event loop's time


class RunServiceClient:
    """One connection to the Run Service, opened by `start` or ``async with`` and made anew by itself when it breaks.

    `close` may be called at any time and more than once; it ends the calls in flight with a RunServiceError CANCELLED.

    Raises:
        ValueError: `url` is not of a form that `parse_run_service_url` reads.
    """

    def __init__(self, url: str) -> None:
        self._address = parse_run_service_url(url)
        self._connection: _Connection | None = None
        self._draining: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin to connect, so that the first call need not wait for it. An unreachable service is no error here."""
        if self._connection is None:
            self._connection = _connect(self._address)
            self._connection.channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        """Close the connection at once."""
        connection, self._connection = self._connection, None
        draining = list(self._draining)
        for task in draining:
            task.cancel()
        await asyncio.gather(*draining, return_exceptions=True)
        if connection is not None:
            await connection.channel.close()

    async def create_run(self, request: workflow_pb2.CreateRunRequest, *, timeout_seconds: float) -> CreateRunAnswer:
        """Send `request` once and say how it succeeded.

        Raises:
            RunServiceError: every other outcome, DEADLINE_EXCEEDED after `timeout_seconds` included. Whether the run
                was created is then unknown for the codes that a broken connection or a deadline gives.
        """
        connection = self._connected()
        try:
            await connection.create_run(request, timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.ALREADY_EXISTS:
                return CreateRunAnswer.ALREADY_EXISTS
            raise self._translated(error, connection) from error
        except (asyncio.CancelledError, grpc.aio.UsageError) as error:
            _pass_own_cancellation(error)
            raise _closed_error() from error
        return CreateRunAnswer.CREATED

    async def run_exists(self, org: str, project: str, domain: str, name: str, *, timeout_seconds: float) -> bool:
        """Ask whether the run is known. A service that does not offer the question counts as "no".

        Raises:
            RunServiceError: no answer, or another one than OK, NOT_FOUND and UNIMPLEMENTED.
        """
        connection = self._connected()
        request = workflow_pb2.GetRunDetailsRequest(run_id=run_identifier(org, project, domain, name))
        try:
            await connection.get_run_details(request, timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            translated = self._translated(error, connection)
            if translated.code in _RUN_NOT_FOUND:
                return False
            raise translated from error
        except (asyncio.CancelledError, grpc.aio.UsageError) as error:
            _pass_own_cancellation(error)
            raise _closed_error() from error
        return True

    def _connected(self) -> _Connection:
        if self._connection is None:
            raise _closed_error()
        return self._connection

    def _translated(self, error: grpc.aio.AioRpcError, connection: _Connection) -> RunServiceError:
        # Of the calls that fail together only the first replaces the channel: the others come from an older one.
        if connection is self._connection and is_lookup_failure(error):
            self._replace(connection)
        return RunServiceError(error.code().name, error.details() or "")

    def _replace(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - connection.opened_at_seconds < _REPLACEMENT_PAUSE_SECONDS:
            return
        self._connection = _connect(self._address)
        drain = loop.create_task(connection.channel.close(grace=_DRAIN_SECONDS))
        self._draining.add(drain)
        drain.add_done_callback(self._draining.discard)


def _connect(address: ServiceAddress) -> _Connection:
    channel = open_channel(address)
    return _Connection(
        channel=channel,
        create_run=channel.unary_unary(
            f"/{SERVICE_NAME}/CreateRun",
            request_serializer=workflow_pb2.CreateRunRequest.SerializeToString,
            response_deserializer=_ignore_answer,
        ),
        get_run_details=channel.unary_unary(
            f"/{SERVICE_NAME}/GetRunDetails",
            request_serializer=workflow_pb2.GetRunDetailsRequest.SerializeToString,
            response_deserializer=_ignore_answer,
        ),
        opened_at_seconds=asyncio.get_running_loop().time(),
    )


def _ignore_answer(_serialized: bytes) -> None:
    """The status says it all; an answer that can't be parsed must not turn a created run into an error."""


def _pass_own_cancellation(error: BaseException) -> None:
    # Closing a channel makes gRPC cancel its calls, which looks to the caller like a cancellation of its own task. Only
    # the latter may pass through: a task that nobody cancelled must not end as cancelled.
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error


def _closed_error() -> RunServiceError:
    return RunServiceError("CANCELLED", "the connection to the Run Service is closed")
