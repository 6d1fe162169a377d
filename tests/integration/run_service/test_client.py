"""The client against the mock, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
import pytest

from scheduler_worker.domain.trigger import RunInputs
from scheduler_worker.errors import RunServiceError
from scheduler_worker.run_service._pb.flyteidl2 import task_pb2
from scheduler_worker.run_service.client import CreateRunAnswer, RunServiceClient
from scheduler_worker.run_service.mock_faults import ERROR_CODES, Faults
from scheduler_worker.run_service.mock_server import MockRunService

RUN = ("", "p", "d", "r1")


@pytest.fixture
async def mock() -> AsyncIterator[MockRunService]:
    async with MockRunService() as mock:
        yield mock


@pytest.fixture
async def client(mock: MockRunService) -> AsyncIterator[RunServiceClient]:
    async with RunServiceClient(mock.address) as client:
        yield client


async def test_a_new_name_is_created_and_a_repeated_one_exists(
    client: RunServiceClient, mock: MockRunService, make_request: Any
) -> None:
    request = make_request()
    assert await client.create_run(request, timeout_seconds=10) is CreateRunAnswer.CREATED
    assert await client.create_run(request, timeout_seconds=10) is CreateRunAnswer.ALREADY_EXISTS
    assert mock.requests == [request, request]
    assert mock.runs.created == 1


async def test_a_run_is_known_once_it_is_created(client: RunServiceClient, make_request: Any) -> None:
    assert not await client.run_exists(*RUN, timeout_seconds=10)
    await client.create_run(make_request(), timeout_seconds=10)
    assert await client.run_exists(*RUN, timeout_seconds=10)


async def test_a_service_that_does_not_know_the_question_knows_no_run(
    client: RunServiceClient, mock: MockRunService, make_request: Any
) -> None:
    await client.create_run(make_request(), timeout_seconds=10)
    mock.faults = Faults(run_details="unimplemented")
    assert not await client.run_exists(*RUN, timeout_seconds=10)


@pytest.mark.parametrize("code", sorted(ERROR_CODES))
async def test_any_other_answer_is_an_error_with_its_code(
    client: RunServiceClient, mock: MockRunService, make_request: Any, code: str
) -> None:
    mock.faults = Faults(error_code=code, error_rate=1.0)
    with pytest.raises(RunServiceError) as caught:
        await client.create_run(make_request(), timeout_seconds=10)
    assert (caught.value.code, caught.value.details) == (code, "the mock was told to say so")
    assert isinstance(caught.value.__cause__, grpc.aio.AioRpcError)
    assert mock.calls == 1  # no retry in secret
    assert mock.runs.created == 0


async def test_a_question_without_an_answer_is_an_error(client: RunServiceClient, mock: MockRunService) -> None:
    mock.faults = Faults(outage=True)
    with pytest.raises(RunServiceError, match="UNAVAILABLE"):
        await client.run_exists(*RUN, timeout_seconds=10)


@pytest.mark.parametrize(("lost_answer", "code"), [("unavailable", "UNAVAILABLE"), ("silence", "DEADLINE_EXCEEDED")])
async def test_a_run_whose_answer_was_lost_is_found_by_asking(
    client: RunServiceClient, mock: MockRunService, make_request: Any, lost_answer: Any, code: str
) -> None:
    mock.faults = Faults(lost_answer_rate=1.0, lost_answer=lost_answer)
    with pytest.raises(RunServiceError) as caught:
        await client.create_run(make_request(), timeout_seconds=0.2)
    assert caught.value.code == code
    assert await client.run_exists(*RUN, timeout_seconds=10)


async def test_an_unreachable_service_is_an_error_not_a_wait(make_request: Any) -> None:
    async with MockRunService() as gone:
        address = gone.address
    async with RunServiceClient(address) as client:
        with pytest.raises(RunServiceError, match="UNAVAILABLE"):
            await client.create_run(make_request(), timeout_seconds=10)


async def test_tls_is_spoken_to_an_https_address(mock: MockRunService, make_request: Any) -> None:
    async with RunServiceClient(f"https://{mock.address}") as client:
        with pytest.raises(RunServiceError, match="UNAVAILABLE"):  # the mock does not understand the handshake
            await client.create_run(make_request(), timeout_seconds=10)
    assert mock.calls == 0


async def test_a_cancelled_task_ends_as_cancelled_and_the_client_goes_on(
    client: RunServiceClient, mock: MockRunService, make_request: Any
) -> None:
    mock.faults = Faults(lost_answer_rate=1.0, lost_answer="silence")
    call = asyncio.create_task(client.create_run(make_request(), timeout_seconds=10))
    await mock.wait_until(lambda: mock.in_flight == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    mock.faults = Faults()
    assert await client.create_run(make_request("r2"), timeout_seconds=10) is CreateRunAnswer.CREATED


@pytest.mark.parametrize(
    "call",
    [
        lambda client, request: client.create_run(request, timeout_seconds=10),
        lambda client, _: client.run_exists(*RUN, timeout_seconds=10),
    ],
    ids=["create_run", "run_exists"],
)
class TestClosing:
    async def test_calls_in_flight_end_with_an_error_of_ours(
        self, client: RunServiceClient, mock: MockRunService, make_request: Any, call: Callable[..., Any]
    ) -> None:
        mock.faults = Faults(latency_ms=60_000)
        running = asyncio.ensure_future(call(client, make_request()))
        await mock.wait_until(lambda: mock.in_flight == 1)
        await client.close()
        with pytest.raises(RunServiceError, match="closed") as caught:
            await running
        assert caught.value.code == "CANCELLED"

    async def test_calls_afterwards_are_refused(
        self, client: RunServiceClient, make_request: Any, call: Callable[..., Any]
    ) -> None:
        await client.close()
        with pytest.raises(RunServiceError, match="closed"):
            await call(client, make_request())

    async def test_calls_before_the_start_are_refused(self, make_request: Any, call: Callable[..., Any]) -> None:
        with pytest.raises(RunServiceError, match="closed"):
            await call(RunServiceClient("127.0.0.1:1"), make_request())


async def test_start_and_close_may_be_repeated_in_any_order(mock: MockRunService, make_request: Any) -> None:
    client = RunServiceClient(mock.address)
    await client.close()
    await client.start()
    await client.start()
    await client.close()
    await client.close()
    await client.start()
    assert await client.create_run(make_request(), timeout_seconds=10) is CreateRunAnswer.CREATED
    await client.close()


async def test_inputs_of_many_megabytes_are_sent(
    client: RunServiceClient, mock: MockRunService, make_request: Any
) -> None:
    inputs = task_pb2.Inputs()
    inputs.literals.add(name="x").value.scalar.primitive.string_value = "x" * 10_000_000
    request = make_request(inputs=RunInputs(literals=inputs.SerializeToString()))
    assert await client.create_run(request, timeout_seconds=30) is CreateRunAnswer.CREATED
    assert mock.requests[0].inputs == inputs


async def test_many_calls_at_once_share_the_connection(
    client: RunServiceClient, mock: MockRunService, make_request: Any
) -> None:
    mock.faults = Faults(latency_ms=100)
    calls = [client.create_run(make_request(f"r{number}"), timeout_seconds=30) for number in range(100)]
    assert set(await asyncio.gather(*calls)) == {CreateRunAnswer.CREATED}
    assert mock.most_in_flight > 50
    assert mock.in_flight == 0


def test_a_bad_address_is_refused_before_anything_opens() -> None:
    with pytest.raises(ValueError, match="names no port"):
        RunServiceClient("runs")
