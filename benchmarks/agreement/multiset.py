"""Compares tables as multisets of rows, exactly, regardless of row order.

A row is hashed with all of its columns; two tables are equal if the sorted
hashes are. Nothing is rounded: floats count with their bits. A row that differs
goes unseen with a chance of 1 in 2**64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Batches = Callable[[], Iterator[pa.RecordBatch]]

_EXAMPLES = 3
_FLOATS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


class DifferentColumnsError(Exception):
    """Two tables have different columns, or types that cannot hold each other's values."""


def rows_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> npt.NDArray[np.uint64]:
    """The sorted hashes of all rows.

    The columns must have the schema's names, in its order; values are cast to
    its types, which fails where one would change.
    """
    hashes = [hash_rows(conform(schema, batch)) for batch in batches]
    if not hashes:
        return np.zeros(0, np.uint64)
    return np.sort(np.concatenate(hashes))


def conform(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the schema's types."""
    if batch.schema.names != schema.names:
        raise DifferentColumnsError(f"columns {batch.schema.names} instead of {schema.names}")
    columns = []
    for field, values in zip(schema, batch.columns, strict=True):
        try:
            columns.append(values.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as failed:
            raise DifferentColumnsError(
                f"column {field.name}: {values.type} instead of {field.type}: {failed}"
            ) from None
    return pa.record_batch(columns, names=schema.names)


def hash_rows(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """A hash of each row, the same for equal rows within one process."""
    columns = [_bits(values) for values in batch.columns]
    frame = pl.from_arrow(pa.table(columns, names=batch.schema.names))
    if not isinstance(frame, pl.DataFrame):
        raise TypeError("a table is a frame")
    hashes: npt.NDArray[np.uint64] = frame.hash_rows(seed=1).to_numpy()
    return hashes


def _bits(values: pa.Array) -> pa.Array:
    """Floats as the integers of the same bits: -0.0 is not 0.0, and NaN is itself."""
    if whole := _FLOATS.get(values.type):
        return values.view(whole)
    if pa.types.is_nested(values.type) and pa.types.is_floating(values.type.value_type):
        raise TypeError(f"{values.type}: floats in lists would not be compared bit for bit")
    return values


def only_in(rows: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64]) -> dict[int, int]:
    """The hashes that are more frequent in `rows` than in `others`, and the difference."""
    values, counts = np.unique(rows, return_counts=True)
    other_values, other_counts = np.unique(others, return_counts=True)
    places = np.searchsorted(other_values, values)
    inside = places < len(other_values)
    same = np.zeros(len(values), bool)
    same[inside] = other_values[places[inside]] == values[inside]
    less = np.zeros(len(values), np.int64)
    less[same] = other_counts[places[same]]
    surplus = counts - less
    chosen = surplus > 0
    return dict(zip(values[chosen].tolist(), surplus[chosen].tolist(), strict=True))


def describe(name: str, schema: pa.Schema, batches: Batches, surplus: dict[int, int]) -> list[str]:
    """Lines that show a few of the rows that only one table has; reads it again."""
    lines = [f"{sum(surplus.values())} rows only in {name}"]
    for batch in batches():
        same = conform(schema, batch)
        for place in np.flatnonzero(np.isin(hash_rows(same), np.array(list(surplus), np.uint64))):
            lines.append(f"  {same.slice(place, 1).to_pylist()[0]}")
            if len(lines) > _EXAMPLES:
                return lines
    return lines
