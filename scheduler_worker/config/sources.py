"""Where settings are written: the environment, and a file in Flyte's form with a section of our own.

Decides which keys there are and what they are called. Must never judge a value, or repeat one that may be a secret.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from pydantic_settings import EnvSettingsSource, InitSettingsSource

from scheduler_worker.config.settings import PREFIX, Settings, variable_of

URL: Final = "database_url"
URL_FILE: Final = "database_url_file"
PASSWORD_FILE: Final = "database_password_file"  # noqa: S105 - the name of a setting
FILE: Final = "config_file"
SECTION: Final = "scheduler"

FLYTE_KEYS: Final[Mapping[str, str]] = {
    "resyncInterval": "resync_interval",
    "maxCatchupRunsPerLoop": "max_catchup_runs_per_loop",
    "executionQps": "execution_qps",
    "executionBurst": "execution_burst",
}
"""Keys under `runs.triggerScheduler`, and our names for them."""

_NAMES: Final = (*Settings.model_fields, URL_FILE, PASSWORD_FILE)
# Kubernetes puts the addresses of every Service into every container: those of one called "scheduler…" look like ours.
_KUBERNETES: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody wrote it.

    Attributes:
        key: the variable, or the path in the file.
        value: as read; it may be a secret.
        rank: 0 for the environment, then our section of the file, then Flyte's; the lower one counts.
        file: the file it stands in; empty for the environment.
    """

    key: str
    value: Any = field(repr=False)
    rank: int
    file: str = ""

    @property
    def origin(self) -> str:
        """Where it is written, for people."""
        return f"{self.key} in {self.file}" if self.file else self.key


class Environment(EnvSettingsSource):
    """The environment variables that are given; an empty one is as good as none.

    Attributes:
        faults: one per variable that looks like a setting and is none.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        ours = {variable: text for variable, text in environ.items() if variable.startswith(PREFIX)}
        # In place of this process's own environment, which the library has read.
        self.env_vars = {variable.lower(): text for variable, text in ours.items() if text.strip()}
        known = {variable_of(name): name for name in (*_NAMES, FILE)}
        self.faults = [
            f"{variable}: no such setting; {_hint(variable.removeprefix(PREFIX), known.values(), variable_of)}"
            for variable in ours
            if variable not in known and not _KUBERNETES.search(variable)
        ]

    def given(self, name: str) -> Given | None:
        """Return the value of the setting `name`, if there is one."""
        text = self.env_vars.get(variable_of(name).lower())
        return None if text is None else Given(variable_of(name), text, rank=0)


class Section(InitSettingsSource):
    """Values from a part of a file, by the names of the settings; None where there is none."""

    def __init__(self, values: Mapping[str, Given | None]) -> None:
        super().__init__(Settings, {name: each.value for name in Settings.model_fields if (each := values.get(name))})
        self._values = values

    def given(self, name: str) -> Given | None:
        """Return the value of the setting `name`, if there is one."""
        return self._values.get(name)


Source: TypeAlias = Environment | Section


class ConfigFile:
    """A YAML file, read; without a path, an empty one.

    The library's own YAML source passes over a file that is not there, and its errors repeat lines of the file.

    Attributes:
        own: the section `scheduler`.
        flyte: the keys under `runs.triggerScheduler`; those unknown are left to Flyte.
        postgres: Flyte's `runs.database.postgres`, as it stands there; None without one.
        faults: all that can't be taken as settings.
    """

    def __init__(self, path: Path | None) -> None:
        self.faults: list[str] = []
        self._path = str(path)
        document = {} if path is None else self._mapping(self._read(path), self._path)
        own = self._section(document, SECTION)
        runs = self._section(document, "runs")
        flyte = self._section(runs, "runs.triggerScheduler")
        postgres = self._section(self._section(runs, "runs.database"), "runs.database.postgres")
        for name in own:
            if name not in _NAMES:
                self.faults.append(f"{SECTION}.{name}: no such setting in {path}; {_hint(str(name), _NAMES)}")
        self.own = Section({name: self._given(f"{SECTION}.{name}", own.get(name), 1) for name in _NAMES})
        written = {name: (f"runs.triggerScheduler.{key}", _find(flyte, key)) for key, name in FLYTE_KEYS.items()}
        self.flyte = Section({name: self._given(key, value, 2) for name, (key, value) in written.items()})
        self.postgres = self._given("runs.database.postgres", postgres or None, 2)

    def _given(self, key: str, value: Any, rank: int) -> Given | None:
        return None if value is None else Given(key, value, rank, self._path)

    def _read(self, path: Path) -> Any:
        try:
            return yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as fault:
            remedy = "name a file that can be read"
            self.faults.append(f"{variable_of(FILE)}: can't read {str(path)!r}: {fault.strerror}; {remedy}")
        except UnicodeDecodeError:
            self.faults.append(f"{path}: not text in UTF-8; save it as such")
        except yaml.MarkedYAMLError as fault:
            # Without the parser's own words: they repeat a part of the line, which may be of a password.
            place = f" from line {fault.problem_mark.line + 1} on" if fault.problem_mark else ""
            remedy = "check colons, indentation, and quotes around special characters"
            self.faults.append(f"{path}: not YAML{place}; {remedy}")
        except (yaml.YAMLError, ValueError):
            reason = "it holds a forbidden character or an impossible date"
            self.faults.append(f"{path}: not YAML: {reason}; put quotes around it")
        return None

    def _section(self, parent: Mapping[Any, Any], path: str) -> Mapping[Any, Any]:
        return self._mapping(_find(parent, path.rpartition(".")[2]), f"{self._path}: {path}")

    def _mapping(self, value: Any, place: str) -> Mapping[Any, Any]:
        if isinstance(value, Mapping):
            return value
        if value is not None:
            kind = type(value).__name__
            self.faults.append(f"{place}: a {kind} stands where keys with values should; write 'key: value' lines")
        return {}


def _find(mapping: Mapping[Any, Any], key: str) -> Any:
    """Return the value of `key`, in any case, as Flyte reads its files."""
    if key in mapping:
        return mapping[key]
    return next((value for name, value in mapping.items() if str(name).lower() == key.lower()), None)


def _hint(name: str, known: Iterable[str], written: Callable[[str], str] = str) -> str:
    for close in get_close_matches(name.lower(), known, n=1):
        return f"did you mean {written(close)}?"
    return "remove it; 'scheduler-worker config list' lists all there are"
