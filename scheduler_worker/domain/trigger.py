"""The trigger, as every layer above the database knows it."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from scheduler_worker.domain.schedule import Schedule


class TriggerKey(NamedTuple):
    """What people call a trigger by. Unique among rows, and kept over delete and re-deploy."""

    project: str
    domain: str
    task_name: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """What a run gets as inputs, apart from the fire time.

    Attributes:
        literals: a serialized ``flyteidl2.task.Inputs`` with literals and context, or None for no inline inputs.
        kickoff_time_arg: the input that takes the fire time as a datetime, or "" for none.
        offloaded: the trigger keeps its inputs in blob storage; the service restores them and no inputs are sent.
    """

    literals: bytes | None = None
    kickoff_time_arg: str = ""
    offloaded: bool = False


NO_INPUTS = RunInputs()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """An active schedule trigger at one revision, decoded and ready to be armed.

    Attributes:
        id: ``triggers.id``.
        revision: ``triggers.latest_revision``.
        activated_at: ``triggers.updated_at``, the last time the trigger was switched on.
    """

    id: int
    key: TriggerKey
    revision: int
    schedule: Schedule
    activated_at: datetime
    inputs: RunInputs = NO_INPUTS
