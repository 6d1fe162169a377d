"""What was measured, beside what it should be.

Decides how runs become one figure and when a bar is met. Must never loosen a bar: a figure that misses it says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One value of one run.

    Attributes:
        figure: its name in the table.
        bar: the highest value that is good, or the lowest with `at_least`; None when there is no bar.
        precise: digits after the point when shown.
    """

    figure: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    precise: int = 1


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The median of a figure's runs. With a bar of its own in every run (a share of a reference), the median bar."""

    readings: Sequence[Reading] = field(repr=False)

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self.readings[0].figure

    @property
    def value(self) -> float:
        """The median."""
        return median(reading.value for reading in self.readings)

    @property
    def bar(self) -> float | None:
        """The bar, or None."""
        bars = [reading.bar for reading in self.readings if reading.bar is not None]
        return median(bars) if bars else None

    @property
    def is_met(self) -> bool | None:
        """Whether the median meets the bar; None without a bar."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.readings[0].at_least else self.value <= self.bar

    def as_json(self) -> dict[str, object]:
        """Return it for the file of results."""
        return {
            "figure": self.name,
            "unit": self.readings[0].unit,
            "median": self.value,
            "runs": [reading.value for reading in self.readings],
            "bar": self.bar,
            "at_least": self.readings[0].at_least,
            "ok": self.is_met,
        }


def figures_of(readings: Iterable[Reading]) -> list[Figure]:
    """Return one figure for each name, in the order of their first readings."""
    by_name: dict[str, list[Reading]] = {}
    for reading in readings:
        by_name.setdefault(reading.figure, []).append(reading)
    return [Figure(readings=runs) for runs in by_name.values()]


def table_of(figures: Iterable[Figure], *, title: str) -> Table:
    """Return the table that people read."""
    table = Table(title=title, title_justify="left")
    table.add_column("figure")
    table.add_column("median", justify="right")
    table.add_column("lowest - highest", justify="right")
    table.add_column("bar", justify="right")
    table.add_column("ok")
    for figure in figures:
        first = figure.readings[0]
        values = [reading.value for reading in figure.readings]
        spread = "" if len(values) == 1 else f"{_shown(min(values), first)} - {_shown(max(values), first)}"
        bar = "" if figure.bar is None else f"{'≥' if first.at_least else '≤'} {_shown(figure.bar, first)}"
        met = {None: "", True: "[green]yes[/green]", False: "[red]NO[/red]"}[figure.is_met]
        table.add_row(figure.name, f"{_shown(figure.value, first)} {first.unit}", spread, bar, met)
    return table


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` (0 to 1) of `values` do not exceed; `values` must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _shown(value: float, reading: Reading) -> str:
    return f"{value:,.{reading.precise}f}"
