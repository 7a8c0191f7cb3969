"""Rules for all columns that need one, and their exceptions."""

from __future__ import annotations

import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
import torch

import penstock
from penstock.torch import Batch, Converter, Vocabulary

BATCH = pa.RecordBatch.from_pydict(
    {
        "clicks": pa.array([1, None], pa.int32()),
        "views": pa.array([5, 6], pa.int64()),
        "price": pa.array([None, 0.5], pa.float32()),
        "paid": pa.array([True, False]),
    }
)


def converted(batch: pa.RecordBatch, **rules: Any) -> Batch:
    return Converter(batch.schema, **rules)(batch)


def with_null(name: str) -> pa.RecordBatch:
    """The batch, with a null in another column."""
    place = BATCH.schema.get_field_index(name)
    column = pa.array([None, BATCH.column(name)[1].as_py()], BATCH.schema.field(name).type)
    return BATCH.set_column(place, BATCH.schema.field(name), column)


# spec: tensor-17
def test_an_error_for_all_columns_has_exceptions() -> None:
    convert = Converter(BATCH.schema, nulls={"*": "error", "clicks": 0})
    found = convert(BATCH)
    assert found["clicks"].tolist() == [1, 0]
    assert math.isnan(found["price"][0])
    for name in ("views", "paid"):
        with pytest.raises(penstock.Invalid, match=f"column '{name}' contains a null"):
            convert(with_null(name))
    strict = Converter(BATCH.schema, nulls={"*": 0, "price": "error", "paid": "error"})
    with pytest.raises(penstock.Invalid, match="column 'price' contains a null"):
        strict(BATCH)


# spec: tensor-17
def test_the_rule_of_all_columns_means_the_same_as_a_single_word() -> None:
    for word in ("error", "mask"):
        names = [list(Converter(BATCH.schema, nulls=rule).columns) for rule in (word, {"*": word})]
        assert names[0] == names[1]
    found = converted(BATCH, nulls={"*": "mask", "clicks": -1})
    assert list(found) == ["clicks", "views", "views_mask", "price", "paid", "paid_mask"]
    assert found["clicks"].tolist() == [1, -1]


# spec: tensor-17
def test_a_value_for_all_columns_also_replaces_nan() -> None:
    for rule in (0, {"fill": 0}):
        found = converted(BATCH, nulls={"*": rule, "paid": False})
        assert found["clicks"].tolist() == [1, 0]
        assert found["price"].tolist() == [0, 0.5]
    kept = converted(BATCH, nulls={"*": 0, "paid": False, "price": "nan"})
    assert math.isnan(kept["price"][0])
    with pytest.raises(penstock.Invalid, match=r"'paid': nulls of bool cannot become 0"):
        Converter(BATCH.schema, nulls={"*": 0})
    lists = pa.schema([pa.field("tags", pa.list_(pa.int64())), pa.field("n", pa.int64())])
    with pytest.raises(penstock.Invalid, match="'tags': null lists cannot become 0; use 'empty'"):
        Converter(lists, nulls={"*": 0})
    Converter(lists, nulls={"*": 0, "tags": "empty"})


# spec: tensor-17
def test_decimals_and_strings_have_a_rule_for_all_columns() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "price": pa.array([decimal.Decimal("1.25")], pa.decimal128(9, 2)),
            "tax": pa.array([decimal.Decimal("0.10")], pa.decimal128(9, 2)),
            "country": ["de"],
            "city": ["berlin"],
            "tags": [["a", "b"]],
            "n": pa.array([7], pa.int64()),
        }
    )
    rules: Any = {"nulls": "error", "decimals": {"*": "float64", "tax": "unscaled"}}
    found = converted(batch, **rules, hash={"*": 1000}, vocab={"country": Vocabulary(["fr", "de"])})
    assert (found["price"].item(), found["tax"].item()) == (1.25, 10)
    assert found["country"].item() == 1
    assert found["city"].tolist() == penstock.torch.bucket(pa.array(["berlin"]), 1000).tolist()
    assert found["tags"].values.dtype is torch.int64
    assert found["n"].item() == 7, "numbers need no codes"
    found = converted(batch, **rules, vocab={"*": Vocabulary([], unknown=3)}, hash={"city": 10})
    assert found["country"].item() == 3
    assert found["city"].item() < 10
    with pytest.raises(penstock.Invalid, match="'country', 'city', 'tags': it also has a vocabulary"):
        Converter(batch.schema, **rules, vocab={"*": ["de"]}, hash={"*": 10})


# spec: tensor-17
def test_wrong_rules_for_all_columns_say_what_to_write() -> None:
    with pytest.raises(
        penstock.Invalid,
        match=r"^nulls: 0 cannot be the rule for all columns; write nulls=\{'\*': 0\}, or name columns",
    ):
        Converter(BATCH.schema, nulls=0)  # type: ignore[arg-type]
    with pytest.raises(penstock.Invalid, match=r"hash=\{'\*': rule\}"):
        Converter(BATCH.schema, hash=10)  # type: ignore[arg-type]
    with pytest.raises(penstock.Invalid, match=r"'\*': 'eror' is not a rule for nulls; use 'nan', 'mask'"):
        Converter(BATCH.schema, nulls={"*": "eror"})
    with pytest.raises(
        penstock.Invalid, match=r"^'clicsk': the stream has no such column; did you mean 'clicks'"
    ):
        Converter(BATCH.schema, nulls={"*": "error", "clicsk": 0})
    with pytest.raises(
        penstock.Invalid, match=r"may be null, and there is no rule.*nulls=\{'\*': 'error', name: 0\}"
    ):
        Converter(BATCH.schema)
    others: list[Any] = [{"decimals": {"*": "float32"}}, {"hash": {"*": 10}}, {"vocab": {"*": ["a"]}}]
    for unused in others:
        Converter(BATCH.schema, nulls="error", **unused)
