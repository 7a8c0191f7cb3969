"""Rules that a converter refuses, and columns that lack one."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.torch import Converter

FIELDS = pa.schema(
    {
        "n": pa.int64(),
        "m": pa.int32(),
        "text": pa.string(),
        "tags": pa.list_(pa.string()),
        "price": pa.decimal128(30, 2),
        "s": pa.struct({"x": pa.int64()}),
        "pairs": pa.map_(pa.string(), pa.int64()),
        "deep": pa.list_(pa.list_(pa.int64())),
        "x": pa.float32(),
        "raw": pa.binary(),
    }
)


@pytest.mark.parametrize(
    ("columns", "rules", "expected"),
    [
        (["n", "m"], {}, r"^'n', 'm': may be null, and there is no rule .*; add one, such as nulls="),
        (["n"], {"nulls": {"n": 0.5}}, r"'n': nulls of int64 cannot become 0\.5"),
        (["n"], {"nulls": {"n": True}}, "cannot become True"),
        (["m"], {"nulls": {"m": 2**40}}, "cannot become 1099511627776"),
        (["n"], {"nulls": {"n": "nan"}}, "cannot become 'nan'"),
        (["n"], {"nulls": {"n": "maks"}}, "'maks' is not a rule for nulls; use 'nan', 'mask'"),
        (["x"], {"nulls": {"x": 1e300}}, r"cannot become 1e\+300"),
        (["x"], {"nulls": {"x": "empty"}}, "cannot become 'empty'"),
        (["n"], {"nulls": "nan"}, "'nan' cannot be the rule for all columns"),
        (["n"], {"nulls": {"n": 0, "m": 0}}, r"'m': the stream has no such column; the stream has 'n'$"),
        (["text"], {"nulls": "mask"}, "'text': string cannot be a tensor without codes; add vocab="),
        (["raw"], {"nulls": "mask"}, "'raw': binary cannot be a tensor without codes"),
        (["text"], {"nulls": {"text": {"fill": "b"}}, "vocab": {"text": ["a"]}}, "'b', which replaces nulls"),
        (["text"], {"nulls": "mask", "vocab": {"text": [1]}}, "contains a value that is not string"),
        (["text"], {"nulls": "mask", "vocab": {"text": ["a", "a"]}}, "contains a value twice"),
        (["text"], {"nulls": "mask", "vocab": {"text": "ab"}}, "a vocabulary must be a list of values"),
        (["text"], {"nulls": "mask", "vocab": {"text": {"a": -1}}}, "the code -1"),
        (["text"], {"nulls": "mask", "hash": {"text": 0}}, "0 is not a number of buckets"),
        (["text"], {"nulls": "mask", "hash": {"text": 5}, "vocab": {"text": ["a"]}}, "also has a vocabulary"),
        (["x"], {"hash": {"x": 5}}, "'x': float cannot be encoded"),
        (["tags"], {"nulls": {"tags": 0}, "hash": {"tags": 9}}, "null lists cannot become 0"),
        (["tags"], {"nulls": {"tags": "empty", "tags[]": "mask"}, "hash": {"tags": 9}}, "cannot have a mask"),
        (["price"], {"nulls": "mask"}, "'price': decimal needs a rule to become a tensor"),
        (["price"], {"nulls": "mask", "decimals": {"price": "unscaled"}}, "may not fit into an int64"),
        (["price"], {"decimals": {"price": "double"}}, "'double' is not a form of decimals"),
        (["n"], {"nulls": "mask", "decimals": {"n": "float64"}}, "'n': int64 does not support this rule"),
        (["s"], {"nulls": "mask"}, "'s': struct<x: int64> cannot be a tensor; leave it out"),
        (["pairs"], {}, "'pairs': map<string, int64> cannot be a tensor"),
        (["deep"], {"nulls": {"deep": "empty"}}, r"'deep': list<.*> cannot be a tensor"),
    ],
)
def test_unsupported_columns_are_refused_by_name(
    columns: list[str], rules: dict[str, Any], expected: str
) -> None:
    schema = pa.schema([FIELDS.field(name) for name in columns])
    with pytest.raises(penstock.Invalid, match=expected) as refused:
        Converter(schema, **rules)
    if rules.get("nulls") != "nan":
        assert refused.value.faults


# spec: tensor-4
def test_all_mistakes_are_reported_together() -> None:
    with pytest.raises(penstock.Invalid) as refused:
        Converter(FIELDS)
    named = {fault.field for fault in refused.value.faults}
    assert named == {
        "nulls['n']",
        "nulls['m']",
        "vocab['text']",
        "vocab['tags']",
        "decimals['price']",
        "columns['s']",
        "columns['pairs']",
        "columns['deep']",
        "vocab['raw']",
    }
    assert "; 'deep': list<item: int64> cannot be a tensor (leave it out of `columns`, " in str(refused.value)


def test_rules_that_do_not_exist_are_refused() -> None:
    with pytest.raises(TypeError, match="no rules 'null', only nulls, vocab"):
        Converter(FIELDS, null={"n": 0})  # type: ignore[call-arg]


def test_two_entries_of_one_name_are_refused() -> None:
    with pytest.raises(
        penstock.Invalid, match="'c_mask': two columns, or a column and a mask, have this name"
    ):
        Converter(pa.schema({"c": pa.int64(), "c_mask": pa.float32()}), nulls={"c": "mask"})


@pytest.mark.parametrize(
    ("rule", "name", "near"),
    [
        ("nulls", "itme_id", "Item_ID"),
        ("hash", "item_id", "Item_ID"),
        ("nulls", "tgas[]", "tags[]"),
        ("vocab", "Tags", "tags"),
        ("decimals", "zzz", ""),
    ],
)
def test_misspelled_column_of_a_rule_suggests_the_nearest_name(rule: str, name: str, near: str) -> None:
    required = [pa.field("Item_ID", pa.int64(), nullable=False), pa.field("tags", pa.list_(pa.int64()))]
    with pytest.raises(
        penstock.Invalid, match=f"{re.escape(repr(name))}: the stream has no such column"
    ) as e:
        rules: Any = {"nulls": {"tags": "empty", "tags[]": 0}, rule: {name: 1}}
        Converter(pa.schema(required), **rules)
    [fault] = [f for f in e.value.faults if f.field == f"{rule}[{name!r}]"]
    assert fault.nearest == near
    assert (f"did you mean {near!r}?" if near else "the stream has 'Item_ID', 'tags'") in str(e.value)
