"""What TLS explains about a connection that fails: gRPC's errors only name the step that failed."""

from __future__ import annotations

import socket
import ssl

# Seconds for the check whether a server speaks TLS.
_PROBE = 2.0


def tls_remedy(location: str, failure: str) -> str | None:
    """The remedy if a server and its client disagree about TLS; None if TLS is not the reason.

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
        return (
            f"the server does not speak TLS: connect to grpc://{address}, or start it with --tls-cert and --tls-key"
        )
    if "verify failed" in text:
        return "the server's certificate is not trusted: pass the certificate of its CA as tls_roots="
    if "hostname verification" in text or "peer name" in text:
        return "connect to a name or address that is in the server's certificate"
    if "empty address list" in text:
        return "tls_roots, tls_chain or tls_key cannot be read: pass certificates and keys in PEM form"
    if "certificate required" in text or "unwrap failed" in text:
        return "if the server has tls_client_ca, pass a certificate of that CA as tls_chain= and its key as tls_key="
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
