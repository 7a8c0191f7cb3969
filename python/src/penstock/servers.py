"""The servers of one service, which have the same datasets: their order for a request, and retries."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow.flight as flight

from penstock import query
from penstock.addresses import Address, Key, ranked, resolve
from penstock.backoff import Backoff
from penstock.channel import Channel
from penstock.errors import Error, Exhausted, Expired, Internal, Invalid, NotFound, Unavailable
from penstock.process import process
from penstock.race import first_to_accept
from penstock.rests import rests
from penstock.settings import Settings

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


def may_differ(error: Error) -> bool:
    """Reports whether another server may accept what this one refuses, because their configurations differ for a while."""
    return isinstance(error, NotFound | Expired) or (isinstance(error, Invalid) and bool(error.differs))


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
            log_retry(backoff, wait, failure)
            if closed.wait(wait):
                raise


def log_retry(backoff: Backoff, wait: float, failure: Error) -> None:
    """Logs a warning that a call has failed and is retried.

    Args:
        backoff: the delays of the call.
        wait: the seconds until the retry.
        failure: why the call failed.
    """
    _log.warning(
        "a call failed; retry %d in %.1f s, giving up in %.0f s: %s",
        backoff.tries,
        wait,
        backoff.left,
        failure,
    )


def only(action: str, results: Sequence[T]) -> T:
    """Returns the only result of an action.

    Raises:
        Internal: there are several results, or none.
    """
    if len(results) != 1:
        raise Internal(f"the server answered {action} with {len(results)} results instead of one")
    return results[0]


class Servers:
    """The connections to all addresses of a service. Safe for threads.

    A key says what is asked for, such as a dataset or a shard. Each key has an order of the servers, which all processes
    share, so that equal requests go to the same server. Addresses at rest come last.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._channels: dict[Address, Channel] = {}
        self._current: Channel | None = None
        self._answered = False  # by a server whose address is gone
        self._closed = threading.Event()

    @property
    def answered(self) -> bool:
        """Whether a server has answered a call of this process. If none has, the addresses may be wrong."""
        return self._answered or any(channel.answered for channel in list(self._channels.values()))

    @property
    def current(self) -> Channel:
        """The connection to the server that was used last."""
        return self._current or self.order("")[0]

    def use(self, channel: Channel) -> None:
        """Notes the server that is in use."""
        self._current = channel

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    def addresses(self) -> tuple[Address, ...]:
        """Returns all addresses of the service, in no particular order."""
        return resolve(self.settings.locations)

    def _ranked(self, key: Key, *, wait: bool) -> list[Channel]:
        """Returns the connections in the order for a key, whether their addresses rest or not."""
        found = ranked(key, resolve(self.settings.locations, wait=wait))
        with process.lock:
            channels = [self._channel(address) for address in found]
            self._forget(set(found))
        return channels

    def before(self, key: Key, address: Address) -> Channel | None:
        """Returns the first server for a key, if it comes before an address; None otherwise. Never waits.

        Args:
            key: what is asked for.
            address: the server that is in use.
        """
        for channel in self._ranked(key, wait=False):
            if channel.address == address:
                return None
            if not rests.left(channel.address):
                return channel
        return None

    def order(self, key: Key | None) -> list[Channel]:
        """Returns the connections in the order in which to try them.

        Args:
            key: what is asked for; None begins with the server in use.
        """
        channels = self._ranked(key or "", wait=True)
        if key is None and self._current in channels:
            channels.sort(key=lambda channel: channel is not self._current)
        return sorted(channels, key=lambda channel: rests.left(channel.address))

    def _channel(self, address: Address) -> Channel:
        """Returns the connection to an address. The process's lock is held."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = Channel(self.settings, address)
            if self._closed.is_set():
                channel.close()
        return channel

    def _forget(self, addresses: set[Address]) -> None:
        """Drops the idle connections to all other addresses. The process's lock is held."""
        for address, channel in list(self._channels.items()):
            if address not in addresses and channel.disconnect_if_idle():
                self._answered = self._answered or channel.answered
                del self._channels[address]
                if self._current is channel:
                    self._current = None

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
        self,
        act: Callable[[flight.FlightClient, flight.FlightCallOptions], T],
        *,
        key: Key | None = None,
        unlimited: bool = False,
    ) -> T:
        """Makes a call: tries each address at most once, until one answers. See `Channel.call` and `ask`."""
        return self.ask(lambda channel: channel.call(act, unlimited=unlimited), Choice(self, key))

    def action(self, name: str, fields: Mapping[str, Any], *, key: Key | None = None) -> bytes:
        """Calls an action that returns one result, and returns this result. See `call`.

        Args:
            name: the action.
            fields: its body, sent as JSON; None values are left out.
            key: what is asked for; None begins with the server in use.
        """
        sent = flight.Action(name, query.text(fields))
        results = self.call(lambda client, options: list(client.do_action(sent, options)), key=key)
        return only(name, results).body.to_pybytes()

    def ask(self, ask: Callable[[Channel], T], choice: Choice) -> T:
        """Asks one server after the other, until one answers.

        After the client's `timeout`, no server is asked any more except a second one, however many there are.

        If a server refuses what a server with another configuration may accept, one more server is asked, provided that
        there is a key. If that one refuses too, the first refusal is raised.

        Args:
            ask: asks a server.
            choice: the servers to ask; those that fail count as tried.
        """
        refusal: Error | None = None
        began = time.monotonic()
        for asked in itertools.count(1):
            channel = choice.next()
            try:
                answer = ask(channel)
            except Error as failure:
                self.name(failure, channel)
                late = self.settings.timeout is not None and time.monotonic() - began >= self.settings.timeout
                left = choice.failed(channel) and not (late and asked > 1)
                if not is_retryable(failure):
                    if refusal is not None:
                        raise refusal from None
                    if not (left and choice.key is not None and may_differ(failure)):
                        raise
                    refusal = failure
                if not left:
                    if refusal is not None:
                        raise refusal from None
                    raise
                continue
            self.use(channel)
            return answer
        raise AssertionError("unreachable: there is no last server")

    def name(self, failure: Error, channel: Channel) -> None:
        """Adds to a failure which server has sent it, if there are several: perhaps only this one is configured wrongly."""
        if failure.of_server and not failure.server and len(self.addresses()) > 1:
            failure.server = str(channel.address)

    def wait(self, seconds: float) -> bool:
        """Waits before a retry, until `close` at most. Reports whether `close` was called."""
        return self._closed.wait(seconds)

    def close(self) -> None:
        """Closes all streams and connections, and ends retries. Later calls fail."""
        self._closed.set()
        with process.lock:
            channels = list(self._channels.values())
        for channel in channels:
            channel.close()


class Choice:
    """Chooses servers for one call or one stream: each address once, before any address a second time.

    Attributes:
        key: what is asked for; None for no key.
    """

    def __init__(self, servers: Servers, key: Key | None) -> None:
        self._servers = servers
        self.key = key
        self._tried: set[Address] = set()

    def next(self) -> Channel:
        """Returns the server to try: the first one, unless another one accepts a connection sooner.

        Only connections are raced: the caller sends its request to one server.
        """
        order = self._servers.order(self.key)
        left = [channel for channel in order if channel.address not in self._tried]
        if not left:
            self._tried, left = set(), order
        awake = [channel for channel in left if not rests.left(channel.address)]
        if len(awake) < 2 or awake[0].connected:
            return left[0]
        accepting = first_to_accept([channel.address for channel in awake])
        return next((channel for channel in awake if channel.address == accepting), left[0])

    def failed(self, channel: Channel) -> bool:
        """Notes that a server has failed. Reports whether there is one that was not tried."""
        self._tried.add(channel.address)
        return any(address not in self._tried for address in self._servers.addresses())

    def succeeded(self) -> None:
        """Begins anew: a server has returned what was asked for."""
        if self._tried:
            self._tried = set()
