"""Where settings are written: the environment, and a file in Flyte's form with a section of our own.

Decides which keys there are and what they are called. Must never judge a value, or repeat one that may be a secret.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml

PREFIX: Final = "SCHEDULER_"
FILE_VARIABLE: Final = "SCHEDULER_CONFIG_FILE"
SECTION: Final = "scheduler"

FLYTE_KEYS: Final[Mapping[str, str]] = {
    "resyncInterval": "resync_interval",
    "maxCatchupRunsPerLoop": "max_catchup_runs_per_loop",
    "executionQps": "execution_qps",
    "executionBurst": "execution_burst",
}
"""Keys under `runs.triggerScheduler`, and our names for them."""

# Kubernetes puts the addresses of every Service into every container: those of one called "scheduler…" look like ours.
_KUBERNETES: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody wrote it.

    Attributes:
        key: the variable, or the path in the file.
        value: as read; `repr` keeps it back, for it may be a secret.
        rank: 0 for the environment, then our section of the file, then Flyte's; the lower one counts.
        origin: the file it stands in; empty for the environment.
    """

    key: str
    value: Any
    rank: int
    origin: str = ""

    def __repr__(self) -> str:
        return f"Given({self.key})"


Layer = dict[str, Given]
"""Values of one source by our names."""


@dataclass(frozen=True, slots=True)
class FileLayers:
    """What a file holds.

    Attributes:
        own: the section `scheduler`.
        flyte: Flyte's keys, by our names.
        postgres: Flyte's `runs.database.postgres`, as it stands there; None without one.
    """

    own: Layer
    flyte: Layer
    postgres: Given | None


def from_environment(environ: Mapping[str, str], names: Collection[str], faults: list[str]) -> Layer:
    """Return the settings among the variables; an empty variable is as good as none. Add a fault per unknown one."""
    layer: Layer = {}
    known = {f"{PREFIX}{name.upper()}": name for name in names}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or _KUBERNETES.search(variable):
            continue
        if variable not in known:
            name = variable.removeprefix(PREFIX).lower()
            close = _closest(name, [*names, FILE_VARIABLE.removeprefix(PREFIX).lower()])
            faults.append(f"{variable}: no such setting; {_suggestion(close and f'{PREFIX}{close.upper()}')}")
        elif text.strip():
            layer[known[variable]] = Given(variable, text, rank=0)
    return layer


def from_file(path: Path, names: Collection[str], faults: list[str]) -> FileLayers:
    """Return what the YAML file at `path` sets, and add a fault for all that can't be taken as settings."""
    document = _mapping(_document(path, faults), str(path), faults)
    own: Layer = {}
    section = _mapping(_find(document, SECTION), f"{path}: {SECTION}", faults)
    for name, value in section.items():
        key = f"{SECTION}.{name}"
        if name not in names:
            faults.append(f"{key}: no such setting in {path}; {_suggestion(_closest(str(name), names))}")
        elif value is not None:
            own[str(name)] = Given(key, value, rank=1, origin=str(path))
    runs = _mapping(_find(document, "runs"), f"{path}: runs", faults)
    scheduler = _mapping(_find(runs, "triggerScheduler"), f"{path}: runs.triggerScheduler", faults)
    flyte = {
        name: Given(f"runs.triggerScheduler.{key}", value, rank=2, origin=str(path))
        for key, name in FLYTE_KEYS.items()
        if (value := _find(scheduler, key)) is not None
    }
    database = _mapping(_find(runs, "database"), f"{path}: runs.database", faults)
    postgres = _mapping(_find(database, "postgres"), f"{path}: runs.database.postgres", faults)
    given = Given("runs.database.postgres", postgres, rank=2, origin=str(path)) if postgres else None
    return FileLayers(own, flyte, given)


def _document(path: Path, faults: list[str]) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        faults.append(f"{FILE_VARIABLE}: can't read {str(path)!r}: {fault.strerror}; name a file that can be read")
    except UnicodeDecodeError:
        faults.append(f"{path}: not text in UTF-8; save it as such")
    except yaml.MarkedYAMLError as fault:
        # Without the parser's own words: they repeat a part of the line, which may be of a password.
        place = f" from line {fault.problem_mark.line + 1} on" if fault.problem_mark else ""
        faults.append(f"{path}: not YAML{place}; check colons, indentation, and quotes around special characters")
    except (yaml.YAMLError, ValueError):
        faults.append(f"{path}: not YAML: it holds a forbidden character or an impossible date; put quotes around it")
    return None


def _mapping(value: Any, place: str, faults: list[str]) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        faults.append(
            f"{place}: a {type(value).__name__} stands where keys with values should; write 'key: value' lines"
        )
        return {}
    return value


def _find(mapping: Mapping[Any, Any], key: str) -> Any:
    """Return the value of `key`, in any case, as Flyte reads its files."""
    if key in mapping:
        return mapping[key]
    return next((value for name, value in mapping.items() if str(name).lower() == key.lower()), None)


def _closest(name: str, known: Collection[str]) -> str:
    return next(iter(get_close_matches(name, known, n=1)), "")


def _suggestion(close: str) -> str:
    return f"did you mean {close}?" if close else "remove it; 'scheduler-worker config list' lists all there are"
