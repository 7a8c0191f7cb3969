"""The fields of a query, for editors and type checkers.

The server decides which values a field can have, and refuses others by name. These types declare the
forms that it reads, so that a misspelled field is found before a program runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, SupportsIndex, TypedDict

Cursor = dict[str, Any]
"""The position of a stream, as sent by the server; treat it as opaque."""

Column = TypedDict(
    "Column",
    {"column": Required[str], "name": str, "first": int, "last": int, "as": str, "expr": str},
    total=False,
)
"""A column with changes: `name` renames it, `first` or `last` keeps that many elements of its lists, and
`as` casts it. `"as": "category"` makes texts arrive as codes of a dictionary that each batch has of its own values.
`expr` computes a column from other columns of the dataset; `column` is then its name."""


class Dense(TypedDict, total=False):
    """Columns of numbers packed into one column of float32 rows.

    Attributes:
        columns: the columns to pack, in this order.
        fill: replaces nulls; without it, a null fails the stream.
    """

    columns: Required[Sequence[str | Column]]
    fill: float


class Shard(TypedDict, total=False):
    """The part of the rows that one reader gets.

    Attributes:
        index: 0 to of - 1; all shards if omitted.
        of: the number of shards, which must divide the number of lanes.
    """

    index: SupportsIndex
    of: SupportsIndex


class Every(TypedDict):
    """The steps of a shard that one of several DataLoader workers takes.

    Attributes:
        step: 0 to of - 1.
        of: the number of workers.
    """

    step: SupportsIndex
    of: SupportsIndex


class Sample(TypedDict, total=False):
    """A subset of the rows.

    Attributes:
        hash: a range of positions in hash space, from the first number up to but excluding the second.
        by: what to hash: the first column of the dataset's key, or all of them.
        rate: the share of rows to keep, among those that satisfy `where`.
        where: a filter.
    """

    hash: Sequence[float]
    by: Literal["request", "key"]
    rate: float
    where: str


class RunQuery(TypedDict, total=False):
    """The fields that are the same for all ranks, workers and epochs of a run. None leaves a field out.

    Attributes:
        with_: staging entries to add to a dataset of the server, in the form of its configuration: `{"table": …}`, with `ref` for
            a branch or a tag. A name alone is its table.
        columns: names of columns, or columns with a different name, length or type; all columns if omitted.
        dense: by name, the columns of numbers to pack into one column.
        filter: keeps only rows that satisfy this condition in SQL syntax, over all columns of the dataset.
        sample: a subset of the rows, the same in every run.
        since: a snapshot of the training table; only rows appended after it are read.
        snapshots: the pin to read, as in `Plan.pin`; it can be limited to some tables, or to the snapshot of
            a table.
        order: "stored", or "shuffled" by `seed` and `epoch`.
        shuffle: what a shuffled order permutes.
        shuffle_window: the number of stored rows that are permuted together.
        shuffle_parts: the number of places in a bucket from which they come.
        seed: the seed of a shuffled order; refused without one.
        lanes: the number of queues that rows are assigned to; must be a multiple of every number of shards that
            the run may use. The number of shards, if omitted.
        batch_rows: rows per batch; 8,192 if omitted, or fewer if they exceed 64 MiB.
        global_batch_rows: rows per step over all shards, instead of `batch_rows`.
        batch_requests: whole requests per batch, instead of rows.
        tail: "drop" ends all shards at the same step, "keep" returns every row.
        count: "exact" counts rows first if their number is unknown.
        wire: the form of batches on the wire. `Client.read` requests "auto" and converts it to plain batches.
        cache: how the server's cache is used: "read" keeps what is read for the second time, "fill" what is read at
            all, "off" neither uses nor keeps anything.
        algorithm: 2 gives each lane of a shuffled order the same rows in every epoch; that of the cursor, or 1, if omitted.
        job: a label for the run in `Client.status`, and in the server's log and metrics.
    """

    with_: Sequence[str | Mapping[str, Any]] | None
    columns: Sequence[str | Column] | None
    dense: Mapping[str, Sequence[str | Column] | Dense] | None
    filter: str | None
    sample: Sample | Mapping[str, object] | None
    since: SupportsIndex | str | None
    snapshots: Mapping[str, Any] | None
    order: Literal["stored", "shuffled"] | None
    shuffle: Literal["splits", "requests", "rows"] | None
    shuffle_window: SupportsIndex | None
    shuffle_parts: SupportsIndex | None
    seed: SupportsIndex | None
    lanes: SupportsIndex | None
    batch_rows: SupportsIndex | None
    global_batch_rows: SupportsIndex | None
    batch_requests: SupportsIndex | None
    tail: Literal["keep", "drop"] | None
    count: Literal["estimate", "exact"] | None
    wire: Literal["plain", "indexed", "auto", "grouped"] | None
    cache: Literal["off", "read", "fill"] | None
    algorithm: SupportsIndex | None
    job: str | None


class Query(RunQuery, total=False):
    """The fields of a query except its dataset: those of `penstock.RunQuery`, and those of a single stream.

    Attributes:
        epoch: the epoch of a shuffled order.
        shard: the part of the rows to read, also as a pair (index, of).
        every: the steps of the shard to read, if several workers take turns; also as a pair (step, of).
        limit: the number of rows after which the stream ends.
        cursor: where to resume, or the cursors of all shards.
        endpoints: what tickets are made for. `Client.read_splits` uses "splits".
    """

    epoch: SupportsIndex | None
    shard: Shard | Sequence[SupportsIndex] | None
    every: Every | Sequence[SupportsIndex] | None
    limit: SupportsIndex | None
    cursor: Cursor | str | bytes | Sequence[Cursor | list[Cursor] | str | bytes | None] | None
    endpoints: Literal["shards", "splits"] | None
