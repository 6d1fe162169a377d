"""Reads triggers from a YAML file, for `triggers apply`.

Decides what the file may say, and finds everything that is wrong with it before anything is written. Must never touch
the database.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final

import yaml
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationError,
)
from pydantic_core import ErrorDetails

from scheduler_worker.database.trigger_admin import TriggerDefinition
from scheduler_worker.domain.quoting import quoted
from scheduler_worker.domain.schedule import CronRule, RateRule, Rule, schedule_of
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.errors import ScheduleError, SpecError, TriggerFileError
from scheduler_worker.run_service.codec import encode_automation, encode_trigger_spec

_REMEDIES: Final = {
    "missing": "is missing; add it",
    "extra_forbidden": "is not known; remove it, or check its spelling",
    "string_too_short": "is empty; write a value",
    "string_type": "must be text; put it in quotes",
    "timezone_aware": "has no time zone; write one, such as Z for UTC",
    "datetime_from_date_parsing": "must be an instant such as 2026-01-31T00:00:00Z",
    "literal_error": "must be minute, hour or day",
}
_ONE_OF: Final = "needs exactly one of cron, cron_expression and rate"

_Text = Annotated[str, StringConstraints(min_length=1, strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _Rate(_Strict):
    value: StrictInt
    unit: _Text
    start_time: AwareDatetime | None = None


class _Schedule(_Strict):
    cron: _Text | None = None
    timezone: Annotated[str, StringConstraints(strict=True)] = ""
    cron_expression: _Text | None = None  # Flyte's older name for a cron without a time zone
    rate: _Rate | None = None

    def rule(self) -> Rule:
        """Return the rule that is written here.

        Raises:
            ScheduleError: there is none, or more than one, or a time zone where there is no place for it.
        """
        if [self.cron, self.cron_expression, self.rate].count(None) != 2:
            raise ScheduleError(_ONE_OF)
        if self.cron is None and self.timezone:
            raise ScheduleError("has a timezone, which only goes with cron; remove it, or write cron")
        if self.rate is not None:
            # An unknown unit is refused with the rest of what makes a rate unusable.
            return RateRule(self.rate.value, self.rate.unit, self.rate.start_time)  # type: ignore[arg-type]  # as above
        return CronRule(self.cron or self.cron_expression or "", self.timezone)


class _Trigger(_Strict):
    project: _Text
    domain: _Text
    task_name: _Text
    name: _Text
    # Flyte restores the run's task from it, so there is no default that could be right.
    task_version: _Text
    schedule: _Schedule
    kickoff_time_input_arg: Annotated[str, StringConstraints(strict=True)] = ""
    # Their types are checked where they become literals.
    inputs: dict[_Text, Any] | None = None
    context: dict[_Text, _Text] | None = None
    active: StrictBool = True
    description: Annotated[str, StringConstraints(strict=True)] = ""
    revision: Annotated[StrictInt, Field(ge=1)] | None = None


def read_trigger_file(text: str, *, source: str, now: datetime) -> Sequence[TriggerDefinition]:
    """Return the triggers that `text` (YAML) describes, checked and encoded.

    The file holds one trigger, a list of triggers, or a mapping with such a list under ``triggers``; several documents
    in one file are fine.

    Raises:
        TriggerFileError: with every fault of the file, each naming its place, what stands there and the remedy.
    """
    faults: list[str] = []
    definitions: list[TriggerDefinition] = []
    places: dict[TriggerKey, str] = {}
    for place, written in _written(text, source, faults):
        trigger = _parsed(place, written, faults)
        if trigger is None:
            continue
        key = TriggerKey(trigger.project, trigger.domain, trigger.task_name, trigger.name)
        if key in places:
            faults.append(f"{place}: {key} is described at {places[key]} already; keep one of the two")
        places.setdefault(key, place)
        definition = _encoded(place, key, trigger, faults, now)
        if definition is not None:
            definitions.append(definition)
    if not faults and not definitions:
        faults.append("it holds no trigger; write a list under 'triggers:'")
    if faults:
        raise TriggerFileError(source, faults)
    return definitions


def _written(text: str, source: str, faults: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield each trigger as it is written, with its place in the file."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except (yaml.YAMLError, ValueError) as error:
        hint = "; put a value that begins with * in quotes" if "alias" in str(error) or "'*'" in str(error) else ""
        raise TriggerFileError(source, [f"it is not YAML: {' '.join(str(error).split())}{hint}"]) from error
    for number, document in enumerate(documents):
        root = f"document {number + 1}: " if len(documents) > 1 else ""
        if isinstance(document, Mapping) and "triggers" not in document:
            yield f"{root}trigger", document
            continue
        listed = document["triggers"] if isinstance(document, Mapping) else document
        if isinstance(document, Mapping) and len(document) > 1:
            others = ", ".join(str(key) for key in document if key != "triggers")
            faults.append(f"{root}{others}: is not known beside 'triggers'; remove it")
        if isinstance(listed, list):
            yield from ((f"{root}triggers[{index}]", trigger) for index, trigger in enumerate(listed))
        else:
            faults.append(f"{root}triggers: {quoted(str(listed))} is not a list; begin each trigger with '- '")


def _parsed(place: str, written: Any, faults: list[str]) -> _Trigger | None:
    if not isinstance(written, Mapping):
        faults.append(f"{place}: {quoted(str(written))} is not a trigger; write project, domain, task_name, name, …")
        return None
    try:
        return _Trigger.model_validate(written)
    except ValidationError as error:
        faults.extend(f"{place}{_fault(detail)}" for detail in error.errors(include_url=False))
        return None


def _fault(detail: ErrorDetails) -> str:
    path = "".join(f".{step}" for step in detail["loc"] if step != "[key]")
    remedy = _REMEDIES.get(detail["type"]) or detail["msg"].replace("Input should be", "must be")
    given = "" if detail["type"] == "missing" else f" {quoted(str(detail['input']))}"
    return f"{path}:{given} {remedy}"


def _encoded(
    place: str, key: TriggerKey, trigger: _Trigger, faults: list[str], now: datetime
) -> TriggerDefinition | None:
    """Return the definition, unless its schedule or its inputs can't be used."""
    faults_before = len(faults)
    automation_spec = spec = b""
    try:
        rule = trigger.schedule.rule()
        schedule_of(rule, activated_at=now)
        automation_spec = encode_automation(rule, trigger.kickoff_time_input_arg)
    except (ScheduleError, SpecError) as error:
        faults.append(f"{place}.schedule: {error}")
    inputs = None if trigger.inputs is None else {name: _value(value) for name, value in trigger.inputs.items()}
    faults.extend(f"{place}.inputs: {fault}" for fault in _faults_of_inputs(inputs or {}))
    if len(faults) > faults_before:
        return None
    try:
        spec = encode_trigger_spec(
            active=trigger.active,
            inputs=inputs,
            context=trigger.context,
            task_version=trigger.task_version,
            description=trigger.description,
        )
    except SpecError as error:
        faults.append(f"{place}: {error}")
        return None
    return TriggerDefinition(
        key=key,
        automation_spec=automation_spec,
        spec=spec,
        task_version=trigger.task_version,
        active=trigger.active,
        description=trigger.description or None,
        expected_revision=trigger.revision,
    )


def _faults_of_inputs(inputs: Mapping[str, Any]) -> Iterator[str]:
    for name, value in inputs.items():
        try:
            encode_trigger_spec(active=True, inputs={name: value})
        except SpecError as error:
            yield str(error)


def _value(value: Any) -> Any:
    # YAML reads 2026-01-31 as a day; a literal is an instant.
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value
