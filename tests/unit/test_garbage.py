"""The cycle collector looks away from what is to stay, and finds it again when it has gone."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from scheduler_worker import garbage


class Knot:
    """Knows itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _nothing_stays_frozen() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_is_kept_is_not_looked_at_any_more() -> None:
    knot = Knot()
    garbage.keep_what_there_is()
    assert not any(each is knot for each in gc.get_objects())
    assert gc.get_freeze_count() > 0


def test_what_is_garbage_already_is_freed_and_not_kept() -> None:
    gone = weakref.ref(Knot())
    garbage.keep_what_there_is()
    assert gone() is None


def test_what_was_kept_is_freed_once_it_is_let_go() -> None:
    knot = Knot()
    gone = weakref.ref(knot)
    garbage.keep_what_there_is()
    del knot
    gc.collect()
    assert gone() is not None
    garbage.let_go()
    assert gone() is None


def test_nothing_is_looked_for_while_modules_are_read() -> None:
    with garbage.collected_later():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_full_passes_are_rare_until_everything_is_let_go() -> None:
    garbage.let_go()  # a worker that ran in this process may have left them so
    usual = gc.get_threshold()
    garbage.keep_what_there_is()
    assert gc.get_threshold()[2] > usual[2]
    garbage.let_go()
    assert gc.get_threshold() == usual
