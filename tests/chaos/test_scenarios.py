"""The named scenarios, small; `python -m tests.chaos --scenario` makes large ones."""

import sys

import pytest

from tests.chaos.scenarios import BACKLOG_SETTINGS, backlog, outage
from tests.chaos.stage import stage


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


@pytest.mark.timeout(120)
async def test_a_backlog_runs_to_its_end_each_fire_once_over_three_restarts() -> None:
    async with stage(workers=1, duplicates="ok", settings=BACKLOG_SETTINGS) as opened:
        finding = await backlog(opened, fires=600, say=_say)
    assert finding.mismatches == []
    assert finding.figures["runs"] >= 600


@pytest.mark.timeout(120)
async def test_an_outage_loses_nothing_and_the_service_is_looked_for_once_a_second() -> None:
    async with stage(workers=1, duplicates="ok") as opened:
        finding = await outage(opened, seconds=5, fires_per_minute=1000, say=_say)
    assert finding.mismatches == []
    assert 2 <= finding.figures["attempts to connect"] <= 6
