"""`scheduler-worker mock-run-service`: a Run Service to try things out against.

Decides how faults are written on the command line. What they do is decided by the mock itself.
"""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from scheduler_worker.cli.output import JsonOption, print_json_line
from scheduler_worker.domain.go_duration import parse_go_duration
from scheduler_worker.domain.service_address import parse_listen_address
from scheduler_worker.run_service.mock_control import serve_control
from scheduler_worker.run_service.mock_faults import Faults, Outage
from scheduler_worker.run_service.mock_server import MockRunService

app = typer.Typer(add_completion=False)


class Duplicates(StrEnum):
    """What a repeated run name is answered."""

    REJECT = "reject"
    OK = "ok"


class LostAnswer(StrEnum):
    """What the caller sees when an answer is lost."""

    UNAVAILABLE = "unavailable"
    SILENCE = "silence"


class RunDetails(StrEnum):
    """Whether GetRunDetails is offered."""

    ANSWER = "answer"
    UNIMPLEMENTED = "unimplemented"


def _listen_address(text: str) -> str:
    try:
        parse_listen_address(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from fault
    return text


def _duration(text: str) -> timedelta:
    try:
        duration = parse_go_duration(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from fault
    if duration < timedelta():
        raise typer.BadParameter(f"{text!r} is negative; give a duration of at least 0")
    return duration


def _milliseconds(duration: timedelta | None) -> float:
    return 0.0 if duration is None else duration / timedelta(milliseconds=1)


def _outage(text: str) -> Outage:
    start, plus, length = text.partition("+")
    if not plus:
        raise typer.BadParameter(f"{text!r} is no outage; write START+LENGTH, such as 10s+5s")
    return Outage(_duration(start).total_seconds(), _duration(length).total_seconds())


@app.command()
def mock_run_service(
    *,
    listen: Annotated[
        str, typer.Option(parser=_listen_address, metavar="HOST:PORT", help="Where to serve gRPC; port 0 picks one.")
    ],
    journal: Annotated[
        Path | None, typer.Option(help="Append one JSON line per CreateRun; runs it holds already are known.")
    ] = None,
    duplicates: Annotated[
        Duplicates, typer.Option(help="Answer a repeated run name ALREADY_EXISTS, or OK after starting it again.")
    ] = Duplicates.REJECT,
    latency: Annotated[
        timedelta | None, typer.Option(parser=_duration, metavar="DURATION", help="Take at least this long per call.")
    ] = None,
    jitter: Annotated[
        timedelta | None, typer.Option(parser=_duration, metavar="DURATION", help="Take up to this much longer.")
    ] = None,
    error_code: Annotated[str, typer.Option(metavar="CODE", help="The gRPC code of failing calls.")] = "UNAVAILABLE",
    error_rate: Annotated[float, typer.Option(min=0, max=1, help="Share of CreateRun calls that fail.")] = 0.0,
    lost_answer_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of CreateRun calls that create the run and do not say so.")
    ] = 0.0,
    lost_answer: Annotated[LostAnswer, typer.Option(help="What the caller sees then.")] = LostAnswer.UNAVAILABLE,
    outage: Annotated[
        list[Outage] | None,
        typer.Option(parser=_outage, metavar="START+LENGTH", help="Answer UNAVAILABLE in this window; repeatable."),
    ] = None,
    run_details: Annotated[RunDetails, typer.Option(help="Whether GetRunDetails is offered.")] = RunDetails.ANSWER,
    control: Annotated[
        str | None,
        typer.Option(parser=_listen_address, metavar="HOST:PORT", help="Serve GET /state and PUT /faults over HTTP."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Make the faults repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Serve a Run Service that keeps its runs in memory, until SIGTERM or Ctrl-C.

    The first line on standard output says where it listens. Exits with 0 when it is stopped, 1 when it can't listen or
    use the journal, and 2 for bad options.
    """
    try:
        faults = Faults(
            latency_ms=_milliseconds(latency),
            jitter_ms=_milliseconds(jitter),
            error_code=error_code,
            error_rate=error_rate,
            lost_answer_rate=lost_answer_rate,
            lost_answer=lost_answer.value,
            run_details=run_details.value,
        )
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from fault
    mock = MockRunService(
        listen=listen,
        duplicates=duplicates.value,
        faults=faults,
        outages=tuple(outage or ()),
        seed=seed,
        journal=journal,
        keep_requests=False,
    )
    try:
        asyncio.run(_serve_until_signal(mock, control, as_json=as_json))
    except (OSError, ValueError) as fault:
        _fail(str(fault))


async def _serve_until_signal(mock: MockRunService, control: str | None, *, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
            stack.callback(loop.remove_signal_handler, number)
        await stack.enter_async_context(mock)
        control_address = None
        if control is not None:
            control_address = await stack.enter_async_context(serve_control(mock, control))
        _announce(mock.address, control_address, as_json=as_json)
        await stop.wait()


def _announce(address: str, control_address: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"listening": address, "control": control_address})
    else:
        typer.echo(f"listening on {address}")
        if control_address is not None:
            typer.echo(f"control on http://{control_address}")
    # Whoever started this process reads the first line to know the port, so it must not linger in a buffer.
    sys.stdout.flush()


def _fail(message: str) -> NoReturn:
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(1)
