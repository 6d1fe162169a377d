"""What a sync has to do: the database's (id, latest revision) against what is known here.

Revisions are compared, never contents: an unchanged revision costs one dictionary look-up and nothing else.
"""

from collections.abc import Iterable

from scheduler_worker.parted_dict import PartedDict


class Reconciliation:
    """One comparison of all active rows, fed in parts so that none holds the loop for long.

    What is noted while it goes on may be found changed or missing: whoever reads those rows finds them as they are.

    Attributes:
        changed: ids that are new, or whose revision moved.
    """

    def __init__(self, known: PartedDict[int, int]) -> None:
        """Compare against `known`, revision by id: everything armed or held as a bad row."""
        self._known = known
        self._unseen: dict[int, dict[int, int]] = {}
        self.changed: list[int] = []

    def feed(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Compare some rows' (id, latest revision)."""
        changed, part_of = self.changed, self._known.part_of
        number, unseen = -1, {}
        for trigger_id, revision in pairs:
            if (part := part_of(trigger_id)) != number:  # rows mostly come as they were written, neighbours together
                number, unseen = part, self._unseen_of(part)
            if unseen.pop(trigger_id, None) != revision:
                changed.append(trigger_id)

    @property
    def missing(self) -> list[int]:
        """Ids that are known here and were in no part: paused, deleted or gone, once every part was fed."""
        numbers = self._unseen.keys() | self._known.parts()
        return sorted(trigger_id for number in numbers for trigger_id in self._unseen_of(number))

    def _unseen_of(self, number: int) -> dict[int, int]:
        part = self._unseen.get(number)
        if part is None:
            part = self._unseen[number] = self._known.copy_of_part(number)
        return part
