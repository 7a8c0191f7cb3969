"""What a converter promises of all columns: types, memory, and the schema of its batches."""

from __future__ import annotations

import decimal
import gc
import pickle
import warnings
import weakref
from typing import Any

import pyarrow as pa
import pytest
from converted import batch_of, kind, listed

import penstock
from penstock.torch import Converter


# spec: tensor-8
def test_null_in_a_non_nullable_column_is_corrupt() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])
    convert = Converter(schema, nulls={"b": "error"})
    good, bad = pa.array([1, 2]), pa.array([1, None])
    with pytest.raises(penstock.Corrupt, match="'a' contains a null, which its schema excludes"):
        convert(pa.RecordBatch.from_arrays([bad, good], schema=schema))
    with pytest.raises(
        penstock.Invalid, match=r"'b' contains a null; say what it becomes: nulls={'b': value}"
    ):
        convert(pa.RecordBatch.from_arrays([good, bad], schema=schema))


# spec: tensor-8
@pytest.mark.parametrize("indices", [[0, 2], [-1, 0], [2**31 - 1, 0], [0, None]])
def test_references_out_of_range_are_refused(indices: list[int | None]) -> None:
    rows = pa.array([{"x": 1.0}, {"x": 2.0}])
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), rows, safe=False)
    convert = Converter(pa.schema({"s": column.type}))
    with pytest.raises(
        penstock.Corrupt, match="column 's' refers to rows that are not among the 2 it came with"
    ):
        convert(pa.RecordBatch.from_arrays([column], ["s"]))


# spec: tensor-1, tensor-7
def test_types_do_not_depend_on_the_values() -> None:
    schema = pa.schema(
        {"n": pa.int64(), "x": pa.float32(), "b": pa.bool_(), "l": pa.list_(pa.float64()), "s": pa.string()}
    )
    convert = Converter(schema, nulls="mask", hash={"s": 10})
    rows: list[list[dict[str, Any]]] = [
        [],
        [{"n": 1, "x": 1.0, "b": True, "l": [1.0], "s": "a"}],
        [{}, {}],
        [{"n": 2**60, "x": None, "b": None, "l": [], "s": ""}] * 5,
    ]
    found = [convert(pa.RecordBatch.from_pylist(some, schema)) for some in rows]
    for one, some in zip(found, rows, strict=True):
        assert {name: kind(value) for name, value in one.items()} == {
            name: kind(value) for name, value in found[0].items()
        }
        assert one.rows == len(some)
        assert list(one) == list(convert.columns)


def test_batch_with_a_different_schema_is_refused() -> None:
    convert = Converter(pa.schema({"c": pa.int64()}), nulls="error")
    with pytest.raises(penstock.Invalid, match="a different schema"):
        convert(batch_of(c=pa.array([1], pa.int32())))
    with pytest.raises(penstock.Invalid, match="a different schema"):
        convert(batch_of(d=pa.array([1])))


# spec: tensor-2
def test_tensors_keep_their_memory_and_nothing_else() -> None:
    gc.collect()  # what earlier tests left
    pool = pa.total_allocated_bytes()
    column = pa.array(range(100_000), pa.int64())
    lists = pa.array([[i, i + 1] for i in range(100_000)])
    batch = batch_of(c=column, l=lists)
    watched = weakref.ref(batch)
    found = Converter(batch.schema, nulls="error")(batch)
    kept, values = found["c"], found["l"].values
    del batch, column, lists, found
    gc.collect()
    assert watched() is None
    assert kept.tolist() == list(range(100_000))
    assert values.sum().item() == sum(2 * i + 1 for i in range(100_000))
    del kept
    assert (
        pa.total_allocated_bytes() < pool + 2_100_000
    )  # the 200,000 values of the lists, and no more than rounding
    del values
    assert pa.total_allocated_bytes() == pool


def test_memory_that_cannot_be_written_gives_no_warning() -> None:
    sent = batch_of(c=pa.array([1, 2, 3]), x=pa.array([1.0, None, 2.0]), b=pa.array([True, None, False]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sent.schema) as writer:
        writer.write_batch(sent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [received] = pa.ipc.open_stream(sink.getvalue())
        found = Converter(received.schema, nulls={"c": 0, "b": False})(received)
    assert found["c"].tolist() == [1, 2, 3]
    assert found["b"].tolist() == [True, False, False]


def test_converter_can_be_pickled() -> None:
    schema = pa.schema(
        {"s": pa.string(), "t": pa.string(), "l": pa.list_(pa.int64()), "p": pa.decimal128(9, 2)}
    )
    convert = Converter(schema, nulls="mask", vocab={"s": ["a"]}, hash={"t": 99}, decimals={"p": "unscaled"})
    again = pickle.loads(pickle.dumps(convert))
    batch = pa.RecordBatch.from_pylist([{"s": "a", "t": "b", "l": [1], "p": decimal.Decimal("1.25")}], schema)
    assert {k: listed(v) for k, v in again(batch).items()} == {
        k: listed(v) for k, v in convert(batch).items()
    }
    assert again.columns == convert.columns


def test_batch_has_cursor_and_step() -> None:
    found = Converter(pa.schema({"x": pa.float32()}))(
        batch_of(x=pa.array([1.0], pa.float32())), cursor={"v": 1}, step=4
    )
    assert (found.cursor, found.step, found.rows) == ({"v": 1}, 4, 1)
