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


class Trigger(NamedTuple):
    """A trigger at one revision, decoded.

    Attributes:
        id: ``triggers.id``.
        revision: ``triggers.latest_revision``.
        in_force_from: when this revision was written; it owes fire times strictly later.
        schedule: None when the revision produces no fire times: paused, deleted, or a bad row.
        inputs: what its runs get.
    """

    id: int
    key: TriggerKey
    revision: int
    in_force_from: datetime
    schedule: Schedule | None
    inputs: RunInputs = NO_INPUTS

    def without_schedule(self) -> "Trigger":
        """Return the same trigger, producing no fire times."""
        return self._replace(schedule=None)

    def counting_from(self, instant: datetime) -> "Trigger":
        """Return the same trigger as if its revision had been written at `instant`."""
        return self._replace(in_force_from=instant)
