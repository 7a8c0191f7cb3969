"""Connections that are passed on, and delayed, silenced, dropped or cut on the way."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

_CHUNK = 1 << 16
_NEVER = 1 << 62  # bytes
_LOOK = 0.05  # seconds between looks at whether the silence has ended


class Relay:
    """Passes connections to one address on to another.

    Attributes:
        delay: seconds by which each piece is delayed.
        silent: while it is set, nothing is passed on, and nothing is closed.
        refuses: while it is set, new connections are closed.
        cuts: after how many more bytes each open connection is reset; None: never.
    """

    def __init__(self, listen: str, target: str) -> None:
        """Addresses are host:port; port 0 of listen takes a free one."""
        self._listen, self._target = _split(listen), _split(target)
        self.delay, self.silent, self.refuses = 0.0, False, False
        self.cuts: int | None = None
        self._open: set[asyncio.WriteTransport] = set()
        self._void: set[asyncio.WriteTransport] = set()
        self._server = _loop.run(asyncio.start_server(self._accept, *self._listen))
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    def void(self) -> None:
        """From now on, the open connections pass nothing on, and the relay never closes them."""
        _loop.call(lambda: self._void.update(self._open))

    def reset(self) -> None:
        """Resets all open connections."""
        _loop.call(self._abort)

    def _abort(self) -> None:
        for end in list(self._open):
            end.abort()

    def heal(self) -> None:
        """Ends all faults but those of connections that are void."""
        self.delay, self.silent, self.refuses, self.cuts = 0.0, False, False, None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer.transport, far_writer.transport)
        self._open.update(ends)
        left = [_NEVER]
        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(
                    self._pass(reader, far_writer, left), self._pass(far_reader, writer, left)
                )
        finally:
            for end in ends:
                self._open.discard(end)
                self._void.discard(end)
                end.abort()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: list[int]) -> None:
        """Passes on what comes; left is how many bytes the connection may pass until it is cut."""
        while content := await source.read(_CHUNK):
            while self.silent or sink.transport in self._void:
                if sink.transport.is_closing():
                    raise ConnectionAbortedError
                await asyncio.sleep(_LOOK)
            if self.delay:
                await asyncio.sleep(self.delay)
            left[0] = _NEVER if self.cuts is None else min(left[0], self.cuts)
            left[0] -= len(content)
            if left[0] < 0:
                sink.write(content[: left[0]])
                await sink.drain()
                raise ConnectionAbortedError
            sink.write(content)
            await sink.drain()
        sink.write_eof()


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    def call(self, what: Any) -> None:
        self._loop.call_soon_threadsafe(what)


_loop = _Loop()
