"""The fields of a query, as editors and type checkers know them.

The server decides what a field may say, and names what it refuses: here stand
the forms that it reads, so that a misspelt field is found before a program runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, SupportsIndex, TypedDict

Cursor = dict[str, Any]
"""Where a stream stands, as the server says it; to be kept, not to be taken apart."""

Column = TypedDict(
    "Column",
    {"column": Required[str], "name": str, "first": int, "last": int, "as": str},
    total=False,
)
"""A column that is not taken as it is: `name` renames it, `first` or `last` keeps so many
elements of its lists, and `as` casts it."""


class Dense(TypedDict, total=False):
    """Columns of numbers that become one column of rows of float32.

    Attributes:
        columns: what is packed, in this order.
        fill: stands in the place of nulls; without it a null ends the stream.
    """

    columns: Required[Sequence[str | Column]]
    fill: float


class Shard(TypedDict, total=False):
    """Which part of the rows one reader gets.

    Attributes:
        index: 0 to of - 1; all shards, if it is left out.
        of: the number of shards, which divides the lanes.
    """

    index: SupportsIndex
    of: SupportsIndex


class Every(TypedDict):
    """Which steps of a shard one of several workers takes.

    Attributes:
        step: 0 to of - 1.
        of: the number of workers.
    """

    step: SupportsIndex
    of: SupportsIndex


class Sample(TypedDict, total=False):
    """Which rows count.

    Attributes:
        hash: the positions in hash space from the first number up to the second.
        by: what is hashed, the first column of the dataset's key or all of them.
        rate: the share of rows that is kept, of those for which `where` holds.
        where: a filter.
    """

    hash: Sequence[float]
    by: Literal["request", "key"]
    rate: float
    where: str


class RunQuery(TypedDict, total=False):
    """The fields that all ranks, workers and epochs of a run say alike. None leaves a field out.

    Attributes:
        columns: names of columns, or columns with another name, length or type; all, if left out.
        dense: by name, the columns of numbers that one column packs.
        filter: the rows that count, in the words of SQL, over all columns of the dataset.
        sample: a part of the rows, the same in every run.
        since: a snapshot of the training table; rows that were appended after it alone.
        snapshots: the pin to read at, as `Plan.pin` has it, or some of its tables, or of a table its snapshot
            alone.
        order: "stored", or "shuffled" by `seed` and `epoch`.
        shuffle: what a shuffled order permutes.
        shuffle_window: within how many stored rows.
        seed: of a shuffled order, without which it is refused.
        lanes: the queues that rows are dealt to; a multiple of every number of shards the run may have. As
            many as shards, if left out.
        batch_rows: rows of a batch; if left out, 8,192, and fewer where they would have more than 64 MiB.
        global_batch_rows: rows of the batches of all shards of one step, instead of `batch_rows`.
        batch_requests: requests of a batch, each with all of its rows, instead of rows.
        tail: "drop" ends all shards at the same step, "keep" gives every row.
        count: "exact" counts rows first where nobody knows their number.
        wire: how batches come from the server. `Client.read` asks for "auto" and makes them plain.
        cache: what the stream may take from caches.
    """

    columns: Sequence[str | Column] | None
    dense: Mapping[str, Sequence[str | Column] | Dense] | None
    filter: str | None
    sample: Sample | Mapping[str, object] | None
    since: SupportsIndex | None
    snapshots: Mapping[str, Any] | None
    order: Literal["stored", "shuffled"] | None
    shuffle: Literal["splits", "requests", "rows"] | None
    shuffle_window: SupportsIndex | None
    seed: SupportsIndex | None
    lanes: SupportsIndex | None
    batch_rows: SupportsIndex | None
    global_batch_rows: SupportsIndex | None
    batch_requests: SupportsIndex | None
    tail: Literal["keep", "drop"] | None
    count: Literal["estimate", "exact"] | None
    wire: Literal["plain", "indexed", "auto", "grouped"] | None
    cache: Literal["off"] | None


class Query(RunQuery, total=False):
    """The fields of a query beside its dataset: those of `penstock.RunQuery`, and what one stream is of it.

    Attributes:
        epoch: of a shuffled order.
        shard: the part of the rows to read, also as a pair (index, of).
        every: the steps of the shard to read, where several workers take turns; as a pair (step, of) too.
        limit: the number of rows after which the stream ends.
        cursor: where to go on, or the cursors of all shards.
        endpoints: what tickets are made for. `Client.read_splits` asks for "splits".
    """

    epoch: SupportsIndex | None
    shard: Shard | Sequence[SupportsIndex] | None
    every: Every | Sequence[SupportsIndex] | None
    limit: SupportsIndex | None
    cursor: Cursor | str | bytes | Sequence[Cursor | list[Cursor] | str | bytes | None] | None
    endpoints: Literal["shards", "splits"] | None
