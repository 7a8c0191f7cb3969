"""Streams of record batches, with the cursor after each and a report at the end."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock import errors, manifests
from penstock.asked import Asked
from penstock.fields import Cursor
from penstock.indexed import expand, plain_schema
from penstock.plan import Plan
from penstock.progress import Progress, Wanted
from penstock.reading import Reading

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True)
class Stats:
    """How a stream went so far.

    Attributes:
        rows: given.
        batches: given.
        seconds: from the moment that the first batch was asked for to the last one's coming.
        waited: of these, the seconds in which the reader waited for a batch.
        resumed: how many times the stream was taken up again after a failure.
    """

    rows: int
    batches: int
    seconds: float
    waited: float
    resumed: int

    @property
    def stall(self) -> float:
        """The share of the time in which the reader waited; 0 before the first batch."""
        return self.waited / self.seconds if self.seconds else 0.0


class Stream:
    """An iterator of `pyarrow.RecordBatch`, which knows where it stands.

    Batches are Arrow memory of their own: keep them as long as you like. The
    server does nothing for the stream before the first batch is asked for.
    Whoever opens a stream closes it; leaving a `with` block, the stream's end
    and dropping it do so too. A stream is for one thread at a time.

    A stream whose connection is lost goes on by itself, see `connect`. Reading raises
    one of `penstock.errors`, and raises it again if asked again: a broken stream never
    looks like one that ended.

    Libraries that take Arrow streams take this one: `polars.DataFrame(stream)`,
    `pyarrow.table(stream)`, DuckDB's `from stream`. They get the rest of its rows, as plain columns.

    `len(stream)` is the number of batches of the whole stream, from where it was opened to its end,
    whatever was read of it; TypeError if nobody knows it before reading.
    """

    def __init__(
        self,
        asked: Asked,
        readings: Sequence[Reading],
        plan: Plan,
        start: Cursor | list[Cursor] | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        """Prepares to read one reading after the other.

        Args:
            asked: the query.
            readings: of the endpoints, in their order.
            plan: what the server made of the query.
            start: the query's own cursor.
            ordered: whether the readings are parts of one stream.
        """
        self._asked = asked
        self._name = asked.name
        self._readings = list(readings)
        self._ordered = ordered
        self._at = 0
        self._plan = plan
        self._start = start
        self._progress: Progress | None = None
        self._failure: errors.Error | None = None
        self._closed = False
        self._done = False
        self._began: float | None = None
        self._seconds = 0.0
        self._waited = 0.0
        self._one = threading.Lock()  # gRPC ends the process where two threads read

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
        cursors = [c for c in (r.cursor for r in self._readings) if c is not None]
        if not cursors:
            return self._start
        if self._ordered:  # parts of one stream
            return cursors[-1]
        return cursors[0] if len(self._readings) == 1 else cursors

    @property
    def report(self) -> dict[str, Any]:
        """What the server says of the whole stream, after its end: rows, batches, matches by staging table.

        If several shards were read: rows and batches of all, and `shards`, the
        report of each. If the stream was taken up again: rows and batches that were given
        here, the cursor, and `parts`. These have for each connection that broke its rows, batches, last
        cursor and why it `ended`, and then the server's report of the last one, whose
        counts begin behind them. Nobody knows the matches of the connections that broke. Batches of
        `wire="grouped"` have rows for requests: there `requests` stands in the place of rows.

        Raises:
            Invalid: the stream has not ended.
        """
        if not self._done:
            raise errors.Invalid(
                "the stream has not ended, so there is no report", remedy="read until iteration stops"
            )
        reports = [r.report for r in self._readings if r.report is not None]
        if len(self._readings) == 1:
            return reports[0]
        sums = [name for name in ("rows", "requests", "batches") if all(name in r for r in reports)]
        return {**{name: sum(r[name] for r in reports) for name in sums}, "shards": reports}

    def manifest(self, *, file: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """All that the stream is made of, to be kept with a model; `Client.replay` reads the same rows again.

        Args:
            file: also written there, as JSON, at once or not at all.
        """
        kept = manifests.ask(self._asked.pinned(self._plan))
        if kept["plan"] != self._plan.id:
            raise errors.Expired(
                f"the stream's plan is {self._plan.id}, and the server makes {kept['plan']} of its query now",
                remedy="read it anew",
            )
        if file is not None:
            manifests.save(kept, file)
        return kept

    @property
    def stats(self) -> Stats:
        """How the stream went so far."""
        return Stats(
            rows=sum(r.rows for r in self._readings),
            batches=sum(r.batches for r in self._readings),
            seconds=self._seconds,
            waited=self._waited,
            resumed=sum(r.resumed for r in self._readings),
        )

    def __len__(self) -> int:
        batches = self._batches()
        if batches is None:
            raise TypeError(
                "nobody knows how many batches this stream has before it is read; ask with count='exact'"
            )
        return batches

    def __bool__(self) -> bool:
        return True

    def show_progress(self, wish: Wanted = True) -> None:
        """Shows from now on how far the stream is; "auto" shows it on a terminal."""
        if self._progress is None:
            self._progress = Progress.wanted(wish, self._name, self._rows(), self._batches())

    def _batches(self) -> int | None:
        return _sum(r.endpoint.batches for r in self._readings)

    def _rows(self) -> int | None:
        """How many rows the stream gives in all, where that is known."""
        rows = _sum(r.endpoint.rows for r in self._readings)
        if rows is None and all(r.endpoint.splits is None for r in self._readings):
            return self._plan.rows_left
        return rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if not self._one.acquire(blocking=False):
            raise errors.Invalid(
                "another thread is reading this stream",
                remedy="guard it with a lock, or open a stream for each thread, as shard=(i, n)",
            )
        try:
            return self._given()
        finally:
            self._one.release()

    def _given(self) -> pa.RecordBatch:
        if self._done:
            raise StopIteration
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise errors.Invalid(
                "the stream is closed, and was not read to its end", remedy="read again from its cursor"
            )
        asked = time.monotonic()
        if self._began is None:
            self._began = asked
        try:
            batch = self._next()
        except errors.Error as e:
            self._failure = e
            self.close()
            raise
        except BaseException:
            self.close()  # interrupted in the middle of a message
            raise
        came = time.monotonic()
        self._waited += came - asked
        self._seconds = came - self._began
        if batch is None:
            self._done = True
            self._show(last=True)
            raise StopIteration
        self._show()
        return batch

    def _next(self) -> pa.RecordBatch | None:
        while self._at < len(self._readings):
            batch = self._readings[self._at].next()
            if batch is not None:
                return batch
            self._at += 1
        return None

    def _show(self, *, last: bool = False) -> None:
        if self._progress is not None:
            stats = self.stats
            self._progress.show(stats.rows, stats.batches, stats.seconds, stats.stall)
            if last:
                self._progress.close()

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

    def __arrow_c_schema__(self) -> object:
        """The schema of what `__arrow_c_stream__` gives."""
        return plain_schema(self.schema).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rest of the stream in plain columns, for any library that takes Arrow streams."""
        self._refuse_ended()
        return self.expanded().__arrow_c_stream__(requested_schema)

    def read_all(self) -> pa.Table:
        """The rest of the stream as a table."""
        self._refuse_ended()
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """The rest of the stream in plain columns as a pandas.DataFrame.

        Args:
            options: those of `pyarrow.Table.to_pandas`, such as `types_mapper`.
        """
        if importlib.util.find_spec("pandas") is None:
            raise ImportError(
                'to_pandas needs pandas: pip install "./python[pandas]" in a checkout of Penstock'
            )
        self._refuse_ended()
        return self.expanded().read_all().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """The rest of the stream in plain columns as a polars.DataFrame."""
        try:
            import polars as pl
        except ImportError as e:
            raise ImportError(
                'to_polars needs Polars: pip install "./python[polars]" in a checkout of Penstock'
            ) from e
        return pl.DataFrame(self)

    def close(self) -> None:
        """Ends the stream, on the server too, within a moment. Cursor and report stay."""
        self._closed = True
        for reading in self._readings:
            reading.close()
        if self._progress is not None:
            self._progress.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_ended(self) -> None:
        """Refuses to make a table of a stream that has nothing left: it would look like no rows."""
        if self._done:
            raise errors.Invalid(
                "the stream was read to its end: there is nothing left to give", remedy="read again"
            )

    def __repr__(self) -> str:
        stats, batches, rows = self.stats, self._batches(), self._rows()
        step = next((r.cursor.get("step") for r in reversed(self._readings) if r.cursor is not None), None)
        given = f"{stats.rows}{'' if rows is None else f' of {rows}'} rows"
        given += f" in {stats.batches}{'' if batches is None else f' of {batches}'} batches"
        at = "" if step is None else f", step {step}"
        return f"<penstock.Stream of {self._name}: {given}{at}, {self._state()}>"

    def _state(self) -> str:
        if self._done:
            return "ended"
        if self._failure is not None:
            return f"failed: {self._failure.kind}"
        if self._closed:
            return "closed"
        return "open" if self._began is not None else "not begun"


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum, if all of the numbers are known."""
    known = list(numbers)
    counted = [n for n in known if n is not None]
    return sum(counted) if len(counted) == len(known) else None
