"""One connection to a server, which survives a fork.

If gRPC's threads are running in the parent during a fork, gRPC does not work in the child: its first call waits
forever. So the first call opens a connection, a fork closes it if nothing uses it, and the next call on either side
opens it again. A connection with an open stream cannot be closed before a fork; calls in the child then fail at once
with an error that explains this.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, local, security
from penstock.addresses import Address
from penstock.call import Call, Calls
from penstock.following import Follower
from penstock.private import PrivateServer
from penstock.process import process
from penstock.rests import rests

MIX_HEADER = "penstock-mix"
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

# gRPC's maximum delay before it reconnects, when several streams share a connection.
_RECONNECT_BACKOFF_MS = 5000


def _of_server(address: Address) -> list[tuple[str, str]]:
    """Returns the headers that tell a receiver which server redeems a ticket."""
    ip = [(_ADDRESS_HEADER, address.ip)] if address.ip else []
    return [(_SERVER_HEADER, address.location), *ip]


@dataclass(frozen=True)
class Settings:
    """The settings of a connection. They can be pickled.

    Attributes:
        locations: the servers' Flight locations, such as "grpc://host:port".
        headers: sent with every call, names in lower case.
        token_file: the path of a file with the token to send, which is read again for each call; None sends no token.
        tls_roots: PEM certificates to trust instead of the system's.
        tls_chain: PEM certificate chain of the client, for mutual TLS.
        tls_key: PEM key of the client, for mutual TLS.
        timeout: seconds that a call other than a stream may take; None for no limit.
        lookahead: bytes that gRPC may buffer for a stream; None lets it choose.
        reconnect: seconds for which a broken stream or a failed call that only reads is retried; 0 never retries.
        keepalive: seconds of silence after which the server is pinged, and seconds without an answer after which the
            connection counts as lost. Servers end connections whose pings come less than five seconds apart, and count
            from their arrival.
        local: whether to read batches from mapped memory if a server or a receiver on the same host offers this.
        group: what the streams of a mix are placed by, instead of their datasets, so that they meet; "" for other streams.
        private: the private server to read from, which runs as long as the settings are in use; None for other servers.
    """

    locations: tuple[str, ...]
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    token_file: str | None = None
    tls_roots: bytes | None = field(default=None, repr=False)
    tls_chain: bytes | None = field(default=None, repr=False)
    tls_key: bytes | None = field(default=None, repr=False)
    timeout: float | None = None
    lookahead: int | None = None
    reconnect: float = 0.0
    keepalive: float = 5.5
    local: bool = True
    group: str = ""
    private: PrivateServer | None = field(default=None, repr=False, compare=False)

    def explain_end(self, failure: errors.Error) -> None:
        """Marks a failure as final, and explains it, if the private server has ended."""
        why = self.private.ended() if self.private is not None else ""
        if why:
            failure.final, failure.remedy = True, why

    def of_mix(self, mix: str, streams: int, group: str) -> Settings:
        """Returns the settings for the streams of a mix, which a server admits together.

        Args:
            mix: the id of the mix.
            streams: the number of its streams.
            group: what they are placed by.
        """
        if streams == 1:
            return self
        return replace(self, headers=(*self.headers, (MIX_HEADER, f"{mix} {streams}")), group=group)

    @property
    def moves(self) -> bool:
        """Whether streams continue on another server if theirs is told to stop, instead of ending with an error."""
        return self.reconnect > 0 and self.private is None

    def connect(self, address: Address, calls: Calls) -> flight.FlightClient:
        """Creates a client for one of the servers. The client connects at its first call."""
        generic: list[tuple[str, int | str]] = [
            ("grpc.keepalive_time_ms", int(self.keepalive * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.keepalive * 1000)),
            ("grpc.http2.ping_timeout_ms", int(self.keepalive * 1000)),
            # A stream's client sends no data, so gRPC would otherwise stop after two pings.
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.max_reconnect_backoff_ms", _RECONNECT_BACKOFF_MS),
            # The time for a connection, which a suspended server accepts without an answer.
            ("grpc.min_reconnect_backoff_ms", int(self.keepalive * 1000)),
        ]
        if self.lookahead is not None:
            generic += [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", self.lookahead)]
        name = None
        if address.ip:
            # The server's certificate, and a proxy that the server is behind, know the name.
            generic.append(("grpc.default_authority", address.authority))
            name = address.authority.rpartition(":")[0]
        try:
            return flight.FlightClient(
                address.target,
                tls_root_certs=self.tls_roots,
                cert_chain=self.tls_chain,
                private_key=self.tls_key,
                override_hostname=name if address.location.startswith("grpc+tls://") else None,
                middleware=[calls],
                generic_options=generic,
            )
        except (pa.ArrowException, ValueError, TypeError) as e:
            raise errors.Invalid(
                f"connect to {address}: {errors.from_arrow(e).message}",
                remedy="write the server's address as host:port, grpc://host:port, grpc+tls://host:port or grpc+unix:///path",
            ) from e

    def options(
        self, *, unlimited: bool, headers: Iterable[tuple[str, str]] = ()
    ) -> flight.FlightCallOptions:
        """Returns the options of a call. Streams have no timeout, because it would limit the whole stream.

        `headers` are sent with this call alone.

        Raises:
            Unavailable: the token file cannot be read now.
        """
        headers = (*self.headers, *headers)
        if self.token_file is not None:
            headers = (*headers, ("authorization", f"Bearer {security.token_of(self.token_file)}"))
        return flight.FlightCallOptions(
            timeout=None if unlimited else self.timeout,
            headers=[(name.encode(), value.encode()) for name, value in headers],
        )


class Lease:
    """The use of a connection by one call or stream. Its holder must release it.

    Any thread may release a stream's lease, which cancels the stream. Only the calling thread may release a call's
    lease: pyarrow crashes if a client or writer is closed while another thread uses it.

    Attributes:
        client: the Flight client; None once released.
        reader: the stream's reader; None for calls, and once released.
        writer: the writer of a call that sends rows; None once released.
        fresh: whether the connection was opened for this lease.
        broken: whether the server could not be reached. The next lease then opens a new connection, because this one
            would fail until it reconnects. Other leases of the connection are not affected.
    """

    def __init__(self, channel: Channel, client: flight.FlightClient, *, fresh: bool) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self.fresh = fresh
        self.client: Any = client
        self.reader: Any = None
        self.writer: Any = None
        self.broken = False

    @property
    def foreign(self) -> bool:
        """Whether the lease was taken by the parent process, before a fork."""
        return self._pid != os.getpid()

    def writing(self) -> Any:
        """The writer of a call that sends rows.

        Raises:
            Invalid: the client was closed, or this process is a fork of the one that began the call.
        """
        if self.foreign or self.writer is None or self._channel.closed:
            raise errors.Invalid(
                "the client was closed while it was sending rows, or this process was forked meanwhile",
                remedy="call stage again, with the same token",
            )
        return self.writer

    def release(self) -> None:
        """Releases the connection, and cancels the stream if there is one. Safe to call more than once."""
        if self.foreign:
            return
        with process.lock:
            reader, client, self.reader, self.client = self.reader, self.client, None, None
        if client is None:
            return
        if reader is not None:
            reader.cancel()
        del reader
        writer, self.writer = self.writer, None
        if writer is not None:
            # This also ends failed calls: without the last message, the server writes nothing. close waits for a thread
            # that reads answers; done_writing lets the server end the answers.
            for end in (writer.done_writing, writer.close):
                with suppress(pa.ArrowException, flight.FlightError, OSError):
                    end()
            del end
        del writer
        self._channel.returned(self, client)


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
                timed_out = limit is not None and time.monotonic() - began >= limit
                # After a server restart, the old connection fails only at its next use. The second try opens a new one.
                if again or lease.fresh or timed_out or call.details is not None:
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
        """Closes the connection if nothing uses it. Reports whether it is closed."""
        if not self._leases and self._client is not None:
            client, self._client = self._client, None
            client.close()
        return self._client is None and not self._leases

    def abandon(self) -> tuple[Any, ...]:
        """In a forked child, detaches and returns the parent's objects."""
        theirs = (self._client, *((lease.client, lease.reader, lease.writer) for lease in self._leases))
        self._client = None
        self._leases = set()
        self.follower = Follower(self)
        return theirs
