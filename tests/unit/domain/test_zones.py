from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import pairwise
from typing import Any
from zoneinfo import available_timezones

import pytest

from scheduler_worker.domain import zones
from scheduler_worker.domain.zones import Zone, in_utc, utc_text, zone_named
from scheduler_worker.errors import ScheduleError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOOKED_AT_FROM = datetime(1850, 1, 1, tzinfo=UTC)

TRICKY = [
    "Africa/Casablanca", "Africa/Monrovia", "America/Caracas", "Antarctica/Troll", "Asia/Gaza", "Asia/Kathmandu",
    "Australia/Lord_Howe", "Europe/Dublin", "Pacific/Apia", "Pacific/Kwajalein",
]  # fmt: skip


def changes_of(name: str) -> list[tuple[datetime, timedelta]]:
    """Read every change of a zone's offset, and the offset after it, from the zone file itself."""
    file: Any = import_module("zoneinfo._zoneinfo").ZoneInfo.no_cache(name)
    if not file._ttinfos:
        return []
    offsets = [file._tti_before.utcoff, *(info.utcoff for info in file._ttinfos)]
    return [
        (EPOCH + timedelta(seconds=seconds), after)
        for seconds, (before, after) in zip(file._trans_utc, pairwise(offsets), strict=True)
        if before != after and EPOCH + timedelta(seconds=seconds) > LOOKED_AT_FROM
    ]


@pytest.mark.parametrize("name", TRICKY)
def test_every_change_of_the_clocks_begins_a_stretch(name: str) -> None:
    zone = Zone(name)
    changes = changes_of(name)
    assert changes
    for change, offset in changes:
        assert zone.stretch_at(change)[::2] == (change, offset)
        assert zone.stretch_at(change - zones.TICK).end == change


def test_no_two_changes_are_so_close_that_a_look_could_miss_them() -> None:
    names = available_timezones() - {"localtime"}
    assert len(names) > 400
    for name in names:
        for (earlier, _), (later, _) in pairwise(changes_of(name)):
            assert later - earlier > zones._PROBE, f"{name} at {earlier}"


@pytest.mark.parametrize("year", [1, 1970, 2026, 2100, 9999])
@pytest.mark.parametrize("name", ["America/New_York", "Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
def test_the_stretches_of_a_year_leave_no_gap(name: str, year: int) -> None:
    zone = Zone(name)
    instant = datetime(year, 1, 1, tzinfo=UTC)
    end = datetime(year, 12, 31, 23, 59, tzinfo=UTC)
    while instant <= end:
        stretch = zone.stretch_at(instant)
        assert stretch.start <= instant < stretch.end
        assert zone.stretch_at(stretch.end - zones.TICK) == stretch
        instant = stretch.end


def test_a_search_through_the_ages_keeps_few_years() -> None:
    zone = Zone("Europe/Berlin")
    for year in range(1800, 2400):
        zone.stretch_at(datetime(year, 7, 1, tzinfo=UTC))
    assert len(zone._years) <= zones._KEPT_YEARS


@pytest.mark.parametrize("name", ["Local", "localtime"])
def test_the_zone_of_the_host_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError, match=r"is that of the host.*write an IANA name"):
        zone_named(name)


@pytest.mark.parametrize(
    "name",
    [
        *("utc", "europe/berlin", "Europe/berlin", "America", "posixrules", "zone.tab", "tzdata.zi", "+02:00"),
        *("../etc/passwd", "/etc/localtime", "Europe/../UTC", "Europe//Berlin", "./UTC", "C:\\Windows"),
        *("Europe/Berlin\x00", "\ud800", "x" * 10_000),
    ],
)
def test_what_is_no_exact_zone_name_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError, match="unknown time zone"):
        zone_named(name)


def test_old_names_of_zones_are_known() -> None:
    assert zone_named("US/Pacific").name == "US/Pacific"
    assert zone_named("Asia/Calcutta") is zone_named("Asia/Calcutta")


def test_an_instant_is_taken_to_utc() -> None:
    assert in_utc(datetime.fromisoformat("2026-01-01T01:30:00+02:00")) == datetime(2025, 12, 31, 23, 30, tzinfo=UTC)
    assert in_utc(datetime.fromisoformat("9999-12-31T23:30:00-02:00")) == datetime.max.replace(tzinfo=UTC)
    assert in_utc(datetime.fromisoformat("0001-01-01T00:30:00+02:00")) == datetime.min.replace(tzinfo=UTC)


def test_a_naive_datetime_is_no_instant() -> None:
    with pytest.raises(ValueError, match="2026-01-01T00:00:00 is no instant"):
        in_utc(datetime(2026, 1, 1))  # noqa: DTZ001  that is the fault


def test_text_of_an_instant() -> None:
    assert utc_text(datetime.fromisoformat("0999-01-01T00:00:00.9+00:00")) == "0999-01-01T00:00:00Z"
