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
