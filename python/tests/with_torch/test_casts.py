"""Columns that are cast to smaller types, and packed into matrices."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import torch

import penstock
from penstock.torch import Converter, Deduplicated

FLOATS = [0.1, -0.0, 1 / 3, 65504.0, 1e-8, float("inf"), float("nan")]
INTEGERS = [0, -1, 2049, 2051, 65503]


def converted(column: pa.Array, to: str, **rules: Any) -> torch.Tensor:
    batch = pa.record_batch({"c": column})
    found = Converter(batch.schema, cast={"c": to}, **{"nulls": {"c": "error"}, **rules})(batch)["c"]
    assert isinstance(found, torch.Tensor)
    return found


# spec: tensor-18
@pytest.mark.parametrize("to", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "column", [pa.array(FLOATS, pa.float32()), pa.array(FLOATS), pa.array(INTEGERS), pa.array([True, False])]
)
def test_casts_round_as_torch(column: pa.Array, to: str) -> None:
    dtype = getattr(torch, to)
    found = converted(column, to)
    assert found.dtype == dtype
    plain = {pa.float32(): torch.float32, pa.float64(): torch.float64}.get(column.type)
    expected = torch.tensor(column.to_pylist(), dtype=plain).to(torch.float32).to(dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_only_numbers_that_are_whole_become_int32() -> None:
    assert converted(pa.array([7, -8]), "int32").tolist() == [7, -8]
    assert converted(pa.array(["a"]), "int32", vocab={"c": {"a": 12}}).dtype == torch.int32
    with pytest.raises(penstock.Invalid, match="'c': double cannot be cast to 'int32'"):
        converted(pa.array([1.0]), "int32")


# spec: tensor-19
@pytest.mark.parametrize(
    ("column", "to"),
    [
        (pa.array([2**31]), "int32"),
        (pa.array([-(2**31) - 1]), "int32"),
        (pa.array([2**32 - 1], pa.uint32()), "int32"),
        (pa.array([65520]), "float16"),
        (pa.array([1e300]), "float16"),
        (pa.array([3.4e38], pa.float64()), "bfloat16"),
        (pa.array([3.5e38], pa.float64()), "float32"),
    ],
)
def test_a_number_that_does_not_fit_is_invalid(column: pa.Array, to: str) -> None:
    with pytest.raises(penstock.Invalid, match=f"column 'c' contains a number that {to} cannot hold") as e:
        converted(column, to)
    assert "another dtype" in e.value.remedy
    null = pa.array([*column.to_pylist(), None], column.type)
    assert converted(null.slice(1), to, nulls={"c": 1}).tolist() == [1]


def test_what_replaces_nulls_must_fit() -> None:
    with pytest.raises(penstock.Invalid, match="nulls of int64 cannot become 100000"):
        converted(pa.array([1]), "float16", nulls={"c": 100000})


BATCH = pa.record_batch(
    {
        "a": pa.array([1.5, None], pa.float32()),
        "v": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
        "n": pa.array([7, 8], pa.int64()),
        "l": pa.array([[1.0], []], pa.list_(pa.float32())),
    }
)
NULLS: dict[str, Any] = {"a": "mask", "v": 0, "n": "error", "l": "empty"}


# spec: tensor-20
def test_packed_columns_are_one_matrix() -> None:
    rules: Any = {"nulls": NULLS, "pack": {"x": ["v", "n", "a"]}, "cast": {"x": "float16", "n": "float16"}}
    convert = Converter(BATCH.schema, **rules)
    found = convert(BATCH)
    assert list(found) == list(convert.columns) == ["a_mask", "l", "x"]
    assert found["x"].dtype == torch.float16
    assert found["x"].tolist() == [[1, 2, 7, 1.5], [3, 4, 8, 0]]
    assert (convert.columns["x"].width, convert.columns["x"].dtype) == (4, torch.float16)
    assert convert(BATCH.slice(2))["x"].shape == (0, 4)


# spec: tensor-20
def test_columns_of_an_indexed_entry_are_packed_in_it() -> None:
    rows = pa.StructArray.from_arrays([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], ["p", "q"])
    entry = pa.DictionaryArray.from_arrays(pa.array([1, 1, 0], pa.int32()), rows)
    batch = pa.record_batch({"e": entry, "r": pa.array([5.0, 6.0, 7.0])})
    convert = Converter(batch.schema, pack={"x": ["q", "p"]})
    level = convert(batch)["e"]
    assert isinstance(level, Deduplicated)
    assert list(level.keys()) == ["x"]
    assert level.expand()["x"].tolist() == [[4, 2], [4, 2], [3, 1]]
    assert convert.columns["x"].indexed == "e"
    with pytest.raises(penstock.Invalid, match="are not in the same entry of indexed batches"):
        Converter(batch.schema, pack={"x": ["r", "p"]})


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"cast": {"n": "float64"}}, "'n': 'float64' is not a dtype to cast to"),
        ({"cast": {"z": "float16"}}, "'z': the stream has no such column"),
        ({"cast": {"*": "float16"}}, r"'\*': the stream has no such column"),
        ({"pack": {"x": "a"}}, "'x': 'a' is not a list of columns"),
        ({"pack": {"x": []}}, "'x': a pack needs a column"),
        ({"pack": {"x": ["z"]}}, "'x': the stream has no column 'z'"),
        ({"pack": {"x": ["a_mask"]}}, "'x': the stream has no column 'a_mask'"),
        ({"pack": {"x": ["a", "n"]}}, "'a' is float32, but 'n' is int64; cast them"),
        ({"pack": {"x": ["a", "l"]}}, "'l' has lists of different lengths"),
        ({"pack": {"x": ["a", "a"]}}, "'a' is packed twice"),
        ({"pack": {"x": ["a"], "y": ["a"]}}, "'y': 'a' is packed twice"),
        ({"pack": {"n": ["a"]}}, "'n': a column or another pack has this name"),
    ],
)
def test_wrong_casts_and_packs_are_refused(rules: dict[str, Any], expected: str) -> None:
    with pytest.raises(penstock.Invalid, match=expected):
        Converter(BATCH.schema, nulls=NULLS, **rules)
