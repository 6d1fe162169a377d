"""What the worker sends for one fire.

Decides every field of a CreateRun request: who the run is, which trigger it belongs to, when it nominally starts and
what inputs it gets. Must never read a clock: a run starts at its fire time, however late it is sent.
"""

from datetime import UTC, datetime

from scheduler_worker.domain.trigger import RunInputs, Trigger
from scheduler_worker.run_service._pb.flyteidl2 import common_pb2, task_pb2, workflow_pb2

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_PER_DAY = 86_400


def create_run_request(trigger: Trigger, fire_time: datetime, *, org: str, name: str) -> workflow_pb2.CreateRunRequest:
    """Return the CreateRun request of `trigger`'s run `name` at the aware `fire_time`.

    Without inputs of its own the request has none, and the service restores the trigger's.
    """
    key = trigger.key
    request = workflow_pb2.CreateRunRequest(source=workflow_pb2.RUN_SOURCE_SCHEDULE_TRIGGER)
    run_id = request.run_id
    run_id.org, run_id.project, run_id.domain, run_id.name = org, key.project, key.domain, name
    trigger_name = request.trigger_name
    trigger_name.org, trigger_name.project, trigger_name.domain = org, key.project, key.domain
    trigger_name.name, trigger_name.task_name = key.name, key.task_name
    seconds = _unix_seconds(fire_time)
    request.run_start_time.seconds = seconds
    if _carries_inputs(trigger.inputs):
        _fill_inputs(request.inputs, trigger.inputs, seconds)
    return request


def run_identifier(org: str, project: str, domain: str, name: str) -> common_pb2.RunIdentifier:
    """Return the identity of one run."""
    return common_pb2.RunIdentifier(org=org, project=project, domain=domain, name=name)


def _carries_inputs(inputs: RunInputs) -> bool:
    # Any inline input, even the kickoff time alone, would make the service ignore the offloaded ones.
    return not inputs.offloaded and (inputs.literals is not None or inputs.kickoff_time_arg != "")


def _fill_inputs(target: task_pb2.Inputs, inputs: RunInputs, fire_seconds: int) -> None:
    # Marks the field as present, so that a trigger with empty inline inputs sends empty inputs, as it was deployed.
    target.SetInParent()
    if inputs.literals:
        target.MergeFromString(inputs.literals)
    kickoff = inputs.kickoff_time_arg
    if not kickoff:
        return
    for index in reversed(range(len(target.literals))):
        if target.literals[index].name == kickoff:
            del target.literals[index]
    literal = target.literals.add(name=kickoff)
    literal.value.scalar.primitive.datetime.seconds = fire_seconds


def _unix_seconds(instant: datetime) -> int:
    since_epoch = instant - _EPOCH
    return since_epoch.days * _SECONDS_PER_DAY + since_epoch.seconds
