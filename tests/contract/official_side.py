"""The other side of the contract: a process that knows only the official protobuf classes.

Reads one JSON command per line from standard input and answers each with one JSON line. It is a process of its own
because protobuf refuses two definitions of one message name in the same process.

    {"do": "write", "message": NAME, "json": {...}}       -> {"hex": "..."}     the message in bytes
    {"do": "read", "message": NAME, "hex": "..."}         -> {"json": {...}}    the message as protobuf's JSON
    {"do": "call", "address": A, "method": M, "json": {}} -> {"code": "OK"}     one call of the official stub
    {"do": "serve"}                                       -> {"address": A}     start the official server
    {"do": "received"}                                    -> {"json": [...]}    what the server was sent
"""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from flyteidl2.task import common_pb2
from flyteidl2.trigger import trigger_definition_pb2
from flyteidl2.workflow import run_service_pb2, run_service_pb2_grpc
from google.protobuf import json_format

MESSAGES = {
    message.DESCRIPTOR.full_name: message
    for message in (
        common_pb2.TriggerAutomationSpec,
        trigger_definition_pb2.TriggerSpec,
        run_service_pb2.CreateRunRequest,
        run_service_pb2.GetRunDetailsRequest,
    )
}
REQUESTS = {
    "CreateRun": run_service_pb2.CreateRunRequest,
    "GetRunDetails": run_service_pb2.GetRunDetailsRequest,
}
CALL_TIMEOUT_SECONDS = 10


class RecordingService(run_service_pb2_grpc.RunServiceServicer):  # type: ignore[misc] # untyped base
    """Says OK to everything, with a full answer, and keeps what it was asked."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    def CreateRun(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 # gRPC's name
        self.received.append({"method": "CreateRun", "metadata": dict_of(context), "request": as_json(request)})
        response = run_service_pb2.CreateRunResponse()
        response.run.action.id.run.name = request.run_id.name
        return response

    def GetRunDetails(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 # gRPC's name
        self.received.append({"method": "GetRunDetails", "metadata": dict_of(context), "request": as_json(request)})
        return run_service_pb2.GetRunDetailsResponse()


def dict_of(context: grpc.ServicerContext) -> dict[str, str]:
    return {key: str(value) for key, value in context.invocation_metadata()}


def as_json(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def write(command: dict[str, Any]) -> dict[str, Any]:
    message = json_format.ParseDict(command["json"], MESSAGES[command["message"]]())
    return {"hex": message.SerializeToString().hex()}


def read(command: dict[str, Any]) -> dict[str, Any]:
    return {"json": as_json(MESSAGES[command["message"]].FromString(bytes.fromhex(command["hex"])))}


def call(command: dict[str, Any]) -> dict[str, Any]:
    method = command["method"]
    with grpc.insecure_channel(command["address"]) as channel:
        stub = run_service_pb2_grpc.RunServiceStub(channel)
        request = json_format.ParseDict(command["json"], REQUESTS[method]())
        try:
            getattr(stub, method)(request, timeout=CALL_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            return {"code": error.code().name, "details": error.details()}
    return {"code": "OK"}


def main() -> None:
    service = RecordingService()
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    run_service_pb2_grpc.add_RunServiceServicer_to_server(service, server)

    def serve(_command: dict[str, Any]) -> dict[str, Any]:
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return {"address": f"127.0.0.1:{port}"}

    def received(_command: dict[str, Any]) -> dict[str, Any]:
        return {"json": service.received}

    commands: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "write": write,
        "read": read,
        "call": call,
        "serve": serve,
        "received": received,
    }
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(commands[command["do"]](command)), flush=True)  # noqa: T201 # the answer
    server.stop(None).wait()


if __name__ == "__main__":
    main()
