"""Measures where the time of the training loop goes, and reports the waiting time to the server."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields

from penstock import errors
from penstock.client import Client
from penstock.stream import Stats

_log = logging.getLogger("penstock")

# Seconds between reports, and the timeout of one.
_EVERY = 10.0
_LIMIT = 1.0
# The number of steps that are judged together.
RECENT = 100


@dataclass(frozen=True)
class Steps:
    """Where the time of consecutive steps went, in seconds.

    A step begins when the loop receives a batch, and ends when the loop receives the next one.

    Attributes:
        steps: the number of steps.
        seconds: the time of all of them, the sum of the other three.
        waiting: the loop waited for a batch to be read and converted.
        copying: the loop waited while a batch was being copied to the device. A copy that continues while the loop computes
            is not counted.
        loop: the loop itself.
    """

    steps: int = 0
    seconds: float = 0.0
    waiting: float = 0.0
    copying: float = 0.0
    loop: float = 0.0

    @property
    def stall(self) -> float:
        """The share of the time that the loop waited, for batches and their copies; 0 if there was no step."""
        return (self.waiting + self.copying) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class LoopStats(Stats):
    """Statistics of a training loop so far.

    Attributes:
        bytes: the size of the batches, as received.
        copied: the part of `waited` in which a batch was being copied to the device.
        recent: the last 100 steps, or all if there are fewer.
    """

    bytes: int = 0
    copied: float = 0.0
    recent: Steps = Steps()

    @property
    def total(self) -> Steps:
        """Where the time went, since the request for the first batch."""
        waiting = self.waited - self.copied
        return Steps(self.batches, self.seconds, waiting, self.copied, self.seconds - self.waited)


@dataclass
class Spent:
    """What a source did so far, in the thread that reads.

    Attributes:
        converting: seconds in which batches were converted and transformed.
        copying: seconds in which batches were copied to the device, or the copies were started.
        bytes: the size of the batches, as received.
    """

    converting: float = 0.0
    copying: float = 0.0
    bytes: int = 0


class Meter:
    """Counts what the training loop received, and how long it waited.

    Attributes:
        spent: what the source did.
        batches: the number of batches that the loop received.
    """

    def __init__(self) -> None:
        self.spent = Spent()
        self.batches = 0
        self._began: float | None = None
        self._seconds = 0.0
        self._waited = 0.0
        self._copied = 0.0
        self._copying = 0.0  # by the source, when the latest wait began
        self._rows = 0
        # After each batch, the time and the totals of waiting and copying.
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=RECENT + 1)

    def start_wait(self) -> float:
        """Called when the loop requests a batch; returns the current time."""
        self._copying = self.spent.copying
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now

    def end_wait(self, began: float, rows: int | None) -> None:
        """Called when the loop gets the batch it requested at `began`; rows is None at the end."""
        now = time.monotonic()
        self._waited += now - began
        self._copied += min(now - began, self.spent.copying - self._copying)
        self._seconds = now - (self._began or began)
        if rows is not None:
            self._rows += rows
            self.batches += 1
            self._recent.append((now, self._waited, self._copied))

    @property
    def recent(self) -> Steps:
        """The last steps that are complete."""
        if not self._recent:
            return Steps()
        (first, waited, copied), (last, waited_last, copied_last) = self._recent[0], self._recent[-1]
        seconds, waited, copied = last - first, waited_last - waited, copied_last - copied
        return Steps(len(self._recent) - 1, seconds, waited - copied, copied, seconds - waited)

    def stats(self, of: Stats | None = None) -> LoopStats:
        """The statistics, with what only the stream knows, such as how often it was resumed.

        Args:
            of: the statistics of the stream; None before it is opened.
        """
        stream = {} if of is None else {field.name: getattr(of, field.name) for field in fields(Stats)}
        own = {"rows": self._rows, "batches": self.batches, "seconds": self._seconds, "waited": self._waited}
        return LoopStats(
            **{"resumed": 0, **stream, **own},
            bytes=self.spent.bytes,
            copied=self._copied,
            recent=self.recent,
        )


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
            client._tell("stall", message, timeout=_LIMIT)
            self._reported, self._every = now, 1.0
        except errors.Error as e:
            # The server is older than this action, or busy.
            self._given_up = not isinstance(e, errors.Unavailable | errors.Exhausted)
            self._every *= 2
            _log.debug("could not report the trainer's waiting time to the server: %s", e)
