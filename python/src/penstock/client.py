"""The client of a service, and the functions that create it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import pyarrow.flight as flight

from penstock import arguments, mistakes, query
from penstock.changing import ChangeCalls
from penstock.describing import DescribeCalls
from penstock.private import PrivateServer, named, start
from penstock.publishing import PublishCalls
from penstock.servers import Servers, only
from penstock.settings import LOOKAHEAD, Settings
from penstock.status import ServerStatus


def connect(
    uri: str | Sequence[str],
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    headers: Mapping[str, str] | None = None,
    tls_roots: bytes | None = None,
    tls_chain: bytes | None = None,
    tls_key: bytes | None = None,
    timeout: float | None = 120.0,
    lookahead: int = LOOKAHEAD,
    reconnect: float = 300.0,
    local: bool = True,
) -> Client:
    """Creates a client for one or several servers of the same datasets. It connects at its first call.

    If the server is killed, restarted or drained, or the connection is lost, a stream resumes with the very next row:
    the client queries again with the stream's cursor, at another server if there are several. It also queries again
    if no server accepts the stream's ticket. Calls that only read, such as `plan` and `read`, are retried, too, once a
    server has answered the client; if no server ever has, the failure is raised at once. Retries wait a tenth of a
    second at first, then longer, up to ten seconds; each logs a warning to the logger "penstock". Errors that a retry
    cannot fix are raised at once.

    Args:
        uri: host:port, grpc://host:port, grpc+tls://host:port or grpc+unix:///path.
            For several servers, a list of these, a comma-separated string, or a name that resolves to all of them. A
            hash of dataset and shard decides which one reads a shard, whatever the order.
        token: bearer token. It is pickled with the client, and sent to other machines only over TLS.
        token_file: file with the token, read again for each call, so that the token can be replaced. The path is
            pickled, but not the token.
        headers: sent with every call, and pickled.
        tls_roots: PEM certificates to trust instead of the system's.
        tls_chain: PEM certificate chain of the client, for mutual TLS.
        tls_key: PEM key of the client, for mutual TLS.
        timeout: seconds that one attempt of a call may take, None for no limit. A call that takes longer is not
            retried. It does not apply to streams or to plans that count rows.
        lookahead: bytes that the transport may buffer for a stream, 16 MiB by default. The size of about two batches
            limits the memory of a slow reader at nearly the same speed. A stream needs at least the product of the
            network's speed and its round-trip time.
        reconnect: seconds for which a failed stream or call is retried before it raises an error; each received batch
            resets the time. 0 raises at once.
        local: read batches from mapped memory if the server runs on this host and has a `local_socket`. This is much
            faster than the network, and the batches are equal. False always uses the network.

    Raises:
        Invalid: an argument is not valid.
    """
    locations = arguments.locations(uri)
    if token is not None or token_file is not None:
        arguments.check_token_is_safe(locations)
    return Client(
        Settings(
            locations=locations,
            headers=arguments.headers(headers, token),
            token_file=arguments.token_file(token_file, token),
            tls_roots=arguments.pem("tls_roots", tls_roots),
            tls_chain=arguments.pem("tls_chain", tls_chain),
            tls_key=arguments.pem("tls_key", tls_key),
            timeout=None if timeout is None else arguments.seconds("timeout", timeout),
            lookahead=mistakes.whole("lookahead", lookahead, minimum=0),
            reconnect=arguments.seconds("reconnect", reconnect, zero=True),
            local=local,
            private=named(locations),
        )
    )


def open(  # noqa: A001 - as penstock.open, as gzip.open and others are
    config: str | os.PathLike[str],
    *,
    settings: Mapping[str, Any] | None = None,
    program: str | os.PathLike[str] | None = None,
    share: bool = True,
    timeout: float | None = 120.0,
    lookahead: int = LOOKAHEAD,
    reconnect: float = 300.0,
    local: bool = True,
) -> Client:
    """Starts a private server for a config file, or shares a running one, and creates a client for it.

        with penstock.open("penstock.yaml") as client:
            table = client.read("homefeed").read_all()

    The server is a separate process with a socket to which only this user's processes can connect. It inherits this
    process's environment, including its credentials. All processes of this user that open the same file with the same
    settings and credentials, such as the ranks of a host, share one server. It ends when the last of their clients is
    closed or unused, or when the last of these processes ends. Settings in the file that protect a server or expose it
    to others are ignored: its addresses, TLS, tokens and metrics, `policy`, `audit_log`, `ticket_keys` and `cache_dir`.

    Forked and spawned processes, such as DataLoader workers, can use the client or its `uri` to read from the same
    server. When the last process that opened the server ends, their streams end with an error.

    Args:
        config: the config file with the datasets.
        settings: server settings that override the file's, such as {"memory": "4GiB"}.
        program: the server program. If omitted, the one installed by this package's wheel, or else the one on the PATH.
        share: False starts a server for this process only.
        timeout: as in `connect`.
        lookahead: as in `connect`.
        reconnect: as in `connect`; if the private server has ended, failures are raised at once.
        local: as in `connect`.

    Raises:
        NotFound: there is no program.
        Invalid: the config file or an argument contains a mistake, or the program's version differs from this
            package's.
        Unavailable: the server does not start.
    """
    private = start(config, settings, program, share=share)
    given = connect(private.address, timeout=timeout, lookahead=lookahead, reconnect=reconnect, local=local)
    return Client(replace(given.settings, private=private), private)


class Client(DescribeCalls, PublishCalls, ChangeCalls):
    """The datasets, plans and streams of a service. Created by `connect` or `open`.

    A client is safe for threads. It survives a fork, unless one of its streams is open. It can be pickled, including
    its credentials; of a `token_file`, only the path is pickled. Close it when done; closing ends the client's streams.

    Keyword arguments are the fields of a query, see `Query`. None leaves a field out, `shard` may be a pair (index,
    of), and the server rejects unsupported fields by name. If `wire` is not set, the server sends batches in the
    smaller form, and the client converts them to plain batches.

    A method that fails raises one of `penstock.errors`. Methods that only read are retried as `connect` describes,
    except `status`. Methods that change tables try each address once, except `stage`, which repeats its call.
    """

    def __init__(self, settings: Settings, private: PrivateServer | None = None) -> None:
        self._settings = settings
        self._servers = Servers(settings)
        self._private = private  # closed with this client

    def status(self, *, timeout: float | None = None) -> ServerStatus:
        """Returns the current state of the server in use: its streams, and the cause of each one's wait. Does not retry.

        The result has the client's own streams, or the streams of all clients if the server's policy allows this client
        `status`.

        Args:
            timeout: in seconds; that of the client if omitted.
        """
        action = flight.Action("status", b"{}")
        settings = self._settings if timeout is None else replace(self._settings, timeout=timeout)
        options = settings.options(unlimited=False)
        results = self._servers.call(lambda client, _: list(client.do_action(action, options)))
        return ServerStatus.of(only("status", results).body.to_pybytes())

    def _tell(self, name: str, message: Mapping[str, Any], *, timeout: float) -> None:
        """Sends a message to the current server, as an action without a meaningful result.

        Args:
            name: the action's name.
            message: the action's body, sent as JSON.
            timeout: in seconds.
        """
        action = flight.Action(name, query.text(message))
        options = replace(self._settings, timeout=timeout).options(unlimited=False)
        self._servers.current.call(lambda client, _: list(client.do_action(action, options)))

    @property
    def settings(self) -> Settings:
        """The settings of the connections."""
        return self._settings

    @property
    def reconnect(self) -> float:
        """The seconds for which streams and calls retry if no server responds."""
        return self._settings.reconnect

    @property
    def uri(self) -> str:
        """The addresses of the servers, in the form that `connect` and `penstock.torch.IterableDataset` accept."""
        return ",".join(self._settings.locations)

    def close(self) -> None:
        """Closes the client's streams and connections, and its use of the server that `open` started."""
        self._servers.close()
        if self._private is not None:
            self._private.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Client, (self._settings,))

    def __repr__(self) -> str:
        locations = ", ".join(self._settings.locations)
        return f"<penstock.Client of {locations}{', closed' if self._servers.closed else ''}>"
