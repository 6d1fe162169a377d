"""The benchmarks' own judgement: medians, bars, and nothing loosened in silence."""

import pytest

from benchmarks.figures import Reading, figures_of, percentile


def readings(*values: float, bar: float | None = None, at_least: bool = False) -> list[Reading]:
    return [Reading(figure="f", value=value, unit="s", bar=bar, at_least=at_least) for value in values]


@pytest.mark.parametrize(
    ("values", "bar", "at_least", "is_met"),
    [
        ([1, 9, 2], 2, False, True),
        ([1, 9, 3], 2, False, False),
        ([80, 90, 85], 85, True, True),
        ([80, 90, 84], 85, True, False),
        ([5], None, False, None),
    ],
)
def test_the_median_is_held_against_the_bar(
    values: list[float], bar: float | None, at_least: bool, is_met: bool | None
) -> None:
    (figure,) = figures_of(readings(*values, bar=bar, at_least=at_least))
    assert figure.is_met is is_met
    assert figure.as_json()["ok"] is is_met


def test_figures_come_in_the_order_of_their_first_readings() -> None:
    names = ["b", "a", "b"]
    figures = figures_of(Reading(figure=name, value=1.0, unit="s") for name in names)
    assert [(figure.name, len(figure.readings)) for figure in figures] == [("b", 2), ("a", 1)]


def test_percentiles() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 51.0, 100.0, 100.0]
