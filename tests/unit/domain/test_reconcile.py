"""The diff of a sync: revisions against what is known."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.domain.reconcile import KnownRevisions, Reconciliation


def test_an_unchanged_revision_is_left_alone() -> None:
    comparison = Reconciliation(KnownRevisions({1: 5, 2: 7}.items()))
    comparison.feed([(1, 5), (2, 7)])
    assert comparison.changed == []
    assert comparison.missing == []


def test_what_is_missing_is_told_only_by_all_pages_together() -> None:
    comparison = Reconciliation(KnownRevisions({1: 1, 2: 1, 3: 1}.items()))
    comparison.feed([(1, 1)])
    comparison.feed([(3, 2), (4, 1)])
    assert comparison.changed == [3, 4]
    assert comparison.missing == [2]


_ids = st.integers(1, 50) | st.integers(16_370, 16_400) | st.integers(2**40, 2**40 + 9)
_revisions = st.dictionaries(_ids, st.integers(1, 5))


@given(_revisions, _revisions, st.integers(1, 7))
def test_applying_the_diff_makes_both_sides_equal(known: dict[int, int], rows: dict[int, int], page: int) -> None:
    comparison = Reconciliation(KnownRevisions(known.items()))
    pairs = sorted(rows.items())
    for start in range(0, len(pairs), page):
        comparison.feed(pairs[start : start + page])
    applied = {id_: revision for id_, revision in known.items() if id_ not in comparison.missing}
    applied |= {id_: rows[id_] for id_ in comparison.changed}
    assert applied == rows
    assert all(known.get(id_) != rows[id_] for id_ in comparison.changed)


@given(st.lists(st.tuples(_ids, st.integers(1, 5) | st.none())))
def test_what_is_known_is_what_was_noted_and_not_forgotten(steps: list[tuple[int, int | None]]) -> None:
    known, model = KnownRevisions(), dict[int, int]()
    for trigger_id, revision in steps:
        if revision is None:
            known.forget(trigger_id)
            model.pop(trigger_id, None)
        else:
            known.note(trigger_id, revision)
            model[trigger_id] = revision
    assert len(known) == len(model)
    assert all(known.get(trigger_id) == model.get(trigger_id) for trigger_id, _ in steps)


def test_what_is_noted_meanwhile_is_looked_at_rather_than_lost() -> None:
    known = KnownRevisions([(1, 1)])
    comparison = Reconciliation(known)
    comparison.feed([(1, 1)])
    known.note(2, 1)
    known.note(20_000, 1)
    known.forget(1)
    assert comparison.changed == []
    assert comparison.missing == [20_000]
