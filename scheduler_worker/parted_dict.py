"""A dictionary in parts, for what is kept of every trigger.

A plain dictionary of a million entries is copied whole when it grows, which holds the event loop for tens of
milliseconds, and a start fills several of them with the same row.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_NEIGHBOURS_BITS = 14
"""Neighbours are 16,384 ids: grown or copied in a fraction of a millisecond."""

_HASH_PARTS = 256


def by_neighbours(number: int) -> int:
    """Keep ids that were given out one after another in one part."""
    return number >> _NEIGHBOURS_BITS


def by_hash(text: str) -> int:
    """Spread texts over a fixed number of parts at random, so that these do not grow all at once."""
    return hash(text) % _HASH_PARTS


class PartedDict(Generic[K, V]):
    """Values by key, in no order.

    Attributes:
        part_of: gives the number of the part that a key is kept in.
    """

    def __init__(self, part_of: Callable[[K], int]) -> None:
        """Keep keys as `part_of` says: always the same of one key."""
        self.part_of = part_of
        self._parts: dict[int, dict[K, V]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: K) -> V:
        part = self._parts.get(self.part_of(key))
        if part is None:
            raise KeyError(key)
        return part[key]

    def __setitem__(self, key: K, value: V) -> None:
        number = self.part_of(key)
        part = self._parts.get(number)
        if part is None:
            part = self._parts[number] = {}
        before = len(part)
        part[key] = value
        self._length += len(part) - before

    def __contains__(self, key: K) -> bool:
        return key in self._parts.get(self.part_of(key), ())

    def get(self, key: K) -> V | None:
        """Return the value of `key`, or None if there is none."""
        part = self._parts.get(self.part_of(key))
        return None if part is None else part.get(key)

    def discard(self, key: K) -> bool:
        """Remove `key` if it is there, and say whether it was."""
        number = self.part_of(key)
        part = self._parts.get(number)
        if part is None or key not in part:
            return False
        del part[key]
        self._length -= 1
        if not part:
            del self._parts[number]
        return True

    def clear(self) -> None:
        """Remove everything."""
        self._parts.clear()
        self._length = 0

    def values(self) -> Iterator[V]:
        """Yield every value. Nothing may be put in or removed meanwhile."""
        return chain.from_iterable(part.values() for part in self._parts.values())

    def parts(self) -> Collection[int]:
        """Return the numbers of the parts that hold something."""
        return list(self._parts)

    def copy_of_part(self, number: int) -> dict[K, V]:
        """Return a copy of one part; empty if nothing is kept there."""
        return dict(self._parts.get(number, ()))
