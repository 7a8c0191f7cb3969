"""A connection to a server that is cut, or falls silent, as a test asks for it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

# What a client of HTTP/2 sends first, and the head of a frame: length, kind, flags, number of the stream.
_PREFACE = 24
_FRAME = struct.Struct(">BHBBI")
_PING, _ANSWER = 6, 1


def pings(sent: bytes | bytearray) -> int:
    """Counts the pings in what a client of HTTP/2 has sent without TLS, other than answers to pings."""
    found, at = 0, _PREFACE
    while at + _FRAME.size <= len(sent):
        high, low, kind, flags, _ = _FRAME.unpack_from(sent, at)
        found += kind == _PING and not flags & _ANSWER
        at += _FRAME.size + (high << 16 | low)
    return found


class Proxy:
    """Passes connections on to a server until a number of bytes has come from there.

    Attributes:
        address: host:port to connect to.
        cuts: how many connections were cut.
        came: how many bytes the server has sent.
        sent: what each client has sent, by connection.
        silent: while it is set, nothing is handed on in either direction, and nothing is closed.
        pace: the number of bytes that it takes from the server in a second; 0: all that come.
    """

    def __init__(self, target: str, budgets: Iterable[int] = ()) -> None:
        """Cuts its first connections after these numbers of bytes, and the later ones never."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._budgets: Iterator[int] = iter(budgets)
        self._later: int | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._far: set[socket.socket] = set()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self.came = 0
        self.sent: list[bytearray] = []
        self.silent = threading.Event()
        self.pace = 0

    def cut_after(self, size: int) -> None:
        """Cuts each connection from now on after this number of bytes."""
        self._later = size

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
                if self.pace:  # otherwise megabytes fit between the server and the proxy
                    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            except OSError:
                near.close()
                continue
            self._open += [near, far]
            self._far.add(far)
            budget = next(self._budgets, self._later)
            self.sent.append(bytearray())
            for source, sink, limit in ((near, far, None), (far, near, budget)):
                arguments = (source, sink, limit, self.sent[-1])
                threading.Thread(target=self._hand_on, args=arguments, daemon=True).start()

    def _hand_on(
        self, source: socket.socket, sink: socket.socket, budget: int | None, sent: bytearray
    ) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(1 << 16):
                if self.silent.is_set():
                    return
                if source in self._far:
                    self.came += len(content)
                    if self.pace:
                        time.sleep(len(content) / self.pace)
                else:
                    sent += content
                if budget is not None and budget < len(content):
                    sink.sendall(content[:budget])
                    self.cuts += 1
                    break
                budget = None if budget is None else budget - len(content)
                sink.sendall(content)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self._listener, *self._open):
            end.close()
