"""Checks of `connect`'s arguments: gRPC's own errors do not name the argument."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, query, security

# The default port of a server, which errors propose for an address without a port.
_PORT = 8815

# The schemes of a server's address.
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls", "grpc+unix")


def locations(uri: Any) -> tuple[str, ...]:
    """Returns the Flight locations of one URI, of comma-separated URIs, or of a list of URIs.

    Raises:
        Invalid: there is no URI, or the value has another type.
    """
    if isinstance(uri, str):
        uris: list[Any] = uri.split(",")
    elif isinstance(uri, Iterable) and not isinstance(uri, bytes | bytearray | Mapping):
        uris = list(uri)
    else:
        uris = [uri]
    for one in uris:
        if not isinstance(one, str):
            raise query.invalid("uri", f"{one!r} is not text; write connect('127.0.0.1:{_PORT}')")
    if not uris:
        raise query.invalid("uri", "names no server")
    return tuple(location(one.strip()) for one in uris)


def location(uri: str) -> str:
    """Returns the Flight location of a server's address.

    Raises:
        Invalid: the scheme is unknown, or the host or port is missing. The default port is not assumed, because another
            server may listen on it.
    """
    if uri.lower().endswith((".yaml", ".yml")):
        raise query.invalid(
            "uri",
            f"{uri!r} is a config file, and not the address of a server; write penstock.open({uri!r}), "
            "which starts a server for it",
        )
    found = uri if "://" in uri else f"grpc://{uri}"
    scheme, _, rest = found.partition("://")
    rest = rest.removesuffix("/")
    if scheme != "grpc+unix" and "@" in rest:
        # The error omits the value, which may contain a password.
        raise query.invalid("uri", "contains a user name, which is never sent; pass a token or headers")
    if scheme == "unix":
        raise query.invalid("uri", f"{uri!r} has the scheme of a socket, without grpc+; write 'grpc+{uri}'")
    if rest == "" or re.match(r":(?!:)", rest):
        raise query.invalid(
            "uri", f"{uri!r} names no host; write '127.0.0.1:{_PORT}', or what penstock serve prints first"
        )
    problem, meant = ("", rest) if scheme == "grpc+unix" else _split(rest)
    on_default = ", if the server listens on its default port" if problem else ""
    if scheme not in _SCHEMES:
        write = f"; write 'grpc://{meant}'{on_default}" if meant else ""
        raise query.invalid(
            "uri", f"{uri!r} has the scheme {scheme}, and not one of {', '.join(_SCHEMES)}{write}"
        )
    if problem:
        write = f"; write '{scheme}://{meant}'{on_default}" if meant else ""
        raise query.invalid("uri", f"{uri!r} has the scheme {scheme}, and its address {problem}{write}")
    try:
        flight.Location(found)
    except pa.ArrowInvalid as e:
        raise query.invalid(
            "uri", f"{uri!r} is not a server's address: {errors.from_arrow(e).message}"
        ) from e
    return found


def _split(address: str) -> tuple[str, str]:
    """Returns what is wrong with an address as host:port, and an address that may be meant.

    Both texts may be empty. The `penstock` commands use the same texts.
    """
    host, _, port = address.rpartition(":")
    bare = address.removeprefix("[").removesuffix(":").removesuffix("]")
    if _is_port(address):
        return "has a port and no host", f"127.0.0.1:{address}"
    if _is_ipv6(host) and _is_port(port) and (int(port) == _PORT or not _is_ipv6(address)):
        return "has an IPv6 address without brackets", f"[{host}]:{port}"
    if _is_ipv6(address):
        return "is an IPv6 address without brackets, and has no port", f"[{address}]:{_PORT}"
    if re.fullmatch(r"\[[^\[\]]+\]|[^:\[\]]+", host) and port:
        return ("", address) if _is_port(port) else ("has a port that is not a number from 1 to 65535", "")
    if _is_ipv6(bare):
        return f"has the host {bare} and no port", f"[{bare}]:{_PORT}"
    if bare and not set(":[]/") & set(bare):
        return f"has the host {bare} and no port", f"{bare}:{_PORT}"
    return "is not of the form host:port", ""


def _is_port(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", text) is not None and 0 < int(text) < 1 << 16


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def headers(given: Any, token: Any) -> tuple[tuple[str, str], ...]:
    """Returns the headers to send with every call, with names in lower case.

    Raises:
        Invalid: a header cannot be sent. The error omits the value, which may be a secret.
    """
    if given is not None and not isinstance(given, Mapping):
        raise query.invalid(
            "headers",
            f"must be a mapping from name to text, such as {{'x-team': 'ads'}}, not {type(given).__name__}",
        )
    sent = {_header("headers", name).lower(): value for name, value in (given or {}).items()}
    for name, value in sent.items():
        _header(f"headers[{name!r}]", value)
    if token is not None:
        sent["authorization"] = f"Bearer {_header('token', token)}"
    return tuple(sorted(sent.items()))


def token_file(path: Any, token: Any) -> str | None:
    """Returns the absolute path of the token file.

    Raises:
        Invalid: the value is not a path, or `token` is set too.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise query.invalid("token_file", f"must be a path, not {type(path).__name__}")
    if token is not None:
        raise query.invalid("token_file", "cannot be combined with token")
    # Links are not resolved: token rotation may point the link to a new file each time.
    return str(Path(path).absolute())


def check_token_is_safe(uris: Iterable[str]) -> None:
    """Checks that a token can be sent to the locations without being exposed on the network.

    Raises:
        Invalid: a location is on another machine and does not use TLS.
    """
    for found in uris:
        if not found.startswith("grpc+tls://") and not security.stays_here(found):
            raise query.invalid(
                "uri",
                f"a token is not sent to {found} without TLS, where others could read it; write"
                f" grpc+tls://{found.partition('://')[2]}",
            )


def _header(at: str, value: Any) -> str:
    """Checks that a header can contain the value, and returns the value."""
    if not isinstance(value, str):
        raise query.invalid(at, f"must be text, not {type(value).__name__}")
    if not (value.isascii() and value.isprintable()):
        raise query.invalid(
            at, "contains a line break or a non-ASCII character; call strip() on text from a file"
        )
    return value


def pem(name: str, value: Any) -> bytes | None:
    """Checks certificates or a key in PEM form, and returns them.

    Raises:
        Invalid: the value is not bytes, but a file path, for example.
    """
    if value is None or isinstance(value, bytes | bytearray):
        return None if value is None else bytes(value)
    raise query.invalid(
        name, f"must be PEM as bytes, not {type(value).__name__}; for a file, write Path(file).read_bytes()"
    )


def seconds(name: str, value: Any, *, zero: bool = False) -> float:
    """Checks a time in seconds, and returns it. The time must be more than 0; `zero` also allows 0.

    Raises:
        Invalid: the value is not a number, or is too small.
    """
    try:
        found = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not (found > 0 or (zero and found == 0)):
        raise query.invalid(name, f"must be seconds, {'0 or more' if zero else 'more than 0'}, not {value!r}")
    return found
