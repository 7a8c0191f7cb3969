"""The addresses of one service: servers of the same datasets, tried in turn."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import TypeVar

import pyarrow.flight as flight

from penstock.backoff import Backoff
from penstock.channel import Channel, Settings
from penstock.errors import Error, Exhausted, Unavailable

T = TypeVar("T")

_log = logging.getLogger("penstock")


def is_retryable(error: Error) -> bool:
    """Reports whether a failed call may succeed if repeated, on the same server or another one.

    This is true if a server, storage or connection does not respond, and for limits if the server sends a delay.
    Requests that are wrong, forbidden or for missing objects are not retried.
    """
    if error.final:
        return False
    return isinstance(error, Unavailable) or (isinstance(error, Exhausted) and error.retry_after is not None)


def retried(
    ask: Callable[[], T],
    reconnect: float,
    closed: threading.Event,
    may_retry: Callable[[Error], bool] = is_retryable,
) -> T:
    """Calls `ask`, and retries failures. Each retry logs a warning.

    Args:
        ask: the function to call.
        reconnect: the seconds for which failures are retried.
        closed: ends the retries when it is set; the last failure is then raised.
        may_retry: reports whether a failure may be retried.
    """
    backoff = Backoff(reconnect)
    while True:
        try:
            return ask()
        except Error as failure:
            wait = backoff.next(failure.retry_after) if may_retry(failure) else None
            if wait is None:
                if backoff.tries:
                    failure.add_note(f"Retried {backoff.tries} times in {reconnect:g} seconds.")
                raise
            _log.warning(
                "a call failed; retry %d in %.1f s, giving up in %.0f s: %s",
                backoff.tries,
                wait,
                backoff.left,
                failure,
            )
            if closed.wait(wait):
                raise


class Servers:
    """The connections to all addresses of a service. Safe for threads.

    One address is in use, initially the first one. When it fails, the next one is used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._channels = [Channel(settings, location) for location in settings.locations]
        self._at = 0
        self._closed = threading.Event()

    @property
    def answered(self) -> bool:
        """Whether a server has answered a call of this process. If none has, the addresses may be wrong."""
        return any(channel.answered for channel in self._channels)

    @property
    def current(self) -> Channel:
        """The connection to the address in use."""
        return self._channels[self._at]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    def __len__(self) -> int:
        """Returns the number of addresses."""
        return len(self._channels)

    def retried(self, ask: Callable[[], T], closed: threading.Event | None = None) -> T:
        """Calls `ask`, which makes calls that only read, and retries it if a server that has answered before is gone.

        A failure is raised at once if no server has ever answered, or if a call has not ended within its timeout.

        Args:
            ask: the function to call.
            closed: ends the retries when it is set; None for the event that `close` sets.
        """
        return retried(
            ask, self.settings.reconnect, self._closed if closed is None else closed, self._may_retry
        )

    def _may_retry(self, failure: Error) -> bool:
        return is_retryable(failure) and self.answered and not failure.timed_out and not self.closed

    def call(
        self, act: Callable[[flight.FlightClient, flight.FlightCallOptions], T], *, unlimited: bool = False
    ) -> T:
        """Makes a call: tries each address at most once, until one answers. See `Channel.call`."""
        return self.call_from(act, unlimited=unlimited)[0]

    def call_from(
        self, act: Callable[[flight.FlightClient, flight.FlightCallOptions], T], *, unlimited: bool = False
    ) -> tuple[T, Channel]:
        """Like `call`, but also returns the channel that answered."""
        start = self._at
        for i in range(len(self._channels)):
            at = (start + i) % len(self._channels)
            try:
                answer = self._channels[at].call(act, unlimited=unlimited)
            except Error as e:
                if not is_retryable(e):
                    raise
                failure = e
                continue
            self._at = at
            return answer, self._channels[at]
        raise failure

    def leave(self, channel: Channel, *, spread: bool = False) -> None:
        """Switches to another address if the channel is in use.

        Args:
            channel: the connection to leave.
            spread: whether to choose the address at random. Otherwise, it is the next one, as for all clients that leave.
        """
        if self.current is channel and len(self._channels) > 1:
            step = random.randrange(1, len(self._channels)) if spread else 1
            self._at = (self._at + step) % len(self._channels)

    def close(self) -> None:
        """Closes all streams and connections, and ends retries. Later calls fail."""
        self._closed.set()
        for channel in self._channels:
            channel.close()
