"""The waits of a stream between two connections, and their log lines."""

from __future__ import annotations

import logging
import threading
import time

from penstock.backoff import Backoff
from penstock.errors import Error

_log = logging.getLogger("penstock")

# Seconds that a stream that moves waits without a warning: the servers to which it moves may be restarting, too.
_QUIET = 10.0


class Interruption:
    """The time from the end of a connection to the next batch. A stream has one at a time."""

    def __init__(self, name: str, reconnect: float, closed: threading.Event) -> None:
        """Prepares for interruptions.

        Args:
            name: what is read, for the log.
            reconnect: the seconds for which failures are retried.
            closed: ends waits when it is set.
        """
        self._name = name
        self._reconnect = reconnect
        self._backoff = Backoff(reconnect)
        self._closed = closed
        self._quiet_until = 0.0  # by the monotonic clock: until then, waits are not warnings
        self._warned = False

    @property
    def is_move(self) -> bool:
        """Whether the stream has moved since the last batch."""
        return bool(self._quiet_until)

    def moves(self) -> None:
        """Notes that the stream moves: its waits are not warnings for a while."""
        self._quiet_until = time.monotonic() + _QUIET

    def wait(self, failure: Error, rows: int) -> bool:
        """Waits before a retry, and logs it. Reports whether to retry.

        Args:
            failure: what is retried.
            rows: the number of rows that were read.
        """
        wait = self._backoff.next(failure.retry_after)
        if wait is None:
            failure.add_note(f"Retried {self._backoff.tries} times in {self._reconnect:g} seconds.")
            return False
        self._warned = self._warned or time.monotonic() >= self._quiet_until
        _log.log(
            logging.WARNING if self._warned else logging.INFO,
            "the stream of %s broke after %d rows; retry %d in %.1f s, giving up in %.0f s: %s",
            self._name,
            rows,
            self._backoff.tries,
            wait,
            self._backoff.left,
            failure,
        )
        return not self._closed.wait(wait)

    def end(self, rows: int) -> bool:
        """Notes that a batch has arrived. Reports whether a warning was logged before.

        Args:
            rows: the number of rows before the batch.
        """
        warned = self._warned
        if self._backoff.tries:
            _log.log(
                logging.WARNING if warned else logging.INFO,
                "the stream of %s resumed after %.1f s, at row %d",
                self._name,
                self._backoff.elapsed,
                rows,
            )
            self._backoff.reset()
        self._quiet_until, self._warned = 0.0, False
        return warned
