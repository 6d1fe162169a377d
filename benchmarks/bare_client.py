"""The reference of throughput: nothing but grpc.aio, calling CreateRun as fast as it goes.

A process of its own, as the worker is: ``python -m benchmarks.bare_client HOST:PORT CALLS`` tries some numbers of calls
in flight, makes CALLS calls with the best one, and prints the calls per second.
"""

import asyncio
import itertools
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import grpc.aio

from scheduler_worker.run_service._pb.flyteidl2 import workflow_pb2
from scheduler_worker.run_service.client import SERVICE_NAME

_CreateRun = grpc.aio.UnaryUnaryMultiCallable[workflow_pb2.CreateRunRequest, bytes]

_CONCURRENCIES = (25, 50, 100, 200, 400)
_TRIAL_SHARE = 0.2
"""Calls of each trial, as a share of the calls that count."""


def calls_per_second(address: str, calls: int) -> float:
    """Return what the bare client reaches against the server at `address`."""
    command = [sys.executable, "-m", "benchmarks.bare_client", address, str(calls)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def _measure(address: str, calls: int) -> float:
    names = (f"r{uuid.uuid4().hex[:12]}{number:x}" for number in itertools.count())
    async with grpc.aio.insecure_channel(address) as channel:
        create_run: _CreateRun = channel.unary_unary(
            f"/{SERVICE_NAME}/CreateRun",
            request_serializer=workflow_pb2.CreateRunRequest.SerializeToString,
            response_deserializer=None,
        )
        best = 0.0
        concurrency = _CONCURRENCIES[0]
        for candidate in _CONCURRENCIES:
            rate = await _rate(create_run, names, int(calls * _TRIAL_SHARE), candidate)
            if rate > best:
                best, concurrency = rate, candidate
        return await _rate(create_run, names, calls, concurrency)


async def _rate(
    create_run: _CreateRun,
    names: Iterator[str],
    calls: int,
    concurrency: int,
) -> float:
    left = iter(range(calls))

    async def call_until_done() -> None:
        for _ in left:
            await create_run(_request(next(names)))

    began = time.perf_counter()
    await asyncio.gather(*(call_until_done() for _ in range(concurrency)))
    return calls / (time.perf_counter() - began)


def _request(name: str) -> workflow_pb2.CreateRunRequest:
    request = workflow_pb2.CreateRunRequest(source=workflow_pb2.RUN_SOURCE_SCHEDULE_TRIGGER)
    request.run_id.project, request.run_id.domain, request.run_id.name = "project1", "production", name
    trigger = request.trigger_name
    trigger.project, trigger.domain, trigger.task_name, trigger.name = "project1", "production", "flows.task", "t1"
    request.run_start_time.seconds = 1_800_000_000
    return request


if __name__ == "__main__":
    print(asyncio.run(_measure(sys.argv[1], int(sys.argv[2]))))
