"""Reads tokens, and explains connection failures caused by TLS: gRPC's errors name only the failed step."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from pathlib import Path

from penstock import errors


def token_of(path: str) -> str:
    """Reads the token in a file.

    Raises:
        Unavailable: the file cannot be read or has no token. This can happen while the file is replaced.
    """
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as e:
        raise errors.Unavailable(f"read the token in {path}: {e}", remedy="check token_file") from None
    if not (token and token.isascii() and token.isprintable()):
        raise errors.Unavailable(
            f"{path} has no token: it must be one line of ASCII characters", remedy="check token_file"
        )
    return token


def stays_here(location: str) -> bool:
    """Reports whether data sent to a location without TLS stays on this machine."""
    scheme, _, address = location.partition("://")
    if scheme == "grpc+unix":
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# The timeout, in seconds, of the check whether a server speaks TLS.
_PROBE = 2.0


def tls_remedy(location: str, failure: str) -> str | None:
    """Returns the remedy if a server and its client disagree about TLS; None if TLS is not the cause.

    Args:
        location: the server's location.
        failure: the text of the error.
    """
    scheme, _, address = location.partition("://")
    text = failure.lower().replace("_", " ")
    if scheme == "grpc+tls":
        return _of_encrypted(address, text)
    if scheme == "grpc+unix" or "connection refused" in text or not _speaks_tls(address):
        return None
    return (
        f"the server speaks TLS: connect to grpc+tls://{address}, and pass its CA as tls_roots="
        " unless the system trusts it"
    )


def _of_encrypted(address: str, text: str) -> str | None:
    if "wrong version number" in text:
        return f"the server does not speak TLS: connect to grpc://{address}, or start it with --tls-cert and --tls-key"
    if "certificate has expired" in text or "certificate is not yet valid" in text:
        return "ask the operator of the server to renew its certificate, which needs no restart; or correct the clock of this machine"
    if "verify failed" in text:
        return "the server's certificate is not trusted: pass the certificate of its CA as tls_roots="
    if "hostname verification" in text or "peer name" in text:
        return "connect to a name or address that is in the server's certificate"
    if "empty address list" in text:
        return "tls_roots, tls_chain or tls_key cannot be read: pass certificates and keys in PEM form"
    if "certificate required" in text or "unwrap failed" in text:
        return "if the server has tls_client_ca, pass a certificate of that CA that has not expired as tls_chain= and its key as tls_key="
    return None


def _speaks_tls(address: str) -> bool:
    """Reports whether the server at an address answers a TLS handshake. Sends nothing else."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except (OSError, ValueError):
        return False
