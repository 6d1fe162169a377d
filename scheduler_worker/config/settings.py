"""Every setting with its meaning, its default and its bounds.

Decides what a value may be. Must never read the environment or a file by itself, and never show a secret.
"""

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from scheduler_worker.domain.go_duration import format_go_duration, parse_go_duration
from scheduler_worker.domain.quoting import quoted
from scheduler_worker.domain.service_address import parse_listen_address, parse_run_service_url

PREFIX: Final = "SCHEDULER_"
"""How the variables of all settings begin."""

UNLIMITED: Final = "unlimited"
"""How the absence of a limit is written."""

_TICK: Final = timedelta(microseconds=1)  # the shortest duration there is
_SHORTEST_INTERVAL: Final = timedelta(milliseconds=100)  # a sync of many triggers takes tens of milliseconds
_LONGEST_CALL: Final = timedelta(hours=1)  # a call that hangs keeps others from being made
_ANY_LENGTH: Final = timedelta.max


def variable_of(name: str) -> str:
    """Return the environment variable that sets `name`."""
    return f"{PREFIX}{name.upper()}"


def _duration(
    *, at_least: timedelta = _TICK, at_most: timedelta = _ANY_LENGTH, may_be_unlimited: bool = False
) -> BeforeValidator:
    def read(value: object) -> object:
        if may_be_unlimited and _or_unlimited(value) is None:
            return None
        if isinstance(value, timedelta):
            duration = value
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            duration = parse_go_duration(str(value).strip())
        else:
            raise ValueError(  # noqa: TRY004 - what pydantic collects
                f"{quoted(str(value))} is no duration; write it with units, such as 30s or 1m30s"
            )
        if duration < at_least:
            raise ValueError(f"{quoted(str(value))} is too short; give at least {format_go_duration(at_least)}")
        if duration > at_most:
            raise ValueError(f"{quoted(str(value))} is too long; give at most {format_go_duration(at_most)}")
        return duration

    return BeforeValidator(read)


def _or_unlimited(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() == UNLIMITED else value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _address(parse: Callable[[str], object]) -> BeforeValidator:
    def read(value: Any) -> str:
        text = str(value).strip()
        parse(text)
        return text

    return BeforeValidator(read)


def _default_instance() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


PositiveDuration = Annotated[timedelta, _duration()]


class Settings(BaseSettings):
    """The settings of one worker, each from the first source that has it. A field's own words stand in its description.

    Raises:
        ValidationError: a value is missing or can't be used.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True
    )

    database_url: SecretStr = Field(
        description="Postgres that holds the triggers, in any form that libpq reads.",
        examples=["postgresql://USER:PASSWORD@HOST:5432/DATABASE"],
    )
    run_service_url: Annotated[str, _address(parse_run_service_url)] = Field(
        description="The Run Service: `HOST:PORT` or `http://…` in plain text, `https://…` over TLS.",
        examples=["flyte-binary:8090"],
    )
    http_listen: Annotated[str, _address(parse_listen_address)] = Field(
        default="127.0.0.1:8080",
        description="Where `/healthz`, `/readyz` and `/metrics` are served; port 0 picks a free one.",
    )
    org: str = Field(default="", description="Organization of the runs, for services that know any.")
    resync_interval: Annotated[timedelta, _duration(at_least=_SHORTEST_INTERVAL)] = Field(
        default=timedelta(seconds=30), description="Time between two looks at all triggers."
    )
    max_catchup_runs_per_loop: int = Field(
        default=100, ge=1, description="Past fire times handed out per sync, over all triggers; the rest waits."
    )
    execution_qps: Annotated[float | None, BeforeValidator(_or_unlimited)] = Field(
        default=10.0, description="CreateRun calls per second in the long run, or `unlimited`."
    )
    execution_burst: int = Field(default=20, ge=1, description="Calls that may be made at once after a quiet time.")
    max_calls_in_flight: int = Field(default=200, ge=1, description="Calls at the same time.")
    call_deadline: Annotated[timedelta, _duration(at_most=_LONGEST_CALL)] = Field(
        default=timedelta(seconds=30), description="How long one call may take."
    )
    max_queued_fires: int = Field(
        default=200_000, ge=1, description="Fires that may wait in memory; what is more stays owed and comes later."
    )
    catchup_policy: Annotated[Literal["all", "latest", "none"], BeforeValidator(_lower)] = Field(
        default="all",
        description="Fire times that nobody was there for: fire `all`, the `latest` per trigger, or `none`.",
    )
    catchup_window: Annotated[timedelta | None, _duration(may_be_unlimited=True)] = Field(
        default=None, description="Fire times older than this are recorded instead of fired; `unlimited` for no limit."
    )
    give_up_after: PositiveDuration = Field(
        default=timedelta(hours=24), description="How long an error that may be lasting is tried again."
    )
    shutdown_grace: Annotated[timedelta, _duration(at_least=timedelta())] = Field(
        default=timedelta(seconds=25), description="How long calls in flight may take to end after SIGTERM."
    )
    notify: bool = Field(default=True, description="Listen to Postgres for changed triggers, between two syncs.")
    write_triggered_at: bool = Field(
        default=True, description="Keep Flyte's own column `triggered_at` up to date, for its user interface."
    )
    fire_without_database: bool = Field(
        default=True,
        description="Go on firing from memory while Postgres is away. Off, two workers that a network parts from it and"
        " from each other never fire both.",
    )
    unfired_retention: PositiveDuration = Field(
        default=timedelta(hours=720), description="How long records of fire times without a run are kept."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        default="info", description="Lowest level that is logged; `debug` has a line per run."
    )
    log_format: Annotated[Literal["json", "console"] | None, BeforeValidator(_lower)] = Field(
        default=None, description="`json` or `console`; by default `console` on a terminal and `json` elsewhere."
    )
    instance: str = Field(
        default_factory=_default_instance,
        description="Name of this worker in its logs; by default the host's name and the process's number.",
    )

    def __init__(self, *sources: PydanticBaseSettingsSource) -> None:
        super().__init__(sources=sources)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources that the constructor was given, the one that counts first."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings  # they read what nobody named
        sources: tuple[PydanticBaseSettingsSource, ...] = init_settings()["sources"]
        return sources

    @field_validator("execution_qps", mode="after")
    @classmethod
    def _qps_is_a_rate(cls, value: float | None) -> float | None:
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{value:g} is no rate; give a number above 0 (also below 1), or {UNLIMITED}")
        return value

    @field_validator("catchup_window", mode="after")
    @classmethod
    def _window_spans_a_sync(cls, value: timedelta | None, info: ValidationInfo) -> timedelta | None:
        interval = info.data.get("resync_interval")
        if value is not None and interval is not None and value < interval:
            raise ValueError(
                f"{format_go_duration(value)} is shorter than resync_interval ({format_go_duration(interval)}), so that"
                " a fire that failed once would be too old for its next try; give at least as much"
            )
        return value

    @field_validator("give_up_after", mode="after")
    @classmethod
    def _giving_up_takes_a_call(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        deadline = info.data.get("call_deadline")
        if deadline is not None and value < deadline:
            raise ValueError(
                f"{format_go_duration(value)} is shorter than call_deadline ({format_go_duration(deadline)}), so that"
                " nothing would be tried twice; give at least as much"
            )
        return value
