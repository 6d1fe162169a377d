"""From the environment and a file to settings, with everything that is wrong said at once.

Decides which source counts: the environment, then the file's section `scheduler`, then Flyte's keys, then the default.
Must never open anything but the files that are named.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scheduler_worker.config.database import NAMES, URL, database_url_of
from scheduler_worker.config.settings import Settings
from scheduler_worker.config.sources import FILE_VARIABLE, PREFIX, FileLayers, Given, Layer, from_environment, from_file
from scheduler_worker.domain.quoting import quoted
from scheduler_worker.errors import ConfigError

DEFAULT: Final = "default"

_NAMES: Final = frozenset(Settings.model_fields) | NAMES
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
_NO_FILE: Final = FileLayers({}, {}, None)


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
    faults: list[str] = []
    environment = from_environment(environ, _NAMES, faults)
    file = _file_layers(environ, config_file, faults)
    layers = [environment, file.own]
    address = database_url_of(layers, file.postgres, faults)
    given = {name: value for layer in (file.flyte, file.own, environment) for name, value in layer.items()}
    for name in NAMES:
        given.pop(name, None)
    settings = _validated(given, address, faults)
    if settings is None or address is None:
        raise ConfigError(faults)
    given[URL] = address
    origins = {name: _origin(given.get(name)) for name in Settings.model_fields}
    return LoadedSettings(settings, origins)


def load_database_url(environ: Mapping[str, str], config_file: Path | None = None) -> str:
    """Return only the database's address, for commands that need nothing else.

    Raises:
        ConfigError: it is missing or wrong; other settings are not looked at.
    """
    faults: list[str] = []
    # Unknown keys are for `run` and `config check` to report.
    environment = from_environment(environ, _NAMES, [])
    file = _file_layers(environ, config_file, faults)
    address = database_url_of([environment, file.own], file.postgres, faults)
    if address is None or faults:
        raise ConfigError(faults)
    return str(address.value)


def _file_layers(environ: Mapping[str, str], config_file: Path | None, faults: list[str]) -> FileLayers:
    if config_file is None and environ.get(FILE_VARIABLE, "").strip():
        config_file = Path(environ[FILE_VARIABLE].strip())
    return _NO_FILE if config_file is None else from_file(config_file, _NAMES, faults)


def _validated(given: Layer, address: Given | None, faults: list[str]) -> Settings | None:
    """Return the settings unless there are faults; theirs are added to those found before."""
    # A stand-in for a faulty address, whose fault is known, lets the other settings be judged all the same.
    values: dict[str, Any] = {name: each.value for name, each in given.items()}
    values[URL] = "" if address is None else address.value
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        faults.extend(_faults_of(error.errors(include_url=False), given))
        return None
    return None if faults else settings


def _faults_of(errors: Iterable[ErrorDetails], given: Layer) -> Iterable[str]:
    reported: set[str] = set()
    for error in errors:
        name = str(error["loc"][0])
        if name in reported:  # one sentence per setting, whatever branches of its type failed
            continue
        reported.add(name)
        if name not in given:
            examples = Settings.model_fields[name].examples or []
            yield f"{PREFIX}{name.upper()}: missing; set it, such as to {examples[0]}"
            continue
        value = given[name]
        reason = error.get("ctx", {}).get("error")
        if reason is not None:  # of a check of ours: it names the value and the remedy
            yield f"{value.key}: {reason}"
        else:
            remedy = _REMEDIES.get(error["type"], error["msg"].replace("Input should be", "it should be"))
            yield f"{value.key}: {quoted(str(value.value))} can't be used; {remedy}"


def _origin(given: Given | None) -> str:
    if given is None:
        return DEFAULT
    return f"{given.key} in {given.origin}" if given.origin else given.key
