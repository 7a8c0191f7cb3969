"""The values of the tables, which follow from row numbers, and the check of batches against them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEYS = 60_000
ROWS = {"home": 24_000, "other": 12_000, "sql": 12_000}  # of the training table of each dataset
LENGTH = 64  # the lists of a key have 0 to 4 times as many values

HISTORY = pa.schema({"key": pa.int64(), "history": pa.list_(pa.int64())})
FIXED = pa.schema({"key": pa.int64(), "score": pa.float64()})


def training(first: int, end: int) -> pa.Table:
    """Rows of a training table, by their numbers. Every fiftieth row has no key."""
    row = np.arange(first, end, dtype=np.int64)
    return pa.table(
        {
            "row": row,
            "key": pa.array(_keys(row), mask=row % 50 == 7),
            "label": pa.array((row % 3).astype(np.int32)),
            "score": row * 0.5,
        }
    )


def history() -> pa.Table:
    """A list for every third key, which is null for every ninth."""
    rows = [
        {"key": k, "history": None if k % 9 == 0 else list(range(k, k + k % 5 * LENGTH))}
        for k in range(0, KEYS, 3)
    ]
    return pa.Table.from_pylist(rows, HISTORY)


def fixed() -> pa.Table:
    """A score for every other key, which replaces that of the training table. It is null for every fourteenth."""
    rows = [{"key": k, "score": None if k % 14 == 0 else -float(k)} for k in range(0, KEYS, 2)]
    return pa.Table.from_pylist(rows, FIXED)


def _keys(row: Any) -> Any:
    return row * 7919 % KEYS


def wrong(batch: pa.RecordBatch | pa.Table) -> str:
    """Describes the first column of joined rows that has a wrong value; "" if all values are right."""
    row = batch["row"].to_numpy(zero_copy_only=False)
    key, known = _keys(row), row % 50 != 7
    if not _same(batch["key"], key, known):
        return "key"
    if not _same(batch["label"], row % 3, row >= 0):
        return "label"
    over = known & (key % 2 == 0)
    if not _same(batch["score"], np.where(over, -key, row * 0.5), ~(over & (key % 14 == 0))):
        return "score"
    listed = known & (key % 3 == 0) & (key % 9 != 0)
    lists = batch["history"]
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    if not np.array_equal(lists.is_valid().to_numpy(zero_copy_only=False), listed):
        return "history: nulls"
    lengths = np.where(listed, key % 5 * LENGTH, 0)
    if not np.array_equal(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False), lengths):
        return "history: lengths"
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    values = np.repeat(key, lengths) + np.arange(lengths.sum()) - starts
    return "" if np.array_equal(lists.flatten().to_numpy(zero_copy_only=False), values) else "history: values"


def _same(column: Any, values: Any, valid: Any) -> bool:
    got = column.fill_null(0).to_numpy(zero_copy_only=False)
    nulls = column.is_valid().to_numpy(zero_copy_only=False)
    return bool(np.array_equal(nulls, valid) and np.array_equal(got[valid], values[valid]))
