"""Python's cycle collector, kept away from what lives as long as the worker is the owner.

A full pass of the collector holds the event loop for as long as it takes to look at every object: hundreds of
milliseconds with a hundred thousand armed triggers, and it finds nothing, since they are freed by their counts.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_GENERATIONS = 1

_USUAL_THRESHOLDS = gc.get_threshold()
_MIDDLE_PASSES_PER_FULL_ONE = 100
"""Usually ten. Once the rest is out of sight a full pass looks at little but queued fires, tens of milliseconds for a
hundred thousand of them, and those are freed by their counts as well."""


def keep_what_there_is() -> None:
    """Take everything that is alive now out of the collector's sight, and have full passes made rarely.

    Cheap: meant for after each part of a load.
    """
    gc.collect(_YOUNG_GENERATIONS)  # what is garbage by now would stay for good
    gc.freeze()
    gc.set_threshold(*_USUAL_THRESHOLDS[:2], _MIDDLE_PASSES_PER_FULL_ONE)


@contextmanager
def collected_later() -> Iterator[None]:
    """Do without the collector inside, but for what is asked of it: where much is made, and nearly all of it stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def let_go() -> None:
    """Show the collector everything again, and have it free what is no longer in use. Holds the loop meanwhile."""
    gc.set_threshold(*_USUAL_THRESHOLDS)
    gc.unfreeze()
    gc.collect()
