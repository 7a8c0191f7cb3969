"""How long to wait before a broken stream is taken up again, and when to give up."""

from __future__ import annotations

import random
import time

FIRST = 0.1
LONGEST = 10.0


class Backoff:
    """The waits between the tries of one stream, from its last batch on.

    The first wait is about a tenth of a second, and each next one twice as long, up to ten seconds. A
    random half of each is left out, so that the many readers of a server that was restarted do not
    come back at the same moment.
    """

    def __init__(self, limit: float) -> None:
        """Tries for `limit` seconds from the first failure on; 0: never."""
        self._limit = limit
        self._deadline: float | None = None
        self.tries = 0

    def went_well(self) -> None:
        """Something has come: what fails next is a first failure again."""
        self._deadline = None
        self.tries = 0

    def next(self, at_least: float | None = None) -> float | None:
        """Seconds to wait before the next try; None if there is to be none.

        Args:
            at_least: what the server asked for, where it did.
        """
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._limit
        wait = min(LONGEST, FIRST * 2.0 ** min(self.tries, 20)) * random.uniform(0.5, 1)
        if at_least is not None:
            wait = max(wait, at_least * random.uniform(1, 1.25))
        if now + wait > self._deadline:
            return None
        self.tries += 1
        return wait

    @property
    def left(self) -> float:
        """Seconds until there is no other try."""
        return self._limit if self._deadline is None else max(0.0, self._deadline - time.monotonic())
