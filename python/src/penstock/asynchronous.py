"""Streams for asyncio: the same batches, without blocking the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from penstock import errors
from penstock.fields import Cursor
from penstock.markup import Report
from penstock.plan import Plan
from penstock.stream import Stats, Stream

T = TypeVar("T")


class AsyncStream:
    """An asynchronous iterator of `pyarrow.RecordBatch`. Created by `Client.read_async`.

        async with client.read_async("homefeed") as stream:
            async for batch in stream:
                await send(batch)

    The query is planned when the `async with` block is entered, or when the first batch is requested. A separate thread
    plans, waits and decodes. If a task is canceled while it waits for a batch, the stream is closed, on the server too.
    Close a stream that is not read to its end; leaving the `async with` block closes it.
    """

    def __init__(self, opens: Callable[[threading.Event], Stream]) -> None:
        """Prepares to read. Nothing is sent yet.

        Args:
            opens: a function that plans the query and returns its stream. It receives an event that `close` sets, and
                then stops retrying.
        """
        self._opens = opens
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="penstock-async")
        self._lock = threading.Lock()  # guards _stream and setting _closed
        self._stream: Stream | None = None
        self._closed = threading.Event()

    @property
    def stream(self) -> Stream:
        """The underlying stream. Only this object may read it.

        Raises:
            Invalid: the query is not planned yet.
        """
        if self._stream is None:
            raise errors.Invalid("the query is not planned yet", remedy="use `async with`, or read a batch")
        return self._stream

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self.stream.schema

    @property
    def plan(self) -> Plan:
        """The server's plan for the query."""
        return self.stream.plan

    @property
    def cursor(self) -> Cursor | list[Cursor] | None:
        """The position of the stream, as in `Stream.cursor`; None before the query is planned."""
        return None if self._stream is None else self._stream.cursor

    @property
    def report(self) -> Report:
        """The server's report, as in `Stream.report`."""
        return self.stream.report

    @property
    def stats(self) -> Stats:
        """Statistics of the stream so far."""
        return self.stream.stats

    async def read_all(self) -> pa.Table:
        """Reads the rest of the stream as a table."""
        return await self._run(lambda: self._opened().read_all())

    async def close(self) -> None:
        """Closes the stream, on the server too. The cursor remains available."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._close))

    def __aiter__(self) -> Self:
        """Returns an iterator over the remaining batches.

        Raises:
            Invalid: the stream was read to its end.
        """
        if self._stream is not None:
            iter(self._stream)
        return self

    async def __anext__(self) -> pa.RecordBatch:
        batch = await self._run(lambda: next(self._opened(), None))
        if batch is None:
            self._worker.shutdown(wait=False)
            raise StopAsyncIteration
        return batch

    async def __aenter__(self) -> Self:
        await self._run(self._opened)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, act: Callable[[], T]) -> T:
        """Calls a function in the stream's thread. Closes the stream if the task is canceled during the call."""
        try:
            doing = self._worker.submit(act)
        except RuntimeError:  # the stream is closed or has ended: the function reports it without waiting
            return act()
        try:
            return await asyncio.wrap_future(doing)
        except asyncio.CancelledError:
            await self.close()
            raise

    def _opened(self) -> Stream:
        """Returns the stream. The first call opens it, in the stream's thread."""
        if self._stream is None and not self._closed.is_set():
            opened = self._opens(self._closed)
            with self._lock:
                self._stream = opened
                late = self._closed.is_set()
            if late:
                opened.close()
        if self._stream is None:
            raise errors.Invalid("the stream is closed, and was not read", remedy="read again")
        return self._stream

    def _close(self) -> None:
        with self._lock:
            self._closed.set()
            stream = self._stream
        if stream is not None:
            stream.close()
        self._worker.shutdown(wait=False)

    def __repr__(self) -> str:
        return (
            "<penstock.AsyncStream, not planned>"
            if self._stream is None
            else f"<penstock.AsyncStream of {self._stream!r}>"
        )

    def __iter__(self) -> Any:
        raise TypeError("an AsyncStream is read with `async for`")
