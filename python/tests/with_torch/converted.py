"""The tensors of a column, compared with plain Python values."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from penstock.torch import Batch, Converter, Jagged


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def converted(column: pa.Array, **rules: Any) -> Batch:
    """The tensors of a column `c`: whole, and in slices that begin anywhere, put together again."""
    batch = pa.RecordBatch.from_arrays([column], ["c"])
    convert = Converter(batch.schema, **rules)
    whole = convert(batch)
    for start in range(len(column) + 1):
        part = convert(batch.slice(start, 3))
        assert part.keys() == whole.keys()
        for name, found in part.items():
            assert kind(found) == kind(whole[name])
            assert same(listed(found), listed(whole[name])[start : start + 3])
    return whole


def kind(found: Any) -> Any:
    if isinstance(found, Jagged):
        return "jagged", found.values.dtype, found.offsets.dtype
    return found.dtype, found.shape[1:]


def listed(found: Any) -> list[Any]:
    if isinstance(found, Jagged):
        assert int(found.offsets[0]) == 0
        assert int(found.offsets[-1]) == len(found.values)
        return [found[row].tolist() for row in range(len(found))]
    return found.tolist()


def same(left: Any, right: Any) -> bool:
    """Equality in which a NaN is itself."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return type(left) is type(right) and bool(left == right)
