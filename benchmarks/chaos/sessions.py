"""Requests to S3 with the token of a session, which the gateway does not know: they are signed again without it."""

from __future__ import annotations

import hashlib
import hmac
import re
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, quote, urlsplit

TOKEN = "x-amz-security-token"
_SIGNED = re.compile(r"Credential=([^/]+)/(\d+)/([^/]+)/([^/]+)/aws4_request, *SignedHeaders=([^,]+)")


def sign_without(request: BaseHTTPRequestHandler, secret: str) -> None:
    """Removes the session's token from a request, and signs it again, by AWS's signature of version 4."""
    headers = request.headers
    found = _SIGNED.search(headers.get("Authorization", ""))
    if found is None:
        return
    key_id, day, region, service, names = found.groups()
    signed = [name for name in names.split(";") if name != TOKEN]
    del headers[TOKEN]
    path = urlsplit(request.path)
    pairs = sorted(
        (quote(k, safe="-_.~"), quote(v, safe="-_.~"))
        for k, v in parse_qsl(path.query, keep_blank_values=True)
    )
    lines = [
        request.command,
        path.path,
        "&".join(f"{k}={v}" for k, v in pairs),
        *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed),
        "",
        ";".join(signed),
        headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ]
    scope = f"{day}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    del headers["Authorization"]
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={';'.join(signed)}, Signature={signature}"
    )
