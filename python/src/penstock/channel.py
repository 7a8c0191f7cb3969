"""One connection to a server, which survives a fork.

If gRPC's threads are running in the parent during a fork, gRPC does not work in the child: its first call waits
forever. So the first call opens a connection, a fork closes it if nothing uses it, and the next call on either side
opens it again. A connection with an open stream cannot be closed before a fork; calls in the child then fail at once
with an error that explains this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, local, security
from penstock.addresses import Address, proxy_of
from penstock.call import Call, Calls
from penstock.following import Follower
from penstock.lease import Lease
from penstock.process import process
from penstock.rests import rests
from penstock.settings import Settings

# With a stream: this package understands the message "moved", in this form.
_MOVES = ("penstock-moves", "1")
# For a receiver: the server that redeems the ticket.
_SERVER_HEADER = "penstock-server"
_ADDRESS_HEADER = "penstock-server-address"

T = TypeVar("T")

_ADDRESS = "use the address that `penstock serve` prints on standard output"

# The remedy for a call that was not answered in time.
_SILENT = (
    "check that the server is not stopped or overloaded; if it is only slow, connect with a longer timeout"
)


def _of_server(address: Address) -> list[tuple[str, str]]:
    """Returns the headers that tell a receiver which server redeems a ticket."""
    ip = [(_ADDRESS_HEADER, address.ip)] if address.ip else []
    return [(_SERVER_HEADER, address.location), *ip]


class Channel:
    """A connection to one server, opened at the first call in each process. Safe for threads."""

    def __init__(self, settings: Settings, address: Address) -> None:
        self.settings = settings
        self.address = address
        self._calls = Calls()
        self._client: flight.FlightClient | None = None
        self._leases: set[Lease] = set()
        self._closed = False
        self._last_call: Call | None = None  # the last call that was answered
        self._through: Channel | None = None  # the connection to a receiver that reads from this server
        self.answered = False  # whether the server has answered a call in this process
        self.follower = Follower(self)
        with process.lock:
            process.channels.add(self)

    def lease(self) -> Lease:
        """Leases the connection, and opens it if needed."""
        with process.lock:
            self._check_open()
            if process.unusable:
                raise errors.Invalid(
                    f"this process was forked while {process.unusable}; gRPC does not work in it",
                    remedy="close streams and other Flight clients before the fork, or start processes with the spawn or forkserver method",
                )
            fresh = self._client is None
            if fresh:
                process.connects()
                self._client = self.settings.connect(self.address, self._calls)
            lease = Lease(self, self._client, fresh=fresh)
            self._leases.add(lease)
            return lease

    def call(
        self,
        act: Callable[[flight.FlightClient, flight.FlightCallOptions], T],
        *,
        unlimited: bool = False,
        within: float | None = None,
    ) -> T:
        """Makes a call within the timeout; the call ends when `act` returns. Converts failures to our exceptions.

        Args:
            act: makes the call.
            unlimited: whether the call has no timeout.
            within: the seconds that the call may take at most, whatever its timeout; None for no other limit.
        """
        limits = [
            seconds
            for seconds in (None if unlimited else self.settings.timeout, within)
            if seconds is not None
        ]
        limit = min(limits, default=None)
        for again in (False, True):
            options = replace(self.settings, timeout=limit).options(unlimited=False)
            lease = self.lease()
            began = time.monotonic()
            try:
                with self._calls.watched() as call:
                    answer = act(lease.client, options)
                self._last_call = call
                self.answered = True
                rests.answered(self.address)
                return answer
            except errors.Unavailable as e:
                lease.broken = True
                waited = time.monotonic() - began
                timed_out = limit is not None and waited >= limit
                # After a server restart, the old connection fails at its next use, at once. The second try opens a new
                # one. After silence, another server is asked instead.
                stale = not lease.fresh and waited < self.settings.keepalive
                if again or not stale or timed_out or call.details is not None:
                    if call.details is None:
                        self.explain(e)
                        if not timed_out:
                            rests.failed(self.address)
                        else:
                            e.timed_out = True
                            e.message = f"{self.address} has not answered within {limit:g} s: {e.message}"
                            e.remedy = e.remedy if e.final else _SILENT
                    raise
            except errors.Error as e:
                self.answered = self.answered or call.details is not None
                if call.details is not None:
                    rests.answered(self.address)
                if not isinstance(e, errors.Internal | errors.NotFound | errors.Invalid):
                    raise
                # A Penstock server sends details with each failure.
                if call.details is None and (isinstance(e, errors.Internal) or not e.remedy):
                    if e.message == pa.ArrowNotImplementedError.__name__:  # the error has no text
                        e.message = "the server does not implement this call"
                    e.remedy = f"{self.address} does not answer like a Penstock server: {_ADDRESS}; a proxy must pass on gRPC trailers"
                call.compare_versions(e)
                raise
            finally:
                lease.release()
        raise AssertionError("unreachable: a call returns or raises")

    @contextmanager
    def compared(self) -> Iterator[None]:
        """Adds a remedy to errors about an unreadable answer if the server's version differs from this package's."""
        try:
            yield
        except errors.Error as e:
            if self._last_call is not None:
                self._last_call.compare_versions(e)
            raise

    def explain(self, failure: errors.Unavailable) -> None:
        """Sets the remedy of a failure without details: the server does not respond."""
        failure.remedy = self._remedy_for(failure)
        self.settings.explain_end(failure)

    def _remedy_for(self, e: errors.Unavailable) -> str:
        """Returns the remedy for a server that does not respond."""
        if "Failed parsing HTTP/2" in str(e):
            return f"{_ADDRESS}: this address does not belong to a Flight server, but perhaps to its metrics"
        remedy = security.tls_remedy(self.address.location, str(e))
        if remedy is not None:
            return remedy
        proxy = "" if self.address.ip else proxy_of(self.address.location)
        if proxy:
            return (
                f"the variable {proxy} makes gRPC connect through a proxy: add the host of {self.address} to no_proxy,"
                " or check that the proxy passes on HTTP/2"
            )
        return f"check that `penstock serve` listens at {self.address}"

    def stream(
        self, ticket: flight.Ticket, session: str | None = None, headers: Iterable[tuple[str, str]] = ()
    ) -> tuple[Lease, Call]:
        """Starts a stream. The caller releases the lease, and reads within the call's `translated`.

        `session` identifies the session for batches in mapped memory, if there is one. `headers` are sent too.
        """
        headers = [*headers] if session is None else [*headers, (local.HEADER, session)]
        if self.settings.moves:
            headers.append(_MOVES)
        options = self.settings.options(unlimited=True, headers=headers)
        lease = self.lease()
        try:
            with self._calls.watched() as call:
                lease.reader = lease.client.do_get(ticket, options)
            self._check_open()  # `close` may have missed this stream
        except BaseException as e:
            lease.broken = isinstance(e, errors.Unavailable)
            lease.release()
            raise
        return lease, call

    def through(self, receiver: Address) -> Channel:
        """Returns the connection to a receiver, for streams of this server. It closes with this one.

        Args:
            receiver: the address of the receiver.
        """
        with process.lock:
            self._check_open()
            if self._through is None or self._through.address != receiver:
                settings = replace(
                    self.settings,
                    headers=(*self.settings.headers, *_of_server(self.address)),
                    tls_roots=None,
                    tls_chain=None,
                    tls_key=None,
                )
                self._through = Channel(settings, receiver)
            return self._through

    def put(
        self, descriptor: flight.FlightDescriptor, schema: pa.Schema
    ) -> tuple[Lease, Call, flight.FlightMetadataReader]:
        """Starts a call that sends rows. The caller releases the lease, and reads and writes within `translated`."""
        options = self.settings.options(unlimited=True)
        lease = self.lease()
        try:
            with self._calls.watched() as call:
                lease.writer, answers = lease.client.do_put(descriptor, schema, options)
        except errors.Unavailable as e:
            lease.broken = True
            lease.release()
            if call.details is None:
                self.explain(e)
            raise
        except BaseException:
            lease.release()
            raise
        return lease, call, answers

    def returned(self, lease: Lease, client: flight.FlightClient) -> None:
        """Ends a lease. A broken connection is not reused, and closes with its last lease."""
        with process.lock:
            self._leases.discard(lease)
            if lease.broken and client is self._client:
                self._client = None
            self._close_unused(client)

    def _close_unused(self, client: flight.FlightClient) -> None:
        """Closes a connection that is not the current one, unless a lease uses it. The lock is held."""
        if client is not self._client and all(other.client is not client for other in self._leases):
            client.close()

    def close(self) -> None:
        """Closes all streams at once, and the connection after the last call in another thread. Later calls fail."""
        with process.lock:
            self._closed = True
            through = self._through
            streams = [lease for lease in self._leases if lease.reader is not None]
            client, self._client = self._client, None
        for lease in streams:
            lease.release()
        if client is not None:
            with process.lock:
                self._close_unused(client)
        if through is not None:
            through.close()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.Invalid("the client is closed", remedy="connect again")

    @property
    def connected(self) -> bool:
        """Whether there is a connection that has not failed."""
        return self._client is not None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def disconnect_if_idle(self) -> bool:
        """Closes the connection, and the one to a receiver, if nothing uses it. Reports whether both are closed."""
        if not self._leases and self._client is not None:
            client, self._client = self._client, None
            client.close()
        through = self._through is None or self._through.disconnect_if_idle()
        return self._client is None and not self._leases and through

    def abandon(self) -> tuple[Any, ...]:
        """In a forked child, detaches and returns the parent's objects."""
        theirs = (self._client, *((lease.client, lease.reader, lease.writer) for lease in self._leases))
        self._client = None
        self._leases = set()
        self.follower = Follower(self)
        return theirs
