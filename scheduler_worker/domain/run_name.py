"""The run name: the identity of a fire, the same in every process that computes it.

Decides the name from the trigger's key and the fire time alone. Two attempts at one fire share the name, and that is
what makes a second run impossible. Must never change: a changed name is a doubled run.
"""

from datetime import datetime

from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.domain.zones import in_utc

_FNV_OFFSET_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_64_BITS = 0xFFFFFFFFFFFFFFFF


def run_name(key: TriggerKey, fire_time: datetime) -> str:
    """Return the name of the run for `fire_time`: ``r`` and up to 16 hexadecimal digits, as Flyte computes it.

    The digits are the 64-bit FNV-1 hash (multiply, then xor) of the key and of the time in UTC, numbers unpadded.
    Fractions of a second have no part in it.

    Raises:
        ValueError: `fire_time` is naive.
    """
    time = in_utc(fire_time)
    project, domain, task_name, name = key
    identity = (
        f"{project}:{domain}:{task_name}:{name}"
        f":{time.year}:{time.month}:{time.day}:{time.hour}:{time.minute}:{time.second}"
    )
    state = _FNV_OFFSET_BASIS
    for byte in identity.encode():
        state = (state * _FNV_PRIME & _64_BITS) ^ byte
    return f"r{state:x}"


class RunNameClaims:
    """Which armed trigger has which run names. Two keys can share theirs when a part of them holds a colon."""

    def __init__(self) -> None:
        self._claims: dict[str, TriggerKey] = {}

    def claim(self, key: TriggerKey) -> TriggerKey | None:
        """Claim the run names of `key`, or return the key that has them already. Claiming one's own again is fine."""
        if ":" not in "".join(key):
            return None  # no other key runs together to the same identity
        holder = self._claims.setdefault(":".join(key), key)
        return None if holder == key else holder

    def give_up(self, key: TriggerKey) -> None:
        """Give up the claim of `key`, if it has one."""
        if self._claims.get(":".join(key)) == key:
            del self._claims[":".join(key)]
