"""A REST catalog of Iceberg for the demo: it lets clients load tables, and nothing else.

It reads the SQLite catalog in which PyIceberg wrote the tables, requires a token, and vends
with each table the keys of the store that its files are in. Real ones (Polaris,
Lakekeeper, Nessie, Glue) do the same, and more.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Loads a table: the location and text of its metadata; LookupError if there is none.
Load = Callable[[str], tuple[str, str]]

_TABLE = re.compile(r"/v1/namespaces/([^/?]+)/tables/([^/?]+)")


@contextmanager
def serving(load: Load, token: str, keys: dict[str, str]) -> Iterator[str]:
    """Serve tables on a free local port; returns the catalog's URI.

    Args:
        load: finds tables, by names such as "ml.ratings".
        token: that requests must bear.
        keys: of the store, vended with each table.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, answer = _answer(self.path, self.headers.get("Authorization"), load, token, keys)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has
            """Logs nothing, since the demo uses the screen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(
    path: str, authorization: str | None, load: Load, token: str, keys: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    """Status and body according to the REST specification."""
    if authorization != f"Bearer {token}":
        return _error(401, "NotAuthorizedException", "the token is not that of the catalog")
    if path.partition("?")[0] == "/v1/config":
        return 200, {"defaults": {}, "overrides": {}}
    found = _TABLE.fullmatch(path.partition("?")[0])
    if found is None:
        return _error(404, "NoSuchEndpointException", f"this catalog does not answer {path}")
    try:
        location, metadata = load(f"{found[1]}.{found[2]}")
    except LookupError as e:
        return _error(404, "NoSuchTableException", str(e))
    return 200, {"metadata-location": location, "metadata": json.loads(metadata), "config": keys}


def _error(status: int, kind: str, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": message, "type": kind, "code": status}}
