"""Every error the worker raises on purpose. One base, and what went wrong as attributes."""

from collections.abc import Sequence


class SchedulerWorkerError(Exception):
    """Base of all errors of this package."""


class ScheduleError(SchedulerWorkerError, ValueError):
    """A schedule can't be used: bad text, unknown zone, rate 0, or it can never fire. The message names the fault."""


class SpecError(SchedulerWorkerError, ValueError):
    """A trigger row's protobuf bytes can't be read or hold no schedule. The message names the fault."""


class ConfigError(SchedulerWorkerError, ValueError):
    """One or more settings are wrong.

    Attributes:
        faults: one sentence per fault, each naming the key, the value (never a secret) and the remedy.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class DatabaseUnavailableError(SchedulerWorkerError):
    """Postgres did not answer, or not in time. The cause is chained."""


class RunServiceError(SchedulerWorkerError):
    """A call of the Run Service did not succeed.

    Attributes:
        code: name of the gRPC status code, such as ``UNAVAILABLE``.
        details: the service's own words, possibly empty.
    """

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"{code}: {details}" if details else code)
        self.code = code
        self.details = details


class EmbeddedPostgresError(SchedulerWorkerError):
    """The Postgres that comes from a wheel can't be made, started or reached. The message ends in the remedy."""


class MigrationError(SchedulerWorkerError):
    """The database can't be brought to the asked-for form. The message names the remedy."""


class TriggerNotFoundError(SchedulerWorkerError, LookupError):
    """No trigger has the key that was given, or it is deleted.

    Attributes:
        keys: the keys that were not found, as people write them.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        noun = "trigger" if len(keys) == 1 else "triggers"
        super().__init__(
            f"no {noun} {', '.join(keys)}; `scheduler-worker triggers list --all` shows what there is, deleted ones too"
        )
        self.keys = tuple(keys)


class RevisionConflictError(SchedulerWorkerError):
    """A trigger is at another revision than the writer believed: somebody else wrote it in between.

    Attributes:
        key: the trigger's key, as people write it.
        expected: the revision that the writer named.
        found: the revision that the trigger is at, or None when there is no such trigger.
    """

    def __init__(self, key: str, expected: int, found: int | None) -> None:
        state = "does not exist" if found is None else f"is at revision {found}"
        super().__init__(f"trigger {key} {state}, not at revision {expected}; look at it, then write again")
        self.key = key
        self.expected = expected
        self.found = found


class TriggerFileError(SchedulerWorkerError, ValueError):
    """A file with triggers can't be used.

    Attributes:
        faults: one sentence per fault, each naming the place, what stands there and the remedy.
    """

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        heading = f"{source}: {len(faults)} fault{'' if len(faults) == 1 else 's'}"
        super().__init__("\n  - ".join((heading, *faults)))
        self.faults = tuple(faults)
