"""Calls of storage and of a catalog, one of which has an accident: the caller is killed, or gets no answer."""

from __future__ import annotations

import enum
import http.client
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length"}
_FORWARD_LIMIT = 60.0


class Accident(enum.Enum):
    """What happens at one call."""

    DEATH_BEFORE = "the process is killed before the call has an effect"
    DEATH_AFTER = "the process is killed after the call has had its effect"
    NO_ANSWER = "the call has its effect, and the connection is closed"
    FAILURE = "the call has no effect, and the answer is status 503"
    FALSE_FAILURE = "the call has its effect, and the answer is status 500"
    FALSE_CONFLICT = "the call has its effect, and the answer is status 409"


DEATHS = (Accident.DEATH_BEFORE, Accident.DEATH_AFTER)
LOSSES = (Accident.NO_ANSWER, Accident.FAILURE, Accident.FALSE_FAILURE)
_STATUS = {Accident.FAILURE: 503, Accident.FALSE_FAILURE: 500, Accident.FALSE_CONFLICT: 409}


@dataclass
class Answer:
    """An answer of a server.

    Attributes:
        cut: the connection is closed after the body, though the headers name more bytes.
        pace: the number of bytes of the body that are sent in a second; 0: all at once.
    """

    status: int
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    cut: bool = False
    pace: int = 0


class Accidents:
    """The calls of one process at a time.

    Attributes:
        calls: that were made, by name.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._lock = threading.Lock()
        self._counted: Callable[[str], bool] = lambda _: False
        self._nth, self._last = 0, 0
        self._what: Accident | Callable[[], None] = Accident.FAILURE
        self._dead = False
        self._process: subprocess.Popen[str] | None = None
        self._started = threading.Event()
        self._started.set()

    def run(
        self,
        command: list[str],
        nth: int = 0,
        what: Accident | Callable[[], None] = Accident.FAILURE,
        counted: Callable[[str], bool] = lambda _: True,
        times: int = 1,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program whose nth counted call, and the next ones up to times, have an accident.

        If what is a function, it is called before the nth call is made.
        """
        with self._lock:
            self.calls, self._dead, self._counted = [], False, counted
            self._nth, self._last, self._what = nth, nth + times - 1, what
            self._started.clear()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self._process = process
            self._started.set()
            out, error = process.communicate(timeout=120)
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def around(self, name: str, call: Callable[[], Answer]) -> Answer | None:
        """Makes a call, or has the accident; None closes the connection without an answer."""
        self._started.wait()
        with self._lock:
            if self._dead:
                return None
            hit = False
            if self._counted(name):
                self.calls.append(name)
                hit = self._nth <= len(self.calls) <= self._last
            if hit and self._what is Accident.DEATH_BEFORE:
                self._kill()
                return None
        if hit and not isinstance(self._what, Accident):
            self._what()
        if not hit or not isinstance(self._what, Accident):
            return call()
        answer = None if self._what is Accident.FAILURE else call()
        with self._lock:
            if self._what in DEATHS:
                self._kill()
                return None
        if self._what is Accident.NO_ANSWER:
            return None
        status = _STATUS[self._what]
        if answer is not None and answer.status >= http.client.MULTIPLE_CHOICES:
            status = answer.status  # the call itself has failed
        return Answer(
            status, json.dumps({"error": {"message": "an accident", "type": "E", "code": status}}).encode()
        )

    def _kill(self) -> None:
        assert self._process is not None
        self._dead = True
        self._process.kill()
        self._process.wait()


class Server:
    """An HTTP server on a free port of this machine; leaving the block ends it.

    Attributes:
        uri: http://host:port.
    """

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, bytes], Answer | None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_call(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                given = answer(self, body)
                if given is not None:
                    with suppress(OSError):
                        self._respond(given)
                if given is None or given.cut:
                    self.close_connection = True
                    with suppress(OSError):
                        self.connection.shutdown(socket.SHUT_RDWR)

            def _respond(self, given: Answer) -> None:
                self.send_response(given.status)
                for name, value in given.headers:
                    self.send_header(name, value)
                if not any(name.lower() == "content-length" for name, _ in given.headers):
                    self.send_header("Content-Length", str(len(given.body)))
                self.end_headers()
                if self.command == "HEAD":
                    return
                part = len(given.body) if given.pace == 0 else max(1, given.pace // 20)
                for at in range(0, len(given.body), max(1, part)):
                    if at:
                        time.sleep(1 / 20)
                    self.wfile.write(given.body[at : at + part])

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_call  # noqa: N815 - their names are given

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has
                """Logs nothing."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Says nothing of clients that are killed."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def storage(
    target: str,
    accidents: Accidents,
    refusal: Callable[[BaseHTTPRequestHandler], Answer | None] = lambda _: None,
) -> Server:
    """A server that hands requests on to storage at http://host:port, unless they are refused."""
    host = urlsplit(target).netloc

    def hand_on(handler: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        refused = refusal(handler)
        if refused is not None:
            return refused
        path = urlsplit(handler.path)
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in _NOT_FORWARDED}

        def call() -> Answer:
            connection = http.client.HTTPConnection(host, timeout=_FORWARD_LIMIT)
            try:
                connection.putrequest(
                    handler.command, handler.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in headers.items():
                    connection.putheader(name, value)
                if body or "Content-Length" in handler.headers:
                    connection.putheader("Content-Length", str(len(body)))
                connection.endheaders(body)
                got = connection.getresponse()
                kept = [(k, v) for k, v in got.getheaders() if k.lower() not in _NOT_FORWARDED]
                if handler.command == "HEAD":
                    kept.append(("Content-Length", got.getheader("Content-Length") or "0"))
                return Answer(got.status, got.read(), kept)
            finally:
                connection.close()

        query = f"?{path.query}" if path.query else ""
        return accidents.around(f"{handler.command} {path.path}{query}", call)

    return Server(hand_on)


def changes(name: str) -> bool:
    """Whether a call changes storage or a catalog."""
    return not name.startswith(("GET", "HEAD"))
