"""What strings, and integers with a vocabulary, become as codes."""

from __future__ import annotations

import pyarrow as pa
import pytest
import torch
from converted import batch_of, converted, listed

import penstock
from penstock.torch import Converter, Vocabulary

TEXT = ["de", "jp", None, "de", "", "zürich", "jp"]


# spec: tensor-9, tensor-11
@pytest.mark.parametrize(
    "arrow", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_strings_are_codes_of_a_vocabulary(arrow: pa.DataType) -> None:
    column = pa.array(TEXT, pa.string())
    column = column.dictionary_encode().cast(arrow) if pa.types.is_dictionary(arrow) else column.cast(arrow)
    values = ["", "de", "jp", "zürich"]
    found = converted(column, vocab={"c": values}, nulls={"c": {"fill": "jp"}})
    assert found["c"].dtype == torch.int64
    assert listed(found["c"]) == [values.index("jp" if text is None else text) for text in TEXT]
    given = converted(column, vocab={"c": Vocabulary({"de": 5, "jp": 3}, unknown=9)}, nulls="mask")
    assert listed(given["c"]) == [5, 3, 0, 5, 9, 9, 3]
    assert listed(given["c_mask"]) == [text is not None for text in TEXT]


def test_a_large_vocabulary_gives_the_same_codes() -> None:
    values = [f"v{i}" for i in range(1000)]
    column = pa.array(["v7", None, "v999", "v7", "?"])
    vocabulary = Vocabulary(values, unknown=1000)
    found = converted(column, vocab={"c": vocabulary}, nulls={"c": {"fill": "v1"}})
    assert listed(found["c"]) == [7, 1, 999, 7, 1000]
    assert vocabulary.size == 1001
    many = pa.array([values[(i * 7) % 1000] for i in range(5000)])
    convert = Converter(pa.schema({"c": pa.string()}), vocab={"c": vocabulary}, nulls="error")
    assert listed(convert(batch_of(c=many))["c"]) == [(i * 7) % 1000 for i in range(5000)]


# spec: tensor-11
@pytest.mark.parametrize("rows", [3, 3000])
def test_values_outside_of_a_vocabulary(rows: int) -> None:
    convert = Converter(
        pa.schema({"c": pa.string()}), vocab={"c": [f"v{i}" for i in range(100)]}, nulls="error"
    )
    with pytest.raises(penstock.Invalid, match=r"'c' contains values .*: 'x', 'y'; .*unknown=code"):
        convert(batch_of(c=["v1", "x", "y"] * (rows // 3)))


# spec: tensor-8
def test_lists_of_strings_are_lists_of_codes() -> None:
    rows = [["a", None], [], None, ["b", "a"]]
    found = converted(pa.array(rows), vocab={"c": ["b", "a"]}, nulls={"c": "empty", "c[]": {"fill": "b"}})
    assert listed(found["c"]) == [[1, 0], [], [], [0, 1]]
    convert = Converter(pa.schema({"c": pa.list_(pa.string())}), vocab={"c": ["b", "a"]}, nulls="mask")
    assert convert.columns["c"] == penstock.torch.Column("c", torch.int64, jagged=True, codes=2)
    with pytest.raises(penstock.Invalid, match=r"'c\[\]' contains a null"):
        convert(batch_of(c=rows))


def test_integers_have_codes_too() -> None:
    column = pa.array([10**12, -1, None, 10**12], pa.int64())
    found = converted(column, vocab={"c": {10**12: 1, -1: 0}}, nulls={"c": {"fill": -1}})
    assert listed(found["c"]) == [1, 0, 0, 1]


# spec: tensor-7
def test_a_mask_is_false_where_the_dictionary_has_a_null() -> None:
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int8()), pa.array([5, None], pa.int64())
    )
    batch = pa.record_batch({"c": values})
    found = Converter(batch.schema, nulls={"c": "mask"})(batch)
    assert found["c"].tolist() == [5, 0, 0]
    assert found["c_mask"].tolist() == [True, False, False]
