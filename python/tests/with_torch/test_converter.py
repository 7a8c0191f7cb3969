"""What columns become as tensors, beside the values of the batch in plain Python."""

from __future__ import annotations

import datetime
import decimal
import gc
import math
import pickle
import re
import warnings
import weakref
from typing import Any

import pyarrow as pa
import pytest
import torch

import penstock
from penstock.torch import Batch, Converter, Jagged, Vocabulary


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


NUMBERS: list[tuple[pa.DataType, torch.dtype]] = [
    (pa.int8(), torch.int8),
    (pa.int16(), torch.int16),
    (pa.int32(), torch.int32),
    (pa.int64(), torch.int64),
    (pa.uint8(), torch.uint8),
    (pa.uint16(), torch.uint16),
    (pa.uint32(), torch.uint32),
    (pa.uint64(), torch.uint64),
    (pa.float16(), torch.float16),
    (pa.float32(), torch.float32),
    (pa.float64(), torch.float64),
]


# spec: tensor-2
@pytest.mark.parametrize(("arrow", "dtype"), NUMBERS)
def test_numbers_are_views(arrow: pa.DataType, dtype: torch.dtype) -> None:
    column = pa.array([1, 2, 3, 100, 0], pa.int64()).cast(arrow)
    found = converted(column, nulls="error")["c"]
    assert found.dtype == dtype
    assert found.tolist() == column.to_pylist()
    address, width = column.buffers()[1].address, arrow.bit_width // 8
    assert found.data_ptr() == address
    convert = Converter(pa.schema({"c": arrow}), nulls="error")
    part = pa.RecordBatch.from_arrays([column.slice(2)], ["c"])
    assert convert(part)["c"].data_ptr() == address + 2 * width


@pytest.mark.parametrize(("arrow", "dtype"), NUMBERS)
def test_nulls_of_numbers(arrow: pa.DataType, dtype: torch.dtype) -> None:
    column = pa.array([1, None, 3, None, 5], pa.int64()).cast(arrow)
    zero, one = (0.0, 1.0) if dtype.is_floating_point else (0, 1)
    there = [True, False, True, False, True]
    filled = converted(column, nulls={"c": 7})
    assert same(listed(filled["c"]), [one, 7 * one, 3 * one, 7 * one, 5 * one])
    assert list(filled) == ["c"]
    masked = converted(column, nulls={"c": "mask"})
    assert same(listed(masked["c"]), [one, zero, 3 * one, zero, 5 * one])
    assert same(listed(masked["c_mask"]), there)
    if dtype.is_floating_point:
        assert same(listed(converted(column)["c"]), [1.0, math.nan, 3.0, math.nan, 5.0])
        assert same(listed(converted(column, nulls={"c": "nan"})["c"])[1], math.nan)


def test_booleans_are_unpacked() -> None:
    values = [True, False, False, True, None, True, False, True, True, False, None]
    column = pa.array(values)
    found = converted(column, nulls={"c": True})
    assert found["c"].dtype == torch.bool
    assert listed(found["c"]) == [value is not False for value in values]
    masked = converted(column, nulls={"c": "mask"})
    assert listed(masked["c"]) == [value is True for value in values]
    assert listed(masked["c_mask"]) == [value is not None for value in values]


EPOCH = datetime.datetime(1970, 1, 1)


# spec: tensor-3
@pytest.mark.parametrize(
    ("arrow", "unit", "values", "expected"),
    [
        (pa.timestamp("us"), "us", [EPOCH, EPOCH + datetime.timedelta(seconds=2)], [0, 2_000_000]),
        (pa.timestamp("ns", "UTC"), "ns", [5, -7], [5, -7]),
        (pa.timestamp("s"), "s", [1, 2**40], [1, 2**40]),
        (pa.timestamp("ms"), "ms", [-1, 3], [-1, 3]),
        (pa.date32(), "D", [datetime.date(1970, 1, 3), datetime.date(1969, 12, 31)], [2, -1]),
        (pa.date64(), "ms", [datetime.date(1970, 1, 2)], [86_400_000]),
        (pa.time64("us"), "us", [datetime.time(0, 0, 1, 5)], [1_000_005]),
        (pa.time32("s"), "s", [datetime.time(1, 0, 1)], [3601]),
        (pa.duration("us"), "us", [datetime.timedelta(milliseconds=3)], [3000]),
    ],
)
def test_times_count_their_unit(
    arrow: pa.DataType, unit: str, values: list[Any], expected: list[int]
) -> None:
    column = pa.array([*values, None], arrow)
    found = converted(column, nulls={"c": -(2**31)})
    assert found["c"].dtype == torch.int64
    assert listed(found["c"]) == [*expected, -(2**31)]
    convert = Converter(pa.schema({"c": arrow}), nulls="mask")
    assert convert.columns["c"].unit == unit
    assert listed(converted(column, nulls="mask")["c_mask"])[-1] is False


DECIMALS = [decimal.Decimal("12.50"), decimal.Decimal("-0.01"), None, decimal.Decimal("9999999999.99")]


@pytest.mark.parametrize("arrow", [pa.decimal128(12, 2), pa.decimal256(18, 2), pa.decimal64(12, 2)])
def test_decimals_by_a_rule(arrow: pa.DataType) -> None:
    column = pa.array(DECIMALS, arrow)
    exact = converted(column, decimals={"c": "unscaled"}, nulls={"c": 3})
    assert exact["c"].dtype == torch.int64
    assert listed(exact["c"]) == [1250, -1, 300, 999_999_999_999]
    assert (
        Converter(pa.schema({"c": arrow}), decimals={"c": "unscaled"}, nulls="error").columns["c"].scale == 2
    )
    nearest = converted(column, decimals={"c": "float64"})
    assert same(listed(nearest["c"]), [12.5, -0.01, math.nan, 9999999999.99])
    assert converted(column, decimals={"c": "float32"}, nulls={"c": 0.5})["c"].dtype == torch.float32


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


# spec: tensor-7
def test_a_mask_is_false_where_the_dictionary_has_a_null() -> None:
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int8()), pa.array([5, None], pa.int64())
    )
    batch = pa.record_batch({"c": values})
    found = Converter(batch.schema, nulls={"c": "mask"})(batch)
    assert found["c"].tolist() == [5, 0, 0]
    assert found["c_mask"].tolist() == [True, False, False]


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
