"""Random schemas, rules, rows and slices: the tensors hold what the rows say, by definition of the rules."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from penstock.torch import Converter, Deduplicated, Jagged

NAN = float("nan")
WORDS = ["", "a", "bb", "zürich", "日本"]
EPOCH = datetime.date(1970, 1, 1)
Value = Callable[[Any], Any]


@dataclass
class Kind:
    """A type, values of it, the number of each value, and what nulls may become, with what that is."""

    arrow: pa.DataType
    draw: Callable[[random.Random], Any]
    number: Value
    zero: Any
    fills: list[tuple[Any, Any]]
    rules: dict[str, Any]


def same(value: Any) -> Any:
    return value


KINDS = [
    Kind(pa.int64(), lambda rng: rng.randrange(-(2**63), 2**63), same, 0, [(7, 7), (-1, -1)], {}),
    Kind(pa.int16(), lambda rng: rng.randrange(-(2**15), 2**15), same, 0, [(5, 5)], {}),
    Kind(pa.float64(), lambda rng: rng.choice([0.5, -0.0, NAN, rng.random()]), same, 0.0, [(1.5, 1.5)], {}),
    Kind(pa.float32(), lambda rng: rng.randrange(1000) / 8, same, 0.0, [("nan", NAN), (2, 2.0)], {}),
    Kind(pa.bool_(), lambda rng: rng.random() < 0.5, same, False, [(True, True)], {}),
    Kind(
        pa.date32(),
        lambda rng: EPOCH + datetime.timedelta(days=rng.randrange(-9000, 9000)),
        lambda day: (day - EPOCH).days,
        0,
        [(-9999, -9999)],
        {},
    ),
    Kind(
        pa.timestamp("us", "UTC"),
        lambda rng: rng.randrange(2**50),
        lambda at: (
            (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
        ),
        0,
        [(0, 0)],
        {},
    ),
    Kind(pa.string(), lambda rng: rng.choice(WORDS), WORDS.index, 0, [({"fill": "bb"}, 2)], {"vocab": WORDS}),
    Kind(
        pa.string(),
        lambda rng: rng.choice(WORDS) * rng.randrange(4),
        BucketTransform(97).transform(StringType()),
        0,
        [({"fill": "x"}, BucketTransform(97).transform(StringType())("x"))],
        {"hash": 97},
    ),
]


@dataclass
class Drawn:
    """A column: its values, its rules, what its entries in the batch must be, and those of a null."""

    array: pa.Array
    rules: dict[str, dict[str, Any]]
    expected: dict[str, list[Any]]
    missing: dict[str, Any]


def drawn(rng: random.Random, name: str, rows: int) -> Drawn:
    kind, holes = rng.choice(KINDS), rng.choice([0, 0.3, 1])
    rules: dict[str, dict[str, Any]] = {rule: {name: value} for rule, value in kind.rules.items()}
    rule, instead = rng.choice([*kind.fills, ("mask", kind.zero)])

    def some(rng: random.Random) -> Any:
        return None if rng.random() < holes else kind.draw(rng)

    form = rng.choice(["values", "lists", "fixed"])
    missing: Any = instead
    if form == "values":
        array = pa.array([some(rng) for _ in range(rows)], kind.arrow)
        expected = [instead if value is None else kind.number(value) for value in array.to_pylist()]
        rules["nulls"] = {name: rule}
    else:
        width, most = rng.randrange(1, 4), rng.randrange(1, 6)
        inner, within = rng.choice(kind.fills)
        lists = [
            None
            if rng.random() < holes
            else [some(rng) for _ in range(width if form == "fixed" else rng.randrange(most))]
            for _ in range(rows)
        ]
        of = (
            pa.list_(kind.arrow, width)
            if form == "fixed"
            else rng.choice([pa.list_, pa.large_list])(kind.arrow)
        )
        array = pa.array(lists, of)
        if form == "lists":
            rule, missing = rng.choice([("empty", []), ("mask", [])])
        else:
            missing = [instead] * width
        rules["nulls"] = {name: rule, f"{name}[]": inner}
        expected = [
            missing if row is None else [within if value is None else kind.number(value) for value in row]
            for row in array.to_pylist()
        ]
    entries, nothing = {name: expected}, {name: missing}
    if rule == "mask":
        entries[f"{name}_mask"] = [value is not None for value in array.to_pylist()]
        nothing[f"{name}_mask"] = False
    return Drawn(array, rules, entries, nothing)


def listed(found: Any) -> list[Any]:
    return [row.tolist() for row in found] if isinstance(found, Jagged) else found.tolist()


def equal(left: Any, right: Any) -> bool:
    """Equality of type and value; a NaN is itself, and so is each zero."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return type(left) is type(right) and bool(left == right)


def merged(columns: list[Drawn]) -> dict[str, Any]:
    rules: dict[str, dict[str, Any]] = {}
    for column in columns:
        for rule, given in column.rules.items():
            rules.setdefault(rule, {}).update(given)
    return rules


# spec: tensor-6, tensor-7, tensor-9
@pytest.mark.parametrize("seed", range(60))
def test_tensors_have_the_values_of_the_rows(seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.choice([0, 1, 2, 9, 70])
    columns = [drawn(rng, f"c{i}", rows) for i in range(rng.randrange(1, 6))]
    names = [f"c{i}" for i in range(len(columns))]
    batch = pa.RecordBatch.from_arrays([column.array for column in columns], names)
    convert = Converter(batch.schema, **merged(columns))
    start = rng.randrange(rows + 1)
    for first, last in ((0, rows), (start, rng.randrange(start, rows + 1))):
        found = convert(batch.slice(first, last - first))
        expected = {name: values for column in columns for name, values in column.expected.items()}
        assert list(found) == list(expected)
        for name, values in expected.items():
            assert equal(listed(found[name]), values[first:last]), name


# spec: tensor-12
@pytest.mark.parametrize("seed", range(40))
def test_distinct_rows_have_the_right_values(seed: int) -> None:
    rng = random.Random(seed)
    distinct, rows = rng.choice([1, 3, 20]), rng.choice([0, 1, 50])
    columns = [drawn(rng, f"c{i}", distinct) for i in range(rng.randrange(1, 5))]
    unmatched = [rng.random() < 0.2 for _ in range(distinct)]
    structs = pa.StructArray.from_arrays(
        [column.array for column in columns],
        [f"c{i}" for i in range(len(columns))],
        mask=pa.array(unmatched),
    )
    inverse = [rng.randrange(distinct) for _ in range(rows)]
    column = pa.DictionaryArray.from_arrays(pa.array(inverse, pa.int32()), structs)
    batch = pa.RecordBatch.from_arrays([column, pa.array([1.0] * rows, pa.float64())], ["s", "x"])
    convert = Converter(batch.schema, **merged(columns))
    found = convert(batch)
    level = found["s"]
    assert isinstance(level, Deduplicated)
    assert level.rows == distinct
    assert level.inverse.tolist() == inverse
    expected = {
        name: [column.missing[name] if no else value for value, no in zip(values, unmatched, strict=True)]
        for column in columns
        for name, values in column.expected.items()
    }
    assert list(level.keys()) == list(expected)
    for name, values in expected.items():
        assert convert.columns[name].indexed == "s"
        assert equal(listed(level[name]), values), name
        assert equal(listed(found.expand()[name]), [values[at] for at in inverse]), name
    start = rng.randrange(rows + 1)
    part = convert(batch.slice(start)).expand()
    for name, values in expected.items():
        assert equal(listed(part[name]), [values[at] for at in inverse[start:]]), name
