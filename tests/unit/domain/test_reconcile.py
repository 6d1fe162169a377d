"""The diff of a sync: revisions against what is known."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.domain.reconcile import Reconciliation
from scheduler_worker.parted_dict import PartedDict, by_neighbours


def known_of(revisions: dict[int, int]) -> PartedDict[int, int]:
    known: PartedDict[int, int] = PartedDict(by_neighbours)
    for trigger_id, revision in revisions.items():
        known[trigger_id] = revision
    return known


def test_an_unchanged_revision_is_left_alone() -> None:
    comparison = Reconciliation(known_of({1: 5, 2: 7}))
    comparison.feed([(1, 5), (2, 7)])
    assert comparison.changed == []
    assert comparison.missing == []


def test_what_is_missing_is_told_only_by_all_pages_together() -> None:
    comparison = Reconciliation(known_of({1: 1, 2: 1, 3: 1}))
    comparison.feed([(1, 1)])
    comparison.feed([(3, 2), (4, 1)])
    assert comparison.changed == [3, 4]
    assert comparison.missing == [2]


_ids = st.integers(1, 50) | st.integers(16_370, 16_400) | st.integers(2**40, 2**40 + 9)
_revisions = st.dictionaries(_ids, st.integers(1, 5))


@given(_revisions, _revisions, st.integers(1, 7))
def test_applying_the_diff_makes_both_sides_equal(known: dict[int, int], rows: dict[int, int], page: int) -> None:
    comparison = Reconciliation(known_of(known))
    pairs = sorted(rows.items())
    for start in range(0, len(pairs), page):
        comparison.feed(pairs[start : start + page])
    applied = {id_: revision for id_, revision in known.items() if id_ not in comparison.missing}
    applied |= {id_: rows[id_] for id_ in comparison.changed}
    assert applied == rows
    assert all(known.get(id_) != rows[id_] for id_ in comparison.changed)


def test_what_is_noted_meanwhile_is_looked_at_rather_than_lost() -> None:
    known = known_of({1: 1})
    comparison = Reconciliation(known)
    comparison.feed([(1, 1)])
    known[2] = 1
    known[20_000] = 1
    known.discard(1)
    assert comparison.changed == []
    assert comparison.missing == [20_000]
