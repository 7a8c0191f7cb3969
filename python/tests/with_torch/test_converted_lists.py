"""What lists become as tensors."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
import torch
from converted import converted, listed, same

import penstock
from penstock.torch import Converter

LISTS = [[1, 2], [], None, [3], [4, 5, 6], [], None]


@pytest.mark.parametrize("of", [pa.list_, pa.large_list])
def test_lists_are_values_and_offsets(of: Any) -> None:
    column = pa.array(LISTS, of(pa.int64()))
    found = converted(column, nulls={"c": "empty"})["c"]
    assert listed(found) == [row or [] for row in LISTS]
    assert found.offsets.dtype == (torch.int32 if of is pa.list_ else torch.int64)
    assert found.lengths.tolist() == [len(row or []) for row in LISTS]
    masked = converted(column, nulls={"c": "mask"})
    assert listed(masked["c_mask"]) == [row is not None for row in LISTS]
    assert listed(masked["c"]) == listed(found)


# spec: tensor-2
def test_lists_without_nulls_are_views() -> None:
    column = pa.array([[1, 2], [], [3]], pa.list_(pa.int64()))
    found = converted(column, nulls={"c": "error"})["c"]
    assert found.values.data_ptr() == column.values.buffers()[1].address
    assert found.offsets.data_ptr() == column.buffers()[1].address


# spec: tensor-8
def test_lists_of_grouped_batches_need_no_rule_but_for_their_elements() -> None:
    items = pa.field("item", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)
    labels = pa.field("label", pa.list_(pa.field("element", pa.int32())), nullable=False)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([[1, 2], [3]], items.type), pa.array([[0, None], [1]], labels.type)],
        schema=pa.schema([items, labels]),
    )
    found = Converter(batch.schema, nulls={"label[]": -1})(batch)
    assert (listed(found["item"]), listed(found["label"])) == ([[1, 2], [3]], [[0, -1], [1]])
    with pytest.raises(penstock.Invalid, match=r"'label\[\]' contains a null; say what it becomes"):
        Converter(batch.schema)(batch)


# spec: tensor-5
def test_values_under_a_null_list_are_ignored() -> None:
    values, offsets = pa.array([1, None, 3, 4]), pa.array([0, 1, 3, 4], pa.int32())
    column = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))
    found = converted(column, nulls={"c": "empty"})
    assert listed(found["c"]) == [[1], [], [4]]


@pytest.mark.parametrize("width", [1, 3])
def test_fixed_size_lists_have_two_dimensions(width: int) -> None:
    rows = [[float(10 * row + i) for i in range(width)] for row in range(6)]
    column = pa.array(rows, pa.list_(pa.float32(), width))
    found = converted(column)["c"]
    assert found.shape == (6, width)
    assert found.tolist() == rows
    assert found.data_ptr() == column.values.buffers()[1].address
    holes: list[Any] = [rows[0], None, [None] * width, rows[3]]
    column = pa.array(holes, pa.list_(pa.float32(), width))
    nan = [math.nan] * width
    assert same(listed(converted(column)["c"]), [rows[0], nan, nan, rows[3]])
    filled = converted(column, nulls={"c": 7, "c[]": 8})
    assert same(listed(filled["c"]), [rows[0], [7.0] * width, [8.0] * width, rows[3]])
    masked = converted(column, nulls={"c": "mask", "c[]": 0})
    assert same(listed(masked["c"]), [rows[0], [0.0] * width, [0.0] * width, rows[3]])
    assert listed(masked["c_mask"]) == [True, False, True, True]


# spec: tensor-5
def test_values_under_a_null_row_are_ignored() -> None:
    elements = pa.array(["a", "b", "?", None, "b", "b"])
    column = pa.FixedSizeListArray.from_arrays(elements, 2, mask=pa.array([False, True, False]))
    found = converted(column, vocab={"c": ["a", "b"]}, nulls={"c": {"fill": "b"}, "c[]": "error"})
    assert listed(found["c"]) == [[0, 1], [1, 1], [1, 1]]


def test_dense_columns_are_views() -> None:
    element = pa.field("element", pa.float32(), nullable=False)
    kind = pa.list_(element, 4)
    column = pa.FixedSizeListArray.from_arrays(
        pa.array([float(i) for i in range(12)], pa.float32()), type=kind
    )
    batch = pa.RecordBatch.from_arrays([column], schema=pa.schema([pa.field("c", kind, nullable=False)]))
    found = Converter(batch.schema)(batch.slice(1))["c"]
    assert found.tolist() == [[4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]
    assert found.data_ptr() == column.values.buffers()[1].address + 16


# spec: tensor-5
def test_fixed_size_lists_of_extension_types_may_be_null() -> None:
    elements = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 2, 3, 4], pa.int8()))
    kind = pa.list_(elements.type, 2)
    lists = pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\x02")], children=[elements])
    batch = pa.record_batch({"c": lists})
    found = Converter(batch.schema, nulls={"c": 7, "c[]": 0})(batch)
    assert found["c"].tolist() == [[7, 7], [3, 4]]


# spec: tensor-5
@pytest.mark.parametrize("text", [pa.string(), pa.string_view()])
@pytest.mark.parametrize("extension", [False, True])
def test_elements_of_null_lists_are_left_out(text: pa.DataType, extension: bool) -> None:
    words = ["a", "a word of more than twelve bytes", "hidden", "another one of more than twelve bytes"]
    kind = pa.list_(pa.opaque(text, "word", "tests") if extension else text)
    offsets = pa.array([0, 2, 3, 4], pa.int32()).buffers()[1]
    values = pa.array(words, pa.string()).cast(text)
    if extension:
        values = pa.ExtensionArray.from_storage(kind.value_type, values)
    lists = pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x05"), offsets], children=[values])
    batch = pa.record_batch({"c": lists})
    vocabulary = [word for word in words if word != "hidden"]
    found = Converter(batch.schema, nulls={"c": "empty", "c[]": "error"}, vocab={"c": vocabulary})(batch)["c"]
    assert [row.tolist() for row in found] == [[0, 1], [], [2]]
