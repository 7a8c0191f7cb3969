"""Streams of record batches, with a cursor after each batch and a report at the end."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from penstock import errors, manifests, mistakes, reports
from penstock.answers import total
from penstock.batches import BatchIterator
from penstock.bound import BoundQuery
from penstock.fields import Cursor
from penstock.indexed import expand, plain_schema
from penstock.markup import Report, document
from penstock.plan import Plan
from penstock.progress import Progress, ProgressOption
from penstock.reading import Reading
from penstock.traces import Traces

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True)
class Stats:
    """Statistics of a stream so far.

    Attributes:
        rows: rows returned.
        batches: batches returned.
        seconds: from the request for the first batch to the arrival of the last one.
        waited: the part of `seconds` that the reader waited for a batch.
        resumed: the number of times the stream was resumed after a failure.
        moved: the number of times the stream moved to another server because its own was told to stop, or because the
            first server for it has returned.
        way: how the last batch came: as tensors in the "ring" of a server on this host, as tensors of the "receiver" of
            this host, in "mapped" memory, or over the "network"; "" before the first batch.
        why: why tensors that were requested did not come from a ring or a receiver; "" if they did.
    """

    rows: int
    batches: int
    seconds: float
    waited: float
    resumed: int
    way: Literal["", "ring", "receiver", "mapped", "network"] = ""
    why: str = ""
    moved: int = 0

    @property
    def stall(self) -> float:
        """The share of the time that the reader waited; 0 before the first batch."""
        return self.waited / self.seconds if self.seconds else 0.0


class Stream(BatchIterator):
    """An iterator of `pyarrow.RecordBatch` that tracks its position.

    Batches own their memory and can be kept indefinitely. The server reads nothing before the first batch is requested.
    Close a stream when done; leaving its `with` block, reaching its end or dropping it also closes it. Only one thread
    may read a stream at a time. A stream resumes automatically after a lost connection, see `connect`. A failed read
    raises one of `penstock.errors`, and so does every further read: a broken stream never looks like an ended one.

    Libraries that accept Arrow streams accept this class: `polars.DataFrame(stream)`,
    `pyarrow.table(stream)`, DuckDB's `from stream`. They receive the remaining rows in plain columns.

    `len(stream)` is the number of batches from the position where the stream was opened to its end, regardless of the
    batches already read. It raises TypeError if the number is unknown before reading.
    """

    _what = "stream"
    _for_threads = "a stream for each thread, as shard=(i, n)"

    def __init__(
        self,
        bound: BoundQuery,
        readings: Sequence[Reading],
        plan: Plan,
        start: Cursor | list[Cursor] | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        """Prepares to read the endpoints one after the other.

        Args:
            bound: the query, and the servers to send it to.
            readings: one Reading per endpoint, in order.
            plan: the plan of the query.
            start: the query's own cursor.
            ordered: whether the readings are consecutive parts of one stream.
        """
        super().__init__()
        self._bound = bound
        self._name = bound.name
        self._readings = list(readings)
        self._ordered = ordered
        self._at = 0
        self._plan = plan
        self._start = start
        self._progress: Progress | None = None
        self._tensor_plan: bytes | None = None
        self._exported = False  # __arrow_c_stream__ has returned a batch

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._plan.schema

    @property
    def plan(self) -> Plan:
        """The server's plan for the query."""
        return self._plan

    @property
    def cursor(self) -> Cursor | list[Cursor] | None:
        """The position of the stream after the last returned batch.

        A cursor is a plain dictionary that can be stored as JSON; its numbers are exact. Each batch has a dictionary of
        its own, which belongs to the caller: the stream does not use it. A query with this value as `cursor` resumes
        with the very next row. Before the first batch, the value is the query's own cursor, or None.

        If the query has several shards and names none, the shards are read one after the other, and the value is a list
        with the cursor of each started shard. A query can resume only from the complete list, at the end of the stream;
        before the end, resume each shard from its own cursor. To be able to resume, name a shard or use a single one.
        """
        cursors = [c for c in (r.cursor for r in self._readings) if c is not None]
        if not cursors:
            return self._start
        if self._ordered:  # parts of one stream
            return cursors[-1]
        return cursors[0] if len(self._readings) == 1 else cursors

    @property
    def report(self) -> Report:
        """The server's report on the whole stream, after its end: rows, batches, matches by staging table.

        If several shards were read, the report has the totals of rows, batches and matches, and `shards` with the
        report of each shard. If the stream was resumed, the report has the rows and batches that this stream returned,
        the cursor, and `parts`. Each broken connection's part has its rows, batches, last cursor, and the reason why it
        `ended`. The last part is the server's report of the last connection, which counts only that connection. Matches
        of broken connections are unknown: `staging` is from the last connection, and `partial` is True. With
        `wire="grouped"`, a batch has one row per request, and `requests` replaces rows.

        Raises:
            Invalid: the stream has not ended.
        """
        if not self._done:
            raise errors.Invalid(
                "the stream has not ended, so there is no report", remedy="read until iteration stops"
            )
        found = [r.report for r in self._readings if r.report is not None]
        return Report(found[0] if len(self._readings) == 1 else reports.total("shards", found))

    def manifest(self, *, file: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Returns the inputs of the stream, to save with a model; `Client.replay` reads the same rows again.

        Args:
            file: also write the manifest to this file, as JSON, atomically.
        """
        pinned = self._bound.pinned(self._plan)
        kept = pinned.servers.retried(lambda: manifests.ask(pinned))
        if kept["plan"] != self._plan.id:
            raise errors.Expired(
                f"the stream's plan is {self._plan.id}, but the server's plan of its query is now {kept['plan']}",
                remedy="read it from the start",
            )
        if file is not None:
            manifests.save(kept, file)
        return kept

    @property
    def stats(self) -> Stats:
        """Statistics of the stream so far."""
        latest = next((r for r in reversed(self._readings) if r.way), self._readings[0])
        return Stats(
            rows=sum(r.rows for r in self._readings),
            batches=sum(r.batches for r in self._readings),
            seconds=self._seconds,
            waited=self._waited,
            resumed=sum(r.resumed for r in self._readings),
            way=latest.way or "",
            why=latest.why,
            moved=sum(r.moved for r in self._readings),
        )

    def __len__(self) -> int:
        batches = self._batches()
        if batches is None:
            raise TypeError(
                "the number of batches is unknown before the stream is read; count='exact' makes it known"
            )
        return batches

    def _show_progress(self, option: ProgressOption) -> None:
        """Shows progress from now on; "auto" shows it only on a terminal."""
        if self._progress is None:
            self._progress = Progress.make(option, self._name, self._rows(), self._batches())

    def _accept_blocks(self, plan: bytes) -> None:
        """Accepts a `penstock.rings.Block` instead of each batch, where the server or a receiver can assemble it on this host.

        Args:
            plan: the tensor plan, see docs/spec/blocks.md.
        """
        self._tensor_plan = plan
        for reading in self._readings:
            reading.accept_blocks(plan)

    @property
    def _traces(self) -> Traces | None:
        """The traces of its steps; None if the program traces nothing, or if several shards are read."""
        return self._readings[0].traces if len(self._readings) == 1 else None

    def _batches(self) -> int | None:
        return total(r.endpoint.batches for r in self._readings)

    def _rows(self) -> int | None:
        """The total number of rows of the stream, if known."""
        rows = total(r.endpoint.rows for r in self._readings)
        if rows is None and all(r.endpoint.splits is None for r in self._readings):
            return self._plan.rows_left
        return rows

    def _next(self) -> pa.RecordBatch | None:
        while self._at < len(self._readings):
            batch = self._readings[self._at].next()
            if batch is not None:
                return batch
            self._at += 1
        return None

    def _came(self, batch: pa.RecordBatch | None) -> None:
        if self._progress is not None:
            stats = self.stats
            self._progress.show(stats.rows, stats.batches, stats.seconds, stats.stall)
            if batch is None:
                self._progress.close()

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the rest of the stream as a reader, for libraries that need one.

        The reader reads from this stream: the stream's cursor and report advance, and closing the stream makes the
        reader raise an exception.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self)

    def expanded(self) -> pa.RecordBatchReader:
        """Returns the rest of an indexed stream as a reader of plain batches, see `expand`.

        The reader reads from this stream, like the reader of `to_reader`. For a plain stream, both readers return the
        same.
        """
        return pa.RecordBatchReader.from_batches(plain_schema(self.schema), map(expand, self))

    def __arrow_c_schema__(self) -> object:
        """Returns the schema of `__arrow_c_stream__`."""
        return plain_schema(self.schema).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the rest of the stream in plain columns, for any library that accepts Arrow streams.

        Raises:
            Invalid: the stream has ended, or a library has read a part of it. The rest would look like the whole stream.
        """
        self._refuse_ended()
        if self._exported:
            raise errors.Invalid(
                "another query has read a part of the stream, which is read once",
                remedy="read again, or create a table from the stream first",
            )
        reader = pa.RecordBatchReader.from_batches(plain_schema(self.schema), self._exporting())
        return reader.__arrow_c_stream__(requested_schema)

    def _exporting(self) -> Iterator[pa.RecordBatch]:
        for batch in self:
            self._exported = True
            yield expand(batch)

    def read_all(self) -> pa.Table:
        """Reads the rest of the stream as a table."""
        self._refuse_ended()
        return pa.Table.from_batches(list(self), schema=self.schema)

    def head(self, rows: int = 5) -> pa.Table:
        """Reads the next rows as a table, with a separate query: the stream's position does not change.

        Args:
            rows: the maximum number of rows.
        """
        rows = mistakes.whole("rows", rows, minimum=1)
        batches: list[pa.RecordBatch] = []
        for reading in self._readings[self._at :]:
            batches += reading.peek(rows - sum(batch.num_rows for batch in batches))
            if sum(batch.num_rows for batch in batches) == rows:
                break
        return pa.Table.from_batches(batches, schema=self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Reads the rest of the stream in plain columns as a pandas.DataFrame.

        Args:
            options: options of `pyarrow.Table.to_pandas`, such as `types_mapper`.
        """
        if importlib.util.find_spec("pandas") is None:
            raise ImportError("to_pandas needs pandas: pip install 'penstock[pandas]'")
        self._refuse_ended()
        return self.expanded().read_all().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """Reads the rest of the stream in plain columns as a polars.DataFrame."""
        try:
            import polars as pl
        except ImportError as e:
            raise ImportError("to_polars needs Polars: pip install 'penstock[polars]'") from e
        return pl.DataFrame(self)

    def close(self) -> None:
        """Closes the stream, on the server too. Cursor and report remain available."""
        self._closed = True
        for reading in self._readings:
            reading.close()
        if self._progress is not None:
            self._progress.close()

    def __repr__(self) -> str:
        stats, batches, rows = self.stats, self._batches(), self._rows()
        step = next((r.cursor.get("step") for r in reversed(self._readings) if r.cursor is not None), None)
        given = f"{stats.rows}{'' if rows is None else f' of {rows}'} rows"
        given += f" in {stats.batches}{'' if batches is None else f' of {batches}'} batches"
        at = "" if step is None else f", step {step}"
        return f"<penstock.Stream of {self._name}: {given}{at}, {self._state()}>"

    def _repr_html_(self) -> str:
        stats, rows = self.stats, self._rows()
        given: dict[str, object] = {
            "state": self._state(),
            "rows returned": stats.rows,
            "batches returned": stats.batches,
        }
        planned = {} if rows is None else {"rows": rows}
        return document(f"Stream of {self._name}", {**given, **planned}, self.schema)

    def _state(self) -> str:
        if self._done:
            return "ended"
        if self._failure is not None:
            return f"failed: {self._failure.kind}"
        if self._closed:
            return "closed"
        return "open" if self._began is not None else "not begun"
