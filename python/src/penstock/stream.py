"""Streams of record batches, with the cursor after each and a report at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors
from penstock.channel import Call, Channel, Lease
from penstock.indexed import expand, plain_schema
from penstock.plan import Plan
from penstock.query import Cursor


class Reading:
    """The messages of one ticket, held to the rules of the wire.

    Schema first, then batches with a cursor each, then one message with the
    report, then the end. Anything else is not whole and raises `Corrupt`.
    """

    def __init__(
        self, channel: Channel, ticket: flight.Ticket, schema: pa.Schema, *, auto: bool = False
    ) -> None:
        """Prepares to read; `auto` says that the stream itself chose its form, and is made plain."""
        self._channel = channel
        self._ticket = ticket
        self._schema = schema
        self._auto = auto
        self._lease: Lease | None = None
        self._call = Call()
        self._cursor: bytes | None = None
        self._rows = 0
        self._batches = 0
        self.report: dict[str, Any] | None = None

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None after the report and the stream's end."""
        try:
            return self._next()
        except errors.Unavailable:
            if self._lease is not None:
                self._lease.broken = True
            raise

    def _next(self) -> pa.RecordBatch | None:
        if self._lease is None:
            self._lease, self._call = self._channel.stream(self._ticket)
        if self._lease.foreign:
            raise errors.Invalid(
                "the stream was opened before this process was forked",
                remedy="open it in the process that reads it, with the cursor where it must go on",
            )
        with self._call.translated(unclassified=errors.Corrupt):
            if self._batches == 0 and not self._is_planned(self._reader().schema):
                raise errors.Corrupt(
                    "the stream's schema is not the one that was planned", remedy="read again"
                )
            while True:
                try:
                    chunk = self._reader().read_chunk()
                except StopIteration:
                    self._ended()
                    return None
                if chunk.data is not None:
                    return self._batch(chunk)
                self._last(chunk.app_metadata)

    def _is_planned(self, schema: pa.Schema) -> bool:
        """Whether a stream's schema is the planned one, or becomes it."""
        if self._auto:
            schema = pa.schema(sorted(plain_schema(schema), key=lambda field: self._position(field.name)))
        return bool(schema.equals(self._schema))

    def _position(self, name: str) -> int:
        return int(self._schema.get_field_index(name))

    def _planned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch in the planned form: an indexed one of an auto stream becomes plain."""
        return expand(batch).select(self._schema.names) if self._auto else batch

    def cursor(self) -> Cursor | None:
        """Where the stream stands; None before the first batch."""
        if self.report is not None:
            end: Cursor = self.report["cursor"]
            return end
        if self._cursor is None:
            return None
        after: Cursor = json.loads(self._cursor)
        return after

    def close(self) -> None:
        """Ends the stream on both sides."""
        if self._lease is not None:
            self._lease.release()

    def _reader(self) -> flight.FlightStreamReader:
        """The open reader. Do not keep it: exceptions keep the locals of all they passed through."""
        reader = None if self._lease is None else self._lease.reader
        if reader is None:
            raise errors.Invalid("the client was closed while its stream was read", remedy="connect again")
        return reader

    def _batch(self, chunk: flight.FlightStreamChunk) -> pa.RecordBatch:
        if self.report is not None:
            raise errors.Corrupt("a batch came after the stream's report")
        if chunk.app_metadata is None:
            raise errors.Corrupt("a batch came without its cursor")
        self._cursor = chunk.app_metadata.to_pybytes()
        self._rows += chunk.data.num_rows
        self._batches += 1
        return self._planned(chunk.data)

    def _last(self, metadata: pa.Buffer | None) -> None:
        message = {} if metadata is None else _object(metadata.to_pybytes())
        report = message.get("report")
        if (
            self.report is not None
            or not isinstance(report, dict)
            or not isinstance(report.get("cursor"), dict)
        ):
            raise errors.Corrupt("the stream holds a message that is neither a batch nor its report")
        self.report = report

    def _ended(self) -> None:
        if self.report is None:
            raise errors.Corrupt(
                f"the stream ended after {self._rows} rows without its report; rows are missing",
                remedy="read again from the cursor of the last batch",
            )
        told = (self.report.get("rows"), self.report.get("batches"))
        if told != (self._rows, self._batches):
            rows, batches = told
            self.report = None
            raise errors.Corrupt(
                f"the server sent {rows} rows in {batches} batches, {self._rows} in {self._batches} arrived",
                remedy="read again from the cursor of the last batch",
            )
        self.close()

    def __del__(self) -> None:
        self.close()


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class Stream:
    """An iterator of `pyarrow.RecordBatch`, which knows where it stands.

    Batches are Arrow memory of their own: keep them as long as you like. The
    server does nothing for the stream before the first batch is asked for.
    Whoever opens a stream closes it; leaving a `with` block, the stream's end
    and dropping it do so too. A stream is for one thread at a time.

    Reading raises one of `penstock.errors`, and raises it again if asked
    again: a broken stream never looks like one that ended.
    """

    def __init__(
        self,
        readings: Sequence[Reading],
        plan: Plan,
        start: Cursor | list[Cursor] | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        self._readings = list(readings)
        self._ordered = ordered
        self._at = 0
        self._plan = plan
        self._start = start
        self._failure: errors.Error | None = None
        self._closed = False
        self._done = False

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._plan.schema

    @property
    def plan(self) -> Plan:
        """What the server planned for the query."""
        return self._plan

    @property
    def cursor(self) -> Cursor | list[Cursor] | None:
        """Where the stream stands: after the batch last given.

        A plain dictionary that can be kept as JSON; its numbers are exact. A
        query with it as `cursor` continues with the very next row. Before the
        first batch: the query's own cursor, None if it had none.

        If the query named no shard of several, shards are read one after the
        other, and this is a list with the cursor of each shard that was begun
        here. A query can resume from such a list once it is whole, at the
        stream's end; before that, resume each shard by its own cursor. Name a
        shard, or read as one, where streams are to be resumed.
        """
        cursors = [c for c in (r.cursor() for r in self._readings) if c is not None]
        if not cursors:
            return self._start
        if self._ordered:  # parts of one stream
            return cursors[-1]
        return cursors[0] if len(self._readings) == 1 else cursors

    @property
    def report(self) -> dict[str, Any]:
        """What the server says of the whole stream, after its end: rows, batches, matches by staging table.

        If several shards were read: rows and batches of all, and `shards`, the
        report of each.

        Raises:
            Invalid: the stream has not ended.
        """
        if not self._done:
            raise errors.Invalid(
                "the stream has not ended, so there is no report", remedy="read until iteration stops"
            )
        reports = [r.report for r in self._readings if r.report is not None]
        if len(reports) == 1:
            return reports[0]
        return {**{name: sum(r[name] for r in reports) for name in ("rows", "batches")}, "shards": reports}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._done:
            raise StopIteration
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise errors.Invalid(
                "the stream is closed, and was not read to its end", remedy="read again from its cursor"
            )
        try:
            while self._at < len(self._readings):
                batch = self._readings[self._at].next()
                if batch is not None:
                    return batch
                self._at += 1
        except errors.Error as e:
            self._failure = e
            self.close()
            raise
        except BaseException:
            self.close()  # interrupted in the middle of a message
            raise
        self._done = True
        raise StopIteration

    def to_reader(self) -> pa.RecordBatchReader:
        """The rest of the stream as a reader, for libraries that take one.

        The reader draws from this stream: cursor and report go on with it, and
        closing the stream ends the reader with an exception.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self)

    def expanded(self) -> pa.RecordBatchReader:
        """The rest of an indexed stream as a reader of plain batches, see `expand`.

        The reader draws from this stream as that of `to_reader` does. Of a plain
        stream it is the same.
        """
        return pa.RecordBatchReader.from_batches(plain_schema(self.schema), map(expand, self))

    def read_all(self) -> pa.Table:
        """The rest of the stream as a table."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def close(self) -> None:
        """Ends the stream, on the server too, within a moment. Cursor and report stay."""
        self._closed = True
        for reading in self._readings:
            reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
