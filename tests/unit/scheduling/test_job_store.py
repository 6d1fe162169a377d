"""The due-list against a plain sorted list."""

from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.job import Job
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError
from hypothesis import given
from hypothesis import strategies as st

from scheduler_worker.scheduling.job_store import DueStore

START = datetime(2026, 3, 1, tzinfo=UTC)


def job(job_id: str, second: int | None) -> Job:
    made = Job.__new__(Job)  # the store needs an id and a next run time, not a scheduler
    made.id = job_id
    made.next_run_time = None if second is None else START + timedelta(seconds=second)
    return made


def test_due_jobs_come_earliest_first_and_a_bounded_number_at_a_time() -> None:
    store = DueStore(due_jobs_per_pass=2)
    for job_id, second in [("c", 3), ("a", 1), ("b", 2), ("later", 9)]:
        store.add_job(job(job_id, second))
    now = START + timedelta(seconds=5)
    assert [each.id for each in store.get_due_jobs(now)] == ["a", "b"]
    assert [each.id for each in store.get_due_jobs(now)] == ["c"]
    assert store.get_due_jobs(now) == []
    assert store.get_next_run_time() == START + timedelta(seconds=9)


def test_a_job_that_was_moved_is_due_only_at_its_new_time() -> None:
    store = DueStore()
    moved = job("a", 1)
    store.add_job(moved)
    moved.next_run_time = START + timedelta(seconds=8)
    store.update_job(moved)
    assert store.get_due_jobs(START + timedelta(seconds=5)) == []
    assert store.get_due_jobs(START + timedelta(seconds=8)) == [moved]


def test_a_job_put_in_twice_with_one_time_is_due_once() -> None:
    store = DueStore()
    store.add_job(job("a", 1))
    store.update_job(job("a", 1))
    assert len(store.get_due_jobs(START + timedelta(seconds=1))) == 1


def test_a_paused_job_is_listed_last_and_never_due() -> None:
    store = DueStore()
    store.add_job(job("paused", None))
    store.add_job(job("a", 1))
    assert [each.id for each in store.get_all_jobs()] == ["a", "paused"]
    assert [each.id for each in store.get_due_jobs(datetime.max.replace(tzinfo=UTC))] == ["a"]


def test_unknown_and_repeated_ids_are_refused() -> None:
    store = DueStore()
    store.add_job(job("a", 1))
    with pytest.raises(ConflictingIdError):
        store.add_job(job("a", 2))
    with pytest.raises(JobLookupError):
        store.update_job(job("b", 1))
    with pytest.raises(JobLookupError):
        store.remove_job("b")


def test_edits_without_end_do_not_grow_the_heap() -> None:
    store = DueStore()
    edited = job("a", 1)
    store.add_job(edited)
    for change in (store.update_job, store.put):
        for second in range(20_000):
            edited.next_run_time = START + timedelta(seconds=second)
            change(edited)
        assert len(store._heap) < 2_000


_changes = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "due"]), st.integers(0, 5), st.integers(0, 10)), max_size=50
)


@given(_changes)
def test_the_store_agrees_with_a_plain_dictionary(changes: list[tuple[str, int, int]]) -> None:
    store, model = DueStore(), dict[str, int]()
    for change, number, second in changes:
        job_id = str(number)
        if change == "put":
            assert store.put(job(job_id, second)) == (job_id in model)
            model[job_id] = second
        elif change == "remove" and job_id in model:
            store.remove_job(job_id)
            del model[job_id]
        elif change == "due":
            due = store.get_due_jobs(START + timedelta(seconds=second))
            assert sorted(each.id for each in due) == sorted(key for key, when in model.items() if when <= second)
            assert [each.next_run_time for each in due] == sorted(each.next_run_time for each in due)
            for each in due:  # whoever takes due jobs puts them back or removes them
                each.next_run_time = START + timedelta(seconds=20)
                store.update_job(each)
                model[each.id] = 20
        assert len(store) == len(model)
        expected = START + timedelta(seconds=min(model.values())) if model else None
        assert store.get_next_run_time() == expected
