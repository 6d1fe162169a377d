"""From the environment and a file to settings, with everything that is wrong said at once.

Decides which source counts: the environment, then the file's section `scheduler`, then Flyte's keys, then the default.
Must never open anything but the files that are named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from scheduler_worker.config.database import DatabaseSource
from scheduler_worker.config.settings import Settings, variable_of
from scheduler_worker.config.sources import FILE, ConfigFile, Environment, Given, Source
from scheduler_worker.domain.quoting import quoted
from scheduler_worker.errors import ConfigError

DEFAULT: Final = "default"

_REMEDIES: Final = {
    "bool_parsing": "write true or false",
    "bool_type": "write true or false",
    "float_parsing": "write a number, such as 10 or 0.5",
    "float_type": "write a number, such as 10 or 0.5",
    "int_from_float": "write a whole number",
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "string_type": "write a text",
}
"""What to do about pydantic's errors, where its own words do not say it."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and where each of them was written.

    Attributes:
        origins: by name, the key and its file, or `DEFAULT`.
    """

    settings: Settings
    origins: Mapping[str, str]


def load_settings(environ: Mapping[str, str], config_file: Path | None = None) -> Settings:
    """Return the settings of this process.

    Args:
        environ: the variables; `SCHEDULER_CONFIG_FILE` names a file when `config_file` is None.
        config_file: a YAML file; the environment counts more.

    Raises:
        ConfigError: with all faults of the environment and the file, each naming key, value and remedy.
    """
    return load_with_origins(environ, config_file).settings


def load_with_origins(environ: Mapping[str, str], config_file: Path | None = None) -> LoadedSettings:
    """Return the settings as `load_settings` does, and where they come from. Raises as it does."""
    environment, file = Environment(environ), _config_file(environ, config_file)
    database = DatabaseSource([environment, file.own], file.postgres)
    sources = (database, environment, file.own, file.flyte)
    faults = [*environment.faults, *file.faults, *database.faults]
    try:
        settings = Settings(*sources)
    except ValidationError as error:
        raise ConfigError([*faults, *_faults_of(error, sources)]) from error
    if faults:
        raise ConfigError(faults)
    given = {name: _given(name, sources) for name in Settings.model_fields}
    return LoadedSettings(settings, {name: each.origin if each else DEFAULT for name, each in given.items()})


def load_database_url(environ: Mapping[str, str], config_file: Path | None = None) -> str:
    """Return only the database's address, for commands that need nothing else.

    Raises:
        ConfigError: it is missing or wrong, or the file is; unknown variables and other values are not looked at.
    """
    file = _config_file(environ, config_file)
    database = DatabaseSource([Environment(environ), file.own], file.postgres)
    if faults := [*file.faults, *database.faults]:
        raise ConfigError(faults)
    return database.url


def _config_file(environ: Mapping[str, str], path: Path | None) -> ConfigFile:
    named = environ.get(variable_of(FILE), "").strip()
    return ConfigFile(Path(named) if path is None and named else path)


def _given(name: str, sources: Sequence[Source]) -> Given | None:
    return next((given for source in sources if (given := source.given(name))), None)


def _faults_of(invalid: ValidationError, sources: Sequence[Source]) -> Iterator[str]:
    for error in invalid.errors(include_url=False):
        name = str(error["loc"][0])
        value = _given(name, sources)
        reason = error.get("ctx", {}).get("error")
        if value is None:
            examples = Settings.model_fields[name].examples or []
            yield f"{variable_of(name)}: missing; set it, such as to {examples[0]}"
        elif reason is not None:  # of a check of ours: it names the value and the remedy
            yield f"{value.key}: {reason}"
        else:
            remedy = _REMEDIES.get(error["type"], error["msg"].replace("Input should be", "it should be"))
            yield f"{value.key}: {quoted(str(value.value))} can't be used; {remedy}"
