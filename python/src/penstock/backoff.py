"""Delays between the retries of a broken stream."""

from __future__ import annotations

import random
import time

FIRST_WAIT = 0.1
MAX_WAIT = 10.0


class Backoff:
    """Backoff computes the delays between the retries of one stream since its last batch.

    The first delay is about a tenth of a second, and each one is twice as long as the previous one, up to
    ten seconds. Each delay is shortened at random by up to half, so that the readers of a restarted server do not all
    reconnect at the same moment.
    """

    def __init__(self, limit: float) -> None:
        """Allows retries for `limit` seconds after the first failure; 0 allows none."""
        self._limit = limit
        self._failed = 0.0  # when the first try failed
        self._deadline: float | None = None
        self.tries = 0

    def reset(self) -> None:
        """Starts over after a success: the next failure counts as the first one."""
        self._deadline = None
        self.tries = 0

    def next(self, at_least: float | None = None) -> float | None:
        """Returns the number of seconds to wait before the next retry; None means to give up.

        Args:
            at_least: the delay that the server asked for, if any.
        """
        now = time.monotonic()
        if self._deadline is None:
            self._failed = now
            self._deadline = now + self._limit
        wait = min(MAX_WAIT, FIRST_WAIT * 2.0 ** min(self.tries, 20)) * random.uniform(0.5, 1)
        if at_least is not None:
            wait = max(wait, at_least * random.uniform(1, 1.25))
        if now + wait > self._deadline:
            return None
        self.tries += 1
        return wait

    @property
    def elapsed(self) -> float:
        """Seconds since the first failure; 0 if there was none."""
        return 0.0 if self._deadline is None else time.monotonic() - self._failed

    @property
    def left(self) -> float:
        """Seconds until retries end."""
        return self._limit if self._deadline is None else max(0.0, self._deadline - time.monotonic())
