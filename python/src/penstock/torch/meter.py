"""Measures how long the training loop waits, and reports it to the server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from penstock import errors
from penstock.client import Client
from penstock.stream import Stats

_log = logging.getLogger("penstock")

# Seconds between reports, and the timeout of one.
_EVERY = 10.0
_LIMIT = 1.0


class Meter:
    """Counts what the training loop received, and how long it waited."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._seconds = 0.0
        self._waited = 0.0
        self._rows = 0
        self._batches = 0

    def start_wait(self) -> float:
        """Called when the loop requests a batch; returns the current time."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now

    def end_wait(self, began: float, rows: int | None) -> None:
        """Called when the loop gets the batch it requested at `began`; rows is None at the end."""
        now = time.monotonic()
        self._waited += now - began
        self._seconds = now - (self._began or began)
        if rows is not None:
            self._rows += rows
            self._batches += 1

    def stats(self, of: Stats | None = None) -> Stats:
        """The statistics, with what only the stream knows: how often it was resumed, and how batches come.

        Args:
            of: the statistics of the stream; None before it is opened.
        """
        if of is None:
            return Stats(self._rows, self._batches, self._seconds, self._waited, 0)
        return Stats(self._rows, self._batches, self._seconds, self._waited, of.resumed, of.way, of.why)


class StallReporter:
    """Periodically reports the loop's waiting time to the server. It never fails.

    If the server is busy, reports become half as frequent each time, so that the loop seldom waits for them.
    If the server does not accept them, they stop.
    """

    def __init__(self, dataset: str, count: Callable[[], Stats]) -> None:
        """Prepares to report.

        Args:
            dataset: the dataset's name; "" if it has none.
            count: returns the statistics since the beginning.
        """
        self._dataset = dataset
        self._count = count
        self._reported = Stats(0, 0, 0.0, 0.0, 0)
        self._last = time.monotonic()
        self._every = 1.0  # times _EVERY
        self._given_up = False

    @property
    def due(self) -> float:
        """Seconds until the next report is due."""
        return max(0.0, self._last + self._every * _EVERY - time.monotonic())

    def report(self, client: Client | None, plan: str) -> None:
        """Reports the statistics since the last report."""
        self._last = time.monotonic()
        now, reported = self._count(), self._reported
        if client is None or self._given_up or now.batches == reported.batches:
            return
        message = {
            "dataset": self._dataset,
            "plan": plan,
            "rows": now.rows - reported.rows,
            "batches": now.batches - reported.batches,
            "seconds": now.seconds - reported.seconds,
            "waited": now.waited - reported.waited,
        }
        try:
            client.tell("stall", message, timeout=_LIMIT)
            self._reported, self._every = now, 1.0
        except errors.Error as e:
            # The server is older than this action, or busy.
            self._given_up = not isinstance(e, errors.Unavailable | errors.Exhausted)
            self._every *= 2
            _log.debug("could not report the trainer's waiting time to the server: %s", e)
