"""A Run Service that keeps its runs in memory: for tests, benchmarks, demos, and for trying a trigger out.

Speaks the real protocol over real sockets and refuses what a real service refuses. Decides what each call answers.
Must never start a task.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from scheduler_worker.domain.service_address import parse_listen_address
from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.client import SERVICE_NAME
from scheduler_worker.run_service.mock_faults import FaultInjector, Faults, Outage, Verdict
from scheduler_worker.run_service.mock_journal import ALREADY_EXISTS, CREATED, Journal
from scheduler_worker.run_service.mock_runs import Duplicates, RunBook, fault_of

_LARGEST_MESSAGE_BYTES = 64 * 1024 * 1024
# A test that waits longer than this for something to happen has failed.
_PATIENCE_SECONDS = 10.0
_OK_ANSWER = b""  # a message without fields: the worker reads none

_CreateRunContext = grpc.aio.ServicerContext[workflow_pb2.CreateRunRequest, bytes]
_GetRunDetailsContext = grpc.aio.ServicerContext[workflow_pb2.GetRunDetailsRequest, bytes]


class MockRunService:
    """A real gRPC server of the Run Service, opened by `start` or ``async with``.

    Args:
        listen: ``HOST:PORT``; port 0 picks a free one.
        duplicates: whether a repeated name is answered ALREADY_EXISTS, or OK after one more start.
        journal: file of one JSON line per CreateRun; the runs it holds already are known from the start.
        keep_requests: off for a server that runs long.

    Attributes:
        address: ``HOST:PORT``, with the real port once started.
        runs: what is known of the runs.
        faults: what goes wrong; assign others at any time.
        calls: CreateRun calls received.
        details_calls: GetRunDetails calls received.
        in_flight: calls of both kinds that are being answered now.
        most_in_flight: the highest `in_flight` so far.

    Raises:
        ValueError: `listen` is no address.
    """

    def __init__(
        self,
        *,
        listen: str = "127.0.0.1:0",
        duplicates: Duplicates = "reject",
        faults: Faults | None = None,
        outages: tuple[Outage, ...] = (),
        seed: int | None = None,
        journal: Path | None = None,
        keep_requests: bool = True,
    ) -> None:
        self.address = listen
        self.runs = RunBook(duplicates=duplicates, keep_requests=keep_requests)
        self.calls = 0
        self.details_calls = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self._host, self._port = parse_listen_address(listen)
        self._injector = FaultInjector(faults or Faults(), outages, seed)
        self._journal_path = journal
        self._journal: Journal | None = None
        self._server: grpc.aio.Server | None = None
        self._started_at_seconds = 0.0
        self._waiting: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def faults(self) -> Faults:
        """What goes wrong; assign others at any time."""
        return self._injector.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._injector.faults = faults

    @property
    def requests(self) -> list[workflow_pb2.CreateRunRequest]:
        """Every CreateRun request in order of arrival."""
        return self.runs.requests

    async def wait_for_runs(self, count: int, *, timeout_seconds: float = _PATIENCE_SECONDS) -> None:
        """Wait until this server has created `count` runs, repeated starts of one name included.

        Raises:
            TimeoutError: it has not within `timeout_seconds`; the message says how many there are.
        """
        try:
            await self.wait_until(lambda: self.runs.created >= count, timeout_seconds=timeout_seconds)
        except TimeoutError as fault:
            raise TimeoutError(f"{self.runs.created} of {count} runs after {timeout_seconds} s") from fault

    async def wait_until(self, condition: Callable[[], bool], *, timeout_seconds: float = _PATIENCE_SECONDS) -> None:
        """Wait until `condition`, asked anew after each step of a call, holds; raises TimeoutError if it does not."""
        async with asyncio.timeout(timeout_seconds):
            while not condition():
                step = asyncio.get_running_loop().create_future()
                self._waiting.append(step)
                await step

    async def start(self) -> None:
        """Read the journal, then listen.

        Raises:
            OSError: the address is taken or unusable, or the journal can't be opened.
            ValueError: the journal holds something else.
        """
        if self._journal_path is not None:
            self._journal = Journal(self._journal_path)
        try:
            if self._journal is not None:
                self.runs.remember(self._journal.created_runs())
            await self._listen()
        except BaseException:
            await self.stop()
            raise
        self._started_at_seconds = asyncio.get_running_loop().time()

    async def _listen(self) -> None:
        server = self._server = grpc.aio.server(
            options=[
                # Two servers on one port would share the calls between them in silence.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", _LARGEST_MESSAGE_BYTES),
            ]
        )
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            port = server.add_insecure_port(f"{self._host}:{self._port}")
        except RuntimeError as fault:
            raise OSError(f"cannot listen on {self.address}: {fault}; choose another address") from fault
        await server.start()
        self.address = f"{self._host}:{port}"

    async def stop(self) -> None:
        """Break off the calls in flight and close the port; a second stop does nothing."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=None)
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _handlers(self) -> grpc.GenericRpcHandler:
        methods: dict[str, grpc.RpcMethodHandler[Any, bytes]] = {
            "CreateRun": grpc.unary_unary_rpc_method_handler(
                self._create_run, request_deserializer=workflow_pb2.CreateRunRequest.FromString
            ),
            "GetRunDetails": grpc.unary_unary_rpc_method_handler(
                self._get_run_details, request_deserializer=workflow_pb2.GetRunDetailsRequest.FromString
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE_NAME, methods)

    async def _create_run(self, request: workflow_pb2.CreateRunRequest, context: _CreateRunContext) -> bytes:
        received_at = datetime.now(UTC)
        self.calls += 1
        self.runs.receive(request)
        verdict = self._injector.judge_create_run(self._elapsed_seconds())
        outcome = grpc.StatusCode.CANCELLED.name
        self._enter()
        try:
            try:
                if verdict.delay_seconds:
                    await asyncio.sleep(verdict.delay_seconds)
                outcome = self._outcome(request, verdict)
            finally:
                # Before the answer is sent, so that a caller that dies on receiving it can't take the run along; and
                # also for a caller that gave up during the delay.
                self.runs.settle(request, received_at, outcome, self._journal)
            self._wake_waiting()
            await _answer(outcome, verdict, request, context)
        finally:
            self._leave()
        return _OK_ANSWER

    def _outcome(self, request: workflow_pb2.CreateRunRequest, verdict: Verdict) -> str:
        if verdict.refusal is not None:
            return verdict.refusal.name
        if fault_of(request):
            return grpc.StatusCode.INVALID_ARGUMENT.name
        return self.runs.start_run(request)

    async def _get_run_details(
        self, request: workflow_pb2.GetRunDetailsRequest, context: _GetRunDetailsContext
    ) -> bytes:
        self.details_calls += 1
        verdict = self._injector.judge_run_details(self._elapsed_seconds())
        self._enter()
        try:
            if verdict.delay_seconds:
                await asyncio.sleep(verdict.delay_seconds)
            if verdict.refusal is not None:
                await context.abort(verdict.refusal, "the mock was told to say so")
            if not self.runs.knows(request.run_id):
                await context.abort(grpc.StatusCode.NOT_FOUND, f"run {request.run_id.name!r} does not exist")
        finally:
            self._leave()
        return _OK_ANSWER

    def _enter(self) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self._wake_waiting()

    def _leave(self) -> None:
        self.in_flight -= 1
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            if not step.done():
                step.set_result(None)

    def _elapsed_seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._started_at_seconds


async def _answer(
    outcome: str, verdict: Verdict, request: workflow_pb2.CreateRunRequest, context: _CreateRunContext
) -> None:
    """Return for OK, raise for another status, and wait until the caller gives up for silence."""
    if verdict.lost_answer == "silence":
        await asyncio.Event().wait()
    if verdict.lost_answer == "unavailable":
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the mock was told to lose this answer")
    if outcome == CREATED:
        return
    if outcome == ALREADY_EXISTS:
        await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"run {request.run_id.name!r} already exists")
    if verdict.refusal is not None:
        await context.abort(verdict.refusal, "the mock was told to say so")
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, fault_of(request))
