"""The addresses of one service: servers of the same datasets, tried in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow.flight as flight

from penstock.channel import Channel, Settings
from penstock.errors import Error, Exhausted, Unavailable

T = TypeVar("T")


def another_try_helps(error: Error) -> bool:
    """Whether what failed may go well if it is asked again, of the same server or of another one.

    That is so of a server, storage or connection that does not answer, and of a limit for which the
    server names a time to try again in. What is wrong, forbidden or gone stays so.
    """
    return isinstance(error, Unavailable) or (isinstance(error, Exhausted) and error.retry_after is not None)


class Servers:
    """The connections to all addresses of a service. Safe for threads.

    One address is in use, at first the first one. It is left for the next one when it fails.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._channels = [Channel(settings, location) for location in settings.locations]
        self._at = 0

    @property
    def current(self) -> Channel:
        """The connection to the address in use."""
        return self._channels[self._at]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._channels[0].closed

    def call(
        self, act: Callable[[flight.FlightClient, flight.FlightCallOptions], T], *, unlimited: bool = False
    ) -> T:
        """Makes a call, of each address once until one answers. See `Channel.call`."""
        return self.call_from(act, unlimited=unlimited)[0]

    def call_from(
        self, act: Callable[[flight.FlightClient, flight.FlightCallOptions], T], *, unlimited: bool = False
    ) -> tuple[T, Channel]:
        """Makes a call as `call` does, and says who answered it."""
        start = self._at
        for i in range(len(self._channels)):
            at = (start + i) % len(self._channels)
            try:
                answer = self._channels[at].call(act, unlimited=unlimited)
            except Error as e:
                if not another_try_helps(e):
                    raise
                failure = e
                continue
            self._at = at
            return answer, self._channels[at]
        raise failure

    def leave(self, channel: Channel) -> None:
        """Lets the next address be in use, if it is this one that is."""
        if self.current is channel:
            self._at = (self._at + 1) % len(self._channels)

    def close(self) -> None:
        """Ends all streams and connections. Calls after it fail."""
        for channel in self._channels:
            channel.close()
