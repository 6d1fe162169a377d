"""The mock's promises: unique names, a journal that survives it, faults, and control from outside."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_worker.errors import RunServiceError
from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.client import CreateRunAnswer, RunServiceClient
from scheduler_worker.run_service.mock_control import serve_control
from scheduler_worker.run_service.mock_faults import Faults, Outage
from scheduler_worker.run_service.mock_journal import RunKey
from scheduler_worker.run_service.mock_server import MockRunService

R1 = RunKey("p", "d", "r1")


def outcomes(journal: Path) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return [(line["run_name"], line["outcome"]) for line in lines]


async def create(client: RunServiceClient, request: workflow_pb2.CreateRunRequest) -> str:
    try:
        return (await client.create_run(request, timeout_seconds=10)).value
    except RunServiceError as error:
        return error.code


async def test_a_tolerated_repeat_starts_the_run_again(make_request: Any) -> None:
    async with MockRunService(duplicates="ok") as mock, RunServiceClient(mock.address) as client:
        for _ in range(2):
            assert await client.create_run(make_request(), timeout_seconds=10) is CreateRunAnswer.CREATED
        assert mock.runs.starts == {R1: 2}
        assert mock.runs.doubled == [R1]


async def test_the_journal_tells_what_became_of_each_call(tmp_path: Path, make_request: Any) -> None:
    journal = tmp_path / "journal"
    async with MockRunService(journal=journal) as mock, RunServiceClient(mock.address) as client:
        assert await create(client, make_request("r1")) == "created"
        assert await create(client, make_request("r1")) == "already_exists"
        assert await create(client, make_request("R2")) == "INVALID_ARGUMENT"
        mock.faults = Faults(error_rate=1.0, error_code="INTERNAL")
        assert await create(client, make_request("r3")) == "INTERNAL"
        mock.faults = Faults(lost_answer_rate=1.0)
        assert await create(client, make_request("r4")) == "UNAVAILABLE"
        mock.faults = Faults(outage=True)
        assert await create(client, make_request("r5")) == "UNAVAILABLE"
    assert outcomes(journal) == [
        ("r1", "created"),
        ("r1", "already_exists"),
        ("R2", "INVALID_ARGUMENT"),
        ("r3", "INTERNAL"),
        ("r4", "created"),
        ("r5", "UNAVAILABLE"),
    ]


async def test_a_caller_that_gives_up_during_the_delay_leaves_no_run(tmp_path: Path, make_request: Any) -> None:
    journal = tmp_path / "journal"
    async with MockRunService(journal=journal, faults=Faults(latency_ms=60_000)) as mock:
        async with RunServiceClient(mock.address) as client:
            with pytest.raises(RunServiceError, match="DEADLINE_EXCEEDED"):
                await client.create_run(make_request(), timeout_seconds=0.1)
        await mock.wait_until(lambda: mock.in_flight == 0)
        assert mock.runs.created == 0
    assert outcomes(journal) == [("r1", "CANCELLED")]


async def test_a_restarted_mock_knows_its_runs(tmp_path: Path, make_request: Any) -> None:
    journal = tmp_path / "journal"
    async with MockRunService(journal=journal) as mock, RunServiceClient(mock.address) as client:
        await create(client, make_request())
    async with MockRunService(journal=journal) as mock, RunServiceClient(mock.address) as client:
        assert await client.run_exists("", *R1, timeout_seconds=10)
        assert await create(client, make_request()) == "already_exists"
        assert mock.runs.created == 0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda request: request.ClearField("run_id"), "run_id.project is missing"),
        (lambda request: request.project_id.SetInParent(), "run_id.project is missing"),
        (lambda request: request.run_id.ClearField("name"), "run_id.name is missing"),
        (lambda request: request.ClearField("trigger_name"), "trigger_name.project is missing"),
        (lambda request: request.trigger_name.ClearField("task_name"), "trigger_name.task_name is missing"),
        (lambda request: setattr(request.run_id, "name", "r" * 31), "at most 30 characters"),
        (lambda request: setattr(request.run_id, "name", "1r"), "no DNS-1035 label"),
        (lambda request: setattr(request.run_id, "name", "r-"), "no DNS-1035 label"),
        (lambda request: setattr(request.run_start_time, "seconds", 2**62), "outside the years"),
    ],
)
async def test_what_a_real_service_refuses_is_refused(make_request: Any, change: Any, fault: str) -> None:
    request = make_request()
    change(request)
    async with MockRunService() as mock, RunServiceClient(mock.address) as client:
        with pytest.raises(RunServiceError, match=fault) as caught:
            await client.create_run(request, timeout_seconds=10)
        assert caught.value.code == "INVALID_ARGUMENT"
        assert mock.runs.created == 0


async def test_an_outage_window_opens_with_the_server(make_request: Any) -> None:
    async with MockRunService(outages=(Outage(0.0, 3600.0),)) as mock, RunServiceClient(mock.address) as client:
        assert await create(client, make_request()) == "UNAVAILABLE"


async def test_waiting_ends_when_the_runs_are_there(make_request: Any) -> None:
    async with MockRunService() as mock, RunServiceClient(mock.address) as client:
        waiting = asyncio.create_task(mock.wait_for_runs(2))
        for name in ("r1", "r1", "r2"):
            assert not waiting.done()
            await create(client, make_request(name))
        await waiting
        await mock.wait_for_runs(2)  # at once: they are there already


async def test_waiting_in_vain_says_how_many_there_are() -> None:
    async with MockRunService() as mock:
        with pytest.raises(TimeoutError, match="0 of 1 runs"):
            await mock.wait_for_runs(1, timeout_seconds=0.01)


async def test_an_address_in_use_is_an_error() -> None:
    async with MockRunService() as first:
        second = MockRunService(listen=first.address)
        with pytest.raises(OSError, match=f"cannot listen on {first.address}"):
            await second.start()


async def test_a_file_that_is_no_journal_is_an_error_and_frees_the_port(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text("hello\n")
    with pytest.raises(ValueError, match="line 1: no journal entry"):
        await MockRunService(journal=journal).start()
    assert journal.read_text() == "hello\n"


async def test_stopping_may_be_repeated() -> None:
    mock = MockRunService()
    await mock.stop()
    await mock.start()
    await mock.stop()
    await mock.stop()


async def test_the_state_is_shown_over_http(make_request: Any) -> None:
    async with (
        MockRunService(duplicates="ok") as mock,
        RunServiceClient(mock.address) as client,
        serve_control(mock, "127.0.0.1:0") as address,
        httpx.AsyncClient(base_url=f"http://{address}") as http,
    ):
        for name in ("r1", "r1", "r2"):
            await create(client, make_request(name))
        state = (await http.get("/state")).json()
    assert state["faults"] == Faults().as_json()
    assert {key: value for key, value in state.items() if key != "faults"} == {
        "created": 3,
        "calls": 3,
        "details_calls": 0,
        "outcomes": {"created": 3},
        "known_runs": 2,
        "most_starts_of_one_run": 2,
        "doubled_runs": 1,
        "doubled_names": ["r1"],
        "in_flight": 0,
        "most_in_flight": 1,
    }


async def test_faults_are_replaced_over_http(make_request: Any) -> None:
    async with (
        MockRunService(faults=Faults(outage=True)) as mock,
        RunServiceClient(mock.address) as client,
        serve_control(mock, "127.0.0.1:0") as address,
        httpx.AsyncClient(base_url=f"http://{address}") as http,
    ):
        answer = await http.put("/faults", json={"error_rate": 1, "error_code": "ABORTED"})
        assert (answer.status_code, answer.json()["outage"]) == (200, False)
        assert await create(client, make_request()) == "ABORTED"

        answer = await http.put("/faults", json={"error_rates": 1})
        assert answer.status_code == 400
        assert "'error_rates'; use one of latency_ms" in answer.json()["error"]
        assert (await http.put("/faults", content=b"{")).status_code == 400
        assert mock.faults.error_code == "ABORTED"
