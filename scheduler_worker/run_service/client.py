"""Calls the Run Service over gRPC.

Decides how the connection behaves (reconnecting, keepalive, sizes) and which answers mean success. Must never retry:
when to send again, and whether to ask first, is the caller's decision.
"""

import asyncio
from enum import Enum
from importlib.metadata import version
from types import TracebackType
from typing import Self

import grpc
import grpc.aio

from scheduler_worker.domain.service_address import ServiceAddress, parse_run_service_url
from scheduler_worker.errors import RunServiceError
from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.requests import run_identifier

SERVICE_NAME = workflow_pb2.DESCRIPTOR.services_by_name["RunService"].full_name
CREATE_RUN_METHOD = f"/{SERVICE_NAME}/CreateRun"
GET_RUN_DETAILS_METHOD = f"/{SERVICE_NAME}/GetRunDetails"

# gRPC shifts each pause by up to 20 % either way, so that this keeps attempts at least a second apart, and a service
# that comes back is met within 1.6 s. Initial and longest pause are equal: the pause must not grow in a long outage.
_RECONNECT_PAUSE_MS = 1300
# An attempt that gets no answer at all is given up after this; a busy host may take a while to shake hands.
_CONNECT_TIMEOUT_MS = 5000
# While calls are open, a silent connection is probed this often. Servers commonly punish probes much more frequent.
_KEEPALIVE_INTERVAL_MS = 30_000
# Unanswered probes and unacknowledged bytes (TCP_USER_TIMEOUT) close the connection after this.
_KEEPALIVE_TIMEOUT_MS = 10_000
# By default gRPC looks a name up at most every 30 s; a service that moved would stay lost for that long.
_LOOKUP_PAUSE_MS = 1000
# Inputs may be large; an answer may describe a run with all its inputs.
_LARGEST_MESSAGE_BYTES = 64 * 1024 * 1024

_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

# What GetRunDetails says when the run is not there, or when the service does not offer the question.
_RUN_NOT_FOUND = frozenset({"NOT_FOUND", "UNIMPLEMENTED"})

_CreateRun = grpc.aio.UnaryUnaryMultiCallable[workflow_pb2.CreateRunRequest, None]
_GetRunDetails = grpc.aio.UnaryUnaryMultiCallable[workflow_pb2.GetRunDetailsRequest, None]


class CreateRunAnswer(Enum):
    """How CreateRun succeeded: either way the run exists."""

    CREATED = "created"
    ALREADY_EXISTS = "already_exists"


class RunServiceClient:
    """One connection to the Run Service, opened by `start` or ``async with`` and made anew by itself when it breaks.

    `close` may be called at any time and more than once; it ends the calls in flight.

    Raises:
        ValueError: `url` is not of a form that `parse_run_service_url` reads.
    """

    def __init__(self, url: str) -> None:
        self._address = parse_run_service_url(url)
        self._channel: grpc.aio.Channel | None = None
        self._create_run: _CreateRun | None = None
        self._get_run_details: _GetRunDetails | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Prepare the connection; the first call opens it. An unreachable service is no error here."""
        if self._channel is not None:
            return
        channel = _open_channel(self._address)
        self._channel = channel
        self._create_run = channel.unary_unary(
            CREATE_RUN_METHOD,
            request_serializer=workflow_pb2.CreateRunRequest.SerializeToString,
            response_deserializer=_ignore_answer,
        )
        self._get_run_details = channel.unary_unary(
            GET_RUN_DETAILS_METHOD,
            request_serializer=workflow_pb2.GetRunDetailsRequest.SerializeToString,
            response_deserializer=_ignore_answer,
        )

    async def close(self) -> None:
        """Close the connection at once."""
        channel, self._channel = self._channel, None
        self._create_run = self._get_run_details = None
        if channel is not None:
            await channel.close()

    async def create_run(self, request: workflow_pb2.CreateRunRequest, *, timeout_seconds: float) -> CreateRunAnswer:
        """Send `request` once and say how it succeeded.

        Raises:
            RunServiceError: every other outcome, DEADLINE_EXCEEDED after `timeout_seconds` included. Whether the run
                was created is then unknown for the codes that a broken connection or a deadline gives.
        """
        if self._create_run is None:
            raise _closed_error()
        try:
            await self._create_run(request, timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.ALREADY_EXISTS:
                return CreateRunAnswer.ALREADY_EXISTS
            raise _translated(error) from error
        except (asyncio.CancelledError, grpc.aio.UsageError) as error:
            self._reraise_unless_closed(error)
            raise _closed_error() from error
        return CreateRunAnswer.CREATED

    async def run_exists(self, org: str, project: str, domain: str, name: str, *, timeout_seconds: float) -> bool:
        """Ask whether the run is known. A service that does not offer the question counts as "no".

        Raises:
            RunServiceError: no answer, or another one than OK, NOT_FOUND and UNIMPLEMENTED.
        """
        if self._get_run_details is None:
            raise _closed_error()
        request = workflow_pb2.GetRunDetailsRequest(run_id=run_identifier(org, project, domain, name))
        try:
            await self._get_run_details(request, timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            translated = _translated(error)
            if translated.code in _RUN_NOT_FOUND:
                return False
            raise translated from error
        except (asyncio.CancelledError, grpc.aio.UsageError) as error:
            self._reraise_unless_closed(error)
            raise _closed_error() from error
        return True

    def _reraise_unless_closed(self, error: BaseException) -> None:
        # Closing the channel makes gRPC cancel its calls, which looks to the caller like a cancellation of its own
        # task. Only the latter may pass through: a task that nobody cancelled must not end as cancelled.
        task = asyncio.current_task()
        if self._channel is not None or (task is not None and task.cancelling()):
            raise error


def _open_channel(address: ServiceAddress) -> grpc.aio.Channel:
    options = [
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_PAUSE_MS),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_PAUSE_MS),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_TIMEOUT_MS),
        ("grpc.dns_min_time_between_resolutions_ms", _LOOKUP_PAUSE_MS),
        ("grpc.keepalive_time_ms", _KEEPALIVE_INTERVAL_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.max_send_message_length", _LARGEST_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _LARGEST_MESSAGE_BYTES),
        # Sending twice is decided by the caller, never in secret.
        ("grpc.enable_retries", 0),
        ("grpc.primary_user_agent", f"scheduler-worker/{version('scheduler-worker')}"),
        # No proxy reaches this host's own loopback interface.
        ("grpc.enable_http_proxy", 0 if address.host in _LOOPBACK_HOSTS else 1),
    ]
    if address.secure:
        return grpc.aio.secure_channel(address.target, grpc.ssl_channel_credentials(), options=options)
    return grpc.aio.insecure_channel(address.target, options=options)


def _ignore_answer(_serialized: bytes) -> None:
    """The status says it all; an answer that can't be parsed must not turn a created run into an error."""


def _translated(error: grpc.aio.AioRpcError) -> RunServiceError:
    return RunServiceError(error.code().name, error.details() or "")


def _closed_error() -> RunServiceError:
    return RunServiceError("CANCELLED", "the connection to the Run Service is closed")
