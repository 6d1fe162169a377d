"""What a sync has to do: the database's (id, latest revision) against what is known here.

Revisions are compared, never contents: an unchanged revision costs one dictionary look-up and nothing else.
"""

from collections.abc import Iterable, Mapping


class Reconciliation:
    """One comparison of all active rows, fed in parts so that none holds the loop for long.

    Attributes:
        changed: ids that are new, or whose revision moved.
    """

    def __init__(self, known: Mapping[int, int]) -> None:
        """Compare against `known`: revision by trigger id, of everything armed or held as a bad row."""
        self._unseen = dict(known)
        self.changed: list[int] = []

    def feed(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Compare some rows' (id, latest revision)."""
        unseen, changed = self._unseen, self.changed
        for trigger_id, revision in pairs:
            if unseen.pop(trigger_id, None) != revision:
                changed.append(trigger_id)

    @property
    def missing(self) -> list[int]:
        """Ids that are known here and were in no part: paused, deleted or gone, once every part was fed."""
        return sorted(self._unseen)
