"""How the reading of an epoch goes, and telling the server of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from penstock import errors
from penstock.client import Client
from penstock.stream import Stats

_log = logging.getLogger("penstock")

# Seconds between two tellings, and seconds that one may take.
_EVERY = 10.0
_LIMIT = 1.0


class Meter:
    """Counts what the training loop took, and how long it waited for it."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._seconds = 0.0
        self._waited = 0.0
        self._rows = 0
        self._batches = 0

    def asked(self) -> float:
        """Called when the loop asks for a batch; gives the moment."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now

    def came(self, asked: float, rows: int | None) -> None:
        """Called when the loop gets what it asked for then; None at the end."""
        now = time.monotonic()
        self._waited += now - asked
        self._seconds = now - (self._began or asked)
        if rows is not None:
            self._rows += rows
            self._batches += 1

    def stats(self, resumed: int) -> Stats:
        """The counts, of a stream that was taken up again so many times."""
        return Stats(self._rows, self._batches, self._seconds, self._waited, resumed)


class Teller:
    """Tells the server how long a loop waits for it, now and then. It never fails.

    A server that has other things to do is told later, after twice as long each
    time, so that a loop seldom waits for it; one that does not take it, never again.
    """

    def __init__(self, dataset: str, count: Callable[[], Stats]) -> None:
        """Prepares to tell.

        Args:
            dataset: its name; "" if it has none.
            count: what is to be told, from the beginning on.
        """
        self._dataset = dataset
        self._count = count
        self._told = Stats(0, 0, 0.0, 0.0, 0)
        self._last = time.monotonic()
        self._every = 1.0  # times _EVERY
        self._given_up = False

    @property
    def due(self) -> float:
        """Seconds until it is time to tell."""
        return max(0.0, self._last + self._every * _EVERY - time.monotonic())

    def tell(self, client: Client | None, plan: str) -> None:
        """Tells what was counted since the last time."""
        self._last = time.monotonic()
        now, told = self._count(), self._told
        if client is None or self._given_up or now.batches == told.batches:
            return
        message = {
            "dataset": self._dataset,
            "plan": plan,
            "rows": now.rows - told.rows,
            "batches": now.batches - told.batches,
            "seconds": now.seconds - told.seconds,
            "waited": now.waited - told.waited,
        }
        try:
            client.tell("stall", message, timeout=_LIMIT)
            self._told, self._every = now, 1.0
        except errors.Error as e:
            # A server of before this action, or one that has other things to do.
            self._given_up = not isinstance(e, errors.Unavailable | errors.Exhausted)
            self._every *= 2
            _log.debug("the server was not told how long the trainer waits: %s", e)
