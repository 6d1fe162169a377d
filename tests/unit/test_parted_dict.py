"""The parted dictionary against a plain one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.parted_dict import PartedDict, by_hash, by_neighbours

_numbers = st.integers(1, 50) | st.integers(16_370, 16_400) | st.integers(2**40, 2**40 + 9)
_values = st.integers(1, 5) | st.none()


@given(st.lists(st.tuples(_numbers, _values)))
def test_numbers_are_kept_as_a_plain_dictionary_keeps_them(steps: list[tuple[int, int | None]]) -> None:
    parted: PartedDict[int, int] = PartedDict(by_neighbours)
    plain: dict[int, int] = {}
    for key, value in steps:
        if value is None:
            assert parted.discard(key) == (plain.pop(key, None) is not None)
        else:
            parted[key] = plain[key] = value
        assert (key in parted) == (key in plain)
        assert parted.get(key) == plain.get(key)
    assert len(parted) == len(plain)
    assert sorted(parted.values()) == sorted(plain.values())
    assert {key: parted[key] for key in plain} == plain
    copied = [parted.copy_of_part(number) for number in parted.parts()]
    assert all(copied)
    assert {key: value for part in copied for key, value in part.items()} == plain
    parted.clear()
    assert len(parted) == 0


def test_a_key_that_is_not_there_is_told_as_a_dictionary_tells_it() -> None:
    parted: PartedDict[str, int] = PartedDict(by_hash)
    with pytest.raises(KeyError, match="absent"):
        parted["absent"]
    assert parted.copy_of_part(by_hash("absent")) == {}


def test_no_part_holds_much_of_a_million() -> None:
    ids = range(1, 1_000_001)
    by_number: PartedDict[int, int] = PartedDict(by_neighbours)
    by_text: PartedDict[str, int] = PartedDict(by_hash)
    for trigger_id in ids:
        by_number[trigger_id] = by_text[str(trigger_id)] = trigger_id
    for parted in (by_number, by_text):
        assert max(len(parted.copy_of_part(number)) for number in parted.parts()) < 20_000
    assert len(by_number) == len(by_text) == len(ids)
