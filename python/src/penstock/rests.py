"""Addresses at rest: those that have failed, and that all streams and calls of the process try last for a while."""

from __future__ import annotations

import os
import random
import time

from penstock.addresses import Address, names

# Seconds of the first rest, and of the longest one.
_FIRST = 1.0
_LONGEST = 30.0

# Seconds after the end of its rest after which an address that is no longer used is forgotten.
_FORGOTTEN = 600.0


class _Rests:
    """The rests of this process. A forked child begins without any.

    Each method reads or writes the dictionary once, so threads need no lock, which a finalizer could wait for.
    """

    def __init__(self) -> None:
        self._rests: dict[Address, tuple[float, int]] = {}  # when the rest ends, and how many there were

    def failed(self, address: Address) -> None:
        """Begins a rest, which is longer than the last one: from 1 to 30 seconds, less up to half at random.

        If the address already rests, nothing changes: several streams notice the same failure.
        """
        now = time.monotonic()
        until, count = self._rests.get(address, (0.0, 0))
        if until > now:
            return
        wait = min(_LONGEST, _FIRST * 2.0 ** min(count, 10)) * random.uniform(0.5, 1)
        self._rests[address] = (now + wait, count + 1)
        names.doubt(address.location)
        for other, (ended, _) in list(self._rests.items()):
            if ended < now - _FORGOTTEN:
                self._rests.pop(other, None)

    def answered(self, address: Address) -> None:
        """Ends the rest of an address."""
        self._rests.pop(address, None)

    def left(self, address: Address) -> float:
        """Returns the seconds until a rest ends; 0 if the address does not rest."""
        return max(0.0, self._rests.get(address, (0.0, 0))[0] - time.monotonic())

    def forget(self) -> None:
        """Ends all rests."""
        self._rests = {}


rests = _Rests()
"""The rests of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=rests.forget)
