"""The settings of connections: addresses, credentials and limits, and how silence is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, security
from penstock.addresses import Address
from penstock.call import Calls
from penstock.private import PrivateServer

MIX_HEADER = "penstock-mix"

LOOKAHEAD = 16 << 20
"""The bytes that gRPC may buffer for a stream by default."""

# gRPC's maximum delay before it reconnects, when several streams share a connection.
_RECONNECT_BACKOFF_MS = 5000


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
        lookahead: bytes that gRPC may buffer for a stream.
        reconnect: seconds for which a broken stream or a failed call that only reads is retried; 0 never retries.
        keepalive: seconds without a byte after which the server of a call is pinged, and seconds without an answer
            after which the connection counts as lost. Earlier servers refuse pings that arrive less than five seconds
            apart; gRPC counts from the answer to the last ping.
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
    lookahead: int = LOOKAHEAD
    reconnect: float = 0.0
    keepalive: float = 5.0
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
        """Whether streams continue on another server if theirs stops, instead of ending with an error."""
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
            # Each byte that arrives puts off the ping. The probes that size a stream's buffer are pings, too, but gRPC sends
            # them while data arrives: on a slow network, their answers come late, behind this data.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", self.lookahead),
        ]
        name = None
        if address.ip:
            # The server's certificate, and a proxy that the server is behind, know the name.
            generic.append(("grpc.default_authority", address.authority))
            name = address.authority.rpartition(":")[0]
            # A name is resolved here only if no proxy is used for it. The variables need not list its addresses.
            generic.append(("grpc.enable_http_proxy", 0))
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
