"""Checks of `connect`'s arguments: gRPC's own errors do not name the argument."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, query, security

# The default port of a server.
_PORT = 8815


def locations(uri: Any) -> tuple[str, ...]:
    """Returns the Flight locations of a server's URI, of comma-separated URIs, or of a list.

    Raises:
        Invalid: there is none, or the value has another type.
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
    """Returns the Flight location of a server's address."""
    found = uri if "://" in uri else f"grpc://{uri}"
    scheme, _, rest = found.partition("://")
    if rest in ("", "/"):
        raise query.invalid("uri", f"{uri!r} names no host; write '127.0.0.1:{_PORT}', or '127.0.0.1' alone")
    if scheme != "grpc+unix" and (rest.endswith("]") or not set(":/@") & set(rest)):
        found += f":{_PORT}"
    if scheme != "grpc+unix" and "@" in rest:
        # The value is not repeated, since it may contain a password.
        raise query.invalid("uri", "contains a user name, which is never sent; pass a token or headers")
    try:
        flight.Location(found)
    except pa.ArrowInvalid as e:
        raise query.invalid(
            "uri", f"{uri!r} is not a server's address: {errors.from_arrow(e).message}"
        ) from e
    return found


def headers(given: Any, token: Any) -> tuple[tuple[str, str], ...]:
    """Returns the headers of every call, with names in lower case.

    Raises:
        Invalid: a header cannot be sent. The error does not repeat its value, which may be a secret.
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
    """Returns the path of the file with the token, as an absolute path.

    Raises:
        Invalid: it is not a path, or a token is given too.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise query.invalid("token_file", f"must be a path, not {type(path).__name__}")
    if token is not None:
        raise query.invalid("token_file", "cannot be combined with token")
    # Links are not resolved: where tokens are replaced, a link leads to another file each time.
    return str(Path(path).absolute())


def check_token_is_safe(uris: Iterable[str]) -> None:
    """Checks that a token can be sent to locations without being read on its way.

    Raises:
        Invalid: one of them is on another machine, and has no TLS.
    """
    for found in uris:
        if not found.startswith("grpc+tls://") and not security.stays_here(found):
            raise query.invalid(
                "uri",
                f"a token is not sent to {found} without TLS, where others could read it; write"
                f" grpc+tls://{found.partition('://')[2]}",
            )


def _header(at: str, value: Any) -> str:
    """Checks that a header can contain a value, and returns it."""
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
        Invalid: the value is not bytes; a file path, for example.
    """
    if value is None or isinstance(value, bytes | bytearray):
        return None if value is None else bytes(value)
    raise query.invalid(
        name, f"must be PEM as bytes, not {type(value).__name__}; for a file, write Path(file).read_bytes()"
    )


def seconds(name: str, value: Any, *, zero: bool = False) -> float:
    """Checks a time in seconds, and returns it. It must be more than 0, or at least 0 if `zero` is set.

    Raises:
        Invalid: it is not a number, or too small.
    """
    try:
        found = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not (found > 0 or (zero and found == 0)):
        raise query.invalid(name, f"must be seconds, {'0 or more' if zero else 'more than 0'}, not {value!r}")
    return found
