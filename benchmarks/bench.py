"""What every measurement gets."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.figures import Reading
from benchmarks.stack import Stack

BAR_TRIGGERS = 100_000


@dataclass(frozen=True, kw_only=True)
class Bench:
    """How to measure.

    Attributes:
        triggers: size of the fleet; the bars are written for 100,000.
        quick: shorter stretches, for a look while working.
        million: measure the cold start of a million triggers too.
    """

    stack: Stack
    triggers: int
    quick: bool
    million: bool

    @property
    def fleet(self) -> str:
        """The size of the fleet as it is written in the names of figures."""
        return f"{self.triggers:,}"

    def bar(self, bar: float) -> float | None:
        """Return a bar that is written for a fleet of `BAR_TRIGGERS`, or None for another one."""
        return bar if self.triggers == BAR_TRIGGERS else None


@dataclass(frozen=True, kw_only=True)
class Family:
    """Figures that are measured together."""

    name: str
    measure: Callable[[Bench], Iterable[Reading]]
