"""How the processes of a cluster, such as one of Ray or Spark, reach the servers: each reads credentials from files of its own node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypedDict

from penstock import arguments, errors, query
from penstock.client import Client, connect
from penstock.private import PrivateServer
from penstock.settings import LOOKAHEAD, Settings


class Files(TypedDict, total=False):
    """Files with credentials, by paths that every node of the cluster has. Only the paths are sent to other nodes.

    Attributes:
        token_file: the file with the token, read again for each call.
        tls_roots: PEM certificates to trust instead of the system's.
        tls_chain: PEM certificate chain of the client, for mutual TLS.
        tls_key: PEM key of the client, for mutual TLS.
    """

    token_file: str | os.PathLike[str] | None
    tls_roots: str | os.PathLike[str] | None
    tls_chain: str | os.PathLike[str] | None
    tls_key: str | os.PathLike[str] | None


@dataclass(frozen=True)
class Access:
    """The addresses of the servers, and the paths of credentials. It can be pickled and contains no secret.

    Attributes:
        locations: the servers' Flight locations, in the order to try.
        files: the path of each of the `Files` that is used, by name.
        timeout: as in `penstock.connect`.
        lookahead: as in `penstock.connect`.
        reconnect: as in `penstock.connect`.
        local: as in `penstock.connect`.
        private: the private server to read from, which only processes of its host can reach; None for other servers.
    """

    locations: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()
    timeout: float | None = 120.0
    lookahead: int = LOOKAHEAD
    reconnect: float = 300.0
    local: bool = True
    private: PrivateServer | None = None

    @classmethod
    def of(cls, servers: Client | str | Sequence[str], files: Files) -> Self:
        """Takes the addresses of a client, or addresses.

        Raises:
            Invalid: the client has credentials that would have to be pickled, or an argument is not a path.
        """
        paths = tuple((name, _path(name, value)) for name, value in files.items() if value is not None)
        if not isinstance(servers, Client):
            return cls(arguments.locations(servers), paths)
        settings = servers.settings
        if settings.headers or settings.tls_roots or settings.tls_chain or settings.tls_key:
            raise errors.Invalid(
                "the client has a token, headers or TLS files, which would be pickled and sent to every node",
                remedy="pass the servers' addresses instead of the client, and paths that every node has as token_file=,"
                " tls_roots=, tls_chain= and tls_key=",
            )
        if settings.token_file is not None and "token_file" not in dict(paths):
            paths = (("token_file", settings.token_file), *paths)
        return cls(
            settings.locations,
            paths,
            settings.timeout,
            settings.lookahead,
            settings.reconnect,
            settings.local,
            settings.private,
        )

    def settings(self) -> Settings:
        """Returns the settings of connections from this process, with the credentials in files of this node.

        Raises:
            Invalid: a file cannot be read.
        """
        given: dict[str, Any] = {
            name: path if name == "token_file" else _read(name, path) for name, path in self.files
        }
        client = connect(
            self.locations,
            timeout=self.timeout,
            lookahead=self.lookahead,
            reconnect=self.reconnect,
            local=self.local,
            **given,
        )
        return replace(client.settings, private=self.private)


def _path(name: str, value: Any) -> str:
    if isinstance(value, bytes) or not isinstance(value, str | os.PathLike):
        raise query.invalid(
            name, f"must be the path of a file that every node has, not {type(value).__name__}"
        )
    return str(Path(value).absolute())


def _read(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise errors.Invalid(
            f"{name}: {path} cannot be read on this node: {e}",
            remedy="put the file on every node of the cluster",
        ) from e
