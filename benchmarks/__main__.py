"""`python -m benchmarks`: measures everything, or the families named, and writes down what came out."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.bench import Bench, Family
from benchmarks.cold_start import COLD_START, MILLION
from benchmarks.figures import Reading, figures_of, table_of
from benchmarks.hand_out import HAND_OUT
from benchmarks.lateness import FLEET, MANY, ONE
from benchmarks.limiter import LIMITER
from benchmarks.machine import description
from benchmarks.maths import MATHS
from benchmarks.pickup import PICKUP
from benchmarks.stack import Stack
from benchmarks.sync import SYNC
from benchmarks.throughput import THROUGHPUT

_FAMILIES = (MATHS, COLD_START, MILLION, SYNC, PICKUP, ONE, MANY, FLEET, HAND_OUT, THROUGHPUT, LIMITER)
_TABLE_WIDTH = 120
_RESULTS = Path(__file__).parent / "results.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the results.

    Returns 0, also when bars are missed: the table says so. Returns 1 when a family could not be measured.
    """
    options = _parser().parse_args(arguments)
    families = _chosen(options.only)
    console = Console(width=_TABLE_WIDTH)
    machine = description()
    began = time.monotonic()
    readings: list[Reading] = []
    failures: dict[str, str] = {}
    with Stack() as stack:
        bench = Bench(stack=stack, triggers=options.triggers, quick=options.quick, million=options.million)
        for family in families:
            for run in range(options.runs):
                console.print(f"[dim]{time.monotonic() - began:6.1f} s  {family.name}, run {run + 1}[/dim]")
                try:
                    readings.extend(family.measure(bench))
                except (RuntimeError, TimeoutError) as fault:
                    failures[family.name] = str(fault)
                    console.print(f"[red]not measured: {fault}[/red]")
    figures = figures_of(readings)
    title = f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, {options.runs} runs"
    console.print(table_of(figures, title=title))
    results = {
        "machine": machine,
        "triggers": options.triggers,
        "quick": options.quick,
        "took_seconds": round(time.monotonic() - began, 1),
        "failures": failures,
        "figures": [figure.as_json() for figure in figures],
    }
    options.json.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written to {options.json}")
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = ", ".join(family.name for family in _FAMILIES)
    parser.add_argument("--triggers", type=int, default=100_000, metavar="N", help="size of the fleet (%(default)s)")
    parser.add_argument("--only", metavar="NAME,...", help=f"families to measure: {names}")
    parser.add_argument("--runs", type=int, default=1, metavar="R", help="runs of each family (%(default)s)")
    parser.add_argument("--json", type=Path, default=_RESULTS, metavar="FILE", help="where results go (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="shorter stretches, for a look while working")
    parser.add_argument("--million", action="store_true", help="start a worker on 1,000,000 triggers as well")
    return parser


def _chosen(only: str | None) -> list[Family]:
    if only is None:
        return list(_FAMILIES)
    by_name = {family.name: family for family in _FAMILIES}
    unknown = [name for name in only.split(",") if name not in by_name]
    if unknown:
        raise SystemExit(f"--only {only}: no family {', '.join(unknown)}; choose from {', '.join(by_name)}")
    return [by_name[name] for name in only.split(",")]


if __name__ == "__main__":
    sys.exit(main())
