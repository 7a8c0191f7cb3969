"""The use of a connection by one call or stream."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors
from penstock.process import process


class Lessor(Protocol):
    """A connection that calls and streams lease."""

    @property
    def closed(self) -> bool:
        """Whether the connection was closed for good."""

    def returned(self, lease: Lease, client: flight.FlightClient) -> None:
        """Ends a lease.

        Args:
            lease: the lease.
            client: the client that it used.
        """


class Lease:
    """The use of a connection by one call or stream. Its holder must release it.

    Any thread may release a stream's lease, which cancels the stream. Only the calling thread may release a call's
    lease: pyarrow crashes if a client or writer is closed while another thread uses it.

    Attributes:
        client: the Flight client; None once released.
        reader: the stream's reader; None for calls, and once released.
        writer: the writer of a call that sends rows; None once released.
        fresh: whether the connection was opened for this lease.
        broken: whether the server could not be reached. The next lease then opens a new connection, because this one
            would fail until it reconnects. Other leases of the connection are not affected.
    """

    def __init__(self, lessor: Lessor, client: flight.FlightClient, *, fresh: bool) -> None:
        self._lessor = lessor
        self._pid = os.getpid()
        self.fresh = fresh
        self.client: Any = client
        self.reader: Any = None
        self.writer: Any = None
        self.broken = False

    @property
    def foreign(self) -> bool:
        """Whether the lease was taken by the parent process, before a fork."""
        return self._pid != os.getpid()

    def writing(self) -> Any:
        """The writer of a call that sends rows.

        Raises:
            Invalid: the client was closed, or this process is a fork of the one that began the call.
        """
        if self.foreign or self.writer is None or self._lessor.closed:
            raise errors.Invalid(
                "the client was closed while it was sending rows, or this process was forked meanwhile",
                remedy="call stage again, with the same token",
            )
        return self.writer

    def release(self) -> None:
        """Releases the connection, and cancels the stream if there is one. Safe to call more than once."""
        if self.foreign:
            return
        with process.lock:
            reader, client, self.reader, self.client = self.reader, self.client, None, None
        if client is None:
            return
        if reader is not None:
            reader.cancel()
        del reader
        writer, self.writer = self.writer, None
        if writer is not None:
            # This also ends failed calls: without the last message, the server writes nothing. close waits for a thread
            # that reads answers; done_writing lets the server end the answers.
            for end in (writer.done_writing, writer.close):
                with suppress(pa.ArrowException, flight.FlightError, OSError):
                    end()
            del end
        del writer
        self._lessor.returned(self, client)
