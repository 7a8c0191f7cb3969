"""Expanding indexed batches: the plain rows, whatever the types, and however the batch was cut."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from fake_server import SCHEMA

import penstock
from penstock import indexed

ROWS, ENTRIES = 500, 60


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def longs(rng: random.Random) -> list[int]:
    return [rng.randrange(-(2**63), 2**63) for _ in range(rng.randrange(6))]


def maybe(rng: random.Random, value: Any) -> Any:
    return rng.choice([None, value])


# A column of a staging table, and one value of it.
COLUMNS: dict[str, tuple[pa.Field, Callable[[random.Random], Any]]] = {
    "long": (pa.field("long", pa.int64()), lambda r: maybe(r, r.randrange(2**60))),
    "float": (required("float", pa.float32()), lambda r: float(r.randrange(100)) / 4),
    "bool": (pa.field("bool", pa.bool_()), lambda r: maybe(r, r.random() < 0.5)),
    "text": (pa.field("text", pa.utf8()), lambda r: maybe(r, "ü" * r.randrange(5))),
    "bytes": (pa.field("bytes", pa.binary()), lambda r: bytes(r.randrange(3))),
    "uuid": (pa.field("uuid", pa.binary(16)), lambda r: maybe(r, r.randbytes(16))),
    "price": (pa.field("price", pa.decimal128(12, 2)), lambda r: decimal.Decimal(r.randrange(999)) / 100),
    "day": (pa.field("day", pa.date32()), lambda r: datetime.date(2026, 1, 1 + r.randrange(31))),
    "at": (
        pa.field("at", pa.timestamp("us", "UTC")),
        lambda r: datetime.datetime(2026, 1, 1, r.randrange(24), tzinfo=datetime.UTC),
    ),
    "longs": (pa.field("longs", pa.list_(pa.int64())), lambda r: maybe(r, longs(r))),
    "all": (required("all", pa.list_(required("element", pa.int64()))), longs),
    "holes": (
        pa.field("holes", pa.list_(pa.int64())),
        lambda r: maybe(r, [maybe(r, n) for n in longs(r)]),
    ),
    "bytelist": (
        pa.field("bytelist", pa.list_(pa.uint8())),
        lambda r: maybe(r, list(r.randbytes(r.randrange(4)))),
    ),
    "halves": (pa.field("halves", pa.list_(pa.float16())), lambda r: [0.5] * r.randrange(3)),
    "bools": (pa.field("bools", pa.list_(pa.bool_())), lambda r: [True, False] * r.randrange(3)),
    "empty": (pa.field("empty", pa.list_(pa.int32())), lambda r: maybe(r, [])),
    "words": (
        pa.field("words", pa.list_(pa.utf8())),
        lambda r: maybe(r, [None, "a", "bc"][: r.randrange(4)]),
    ),
    "prices": (
        pa.field("prices", pa.list_(pa.decimal128(9, 1))),
        lambda r: [decimal.Decimal(r.randrange(9))] * r.randrange(3),
    ),
    "nested": (
        pa.field("nested", pa.list_(pa.list_(pa.float32()))),
        lambda r: maybe(r, [maybe(r, [0.5] * r.randrange(3)) for _ in range(r.randrange(3))]),
    ),
    "events": (
        pa.field(
            "events", pa.list_(pa.struct([pa.field("t", pa.int64()), required("n", pa.list_(pa.int8()))]))
        ),
        lambda r: [maybe(r, {"t": maybe(r, 3), "n": [1] * r.randrange(3)}) for _ in range(r.randrange(3))],
    ),
    "user": (
        pa.field("user", pa.struct([required("id", pa.int64()), pa.field("l", pa.list_(pa.int32()))])),
        lambda r: maybe(r, {"id": r.randrange(9), "l": maybe(r, [1, 2])}),
    ),
    "map": (
        pa.field("map", pa.map_(pa.utf8(), pa.list_(pa.int64()))),
        lambda r: maybe(r, [(f"k{i}", maybe(r, longs(r))) for i in range(r.randrange(3))]),
    ),
    "nothing": (pa.field("nothing", pa.null()), lambda _: None),
    "wide": (pa.field("wide", pa.list_(pa.int32(), 2)), lambda r: maybe(r, [1, r.randrange(9)])),
    "large": (pa.field("large", pa.large_list(pa.int64())), lambda r: maybe(r, longs(r))),
}


def made(rng: random.Random, names: list[str], rows: int = ROWS) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """An indexed batch of two levels, and its plain form, made of Python values."""
    fields, columns = [required("row", pa.int64())], [pa.array(range(rows), pa.int64())]
    plain_fields, plain_columns = list(fields), list(columns)
    for level, held in (("one", names[::2]), ("two", names[1::2])):
        if not held:
            continue
        entries = [[COLUMNS[name][1](rng) for _ in range(ENTRIES)] for name in held]
        # Inside of longer arrays, and children of an offset of their own.
        fillers = [[COLUMNS[name][1](rng) for _ in range(9)] for name in held]
        stored = [COLUMNS[name][0] for name in held]
        children = [
            pa.array(filler + values + filler, field.type)[3:-2]
            for filler, values, field in zip(fillers, entries, stored, strict=True)
        ]
        dictionary = pa.StructArray.from_arrays(children, fields=stored)[6 : 6 + ENTRIES]
        at = [rng.randrange(ENTRIES) for _ in range(rows)]
        column = pa.DictionaryArray.from_arrays(pa.array([0, *at, 1], pa.int32())[1:-1], dictionary)
        fields.append(required(level, column.type))
        columns.append(column)
        plain_fields += stored
        plain_columns += [
            pa.array([values[i] for i in at], field.type)
            for values, field in zip(entries, stored, strict=True)
        ]
    return (
        pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)),
        pa.RecordBatch.from_arrays(plain_columns, schema=pa.schema(plain_fields)),
    )


def same(got: pa.RecordBatch, want: pa.RecordBatch) -> bool:
    """Equal in everything but memory, and sound."""
    got.validate(full=True)
    return bool(got.equals(want)) and got.schema.equals(want.schema, check_metadata=True)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type(name: str) -> None:
    batch, plain = made(random.Random(name), [name])
    assert same(indexed.expand(batch), plain)


def test_nested_columns_and_slices() -> None:
    rng = random.Random(7)
    batch, plain = made(rng, list(COLUMNS))
    assert same(penstock.expand(batch), plain)
    for _ in range(20):
        start, rows = rng.randrange(ROWS), rng.randrange(ROWS)
        assert same(penstock.expand(batch.slice(start, rows)), plain.slice(start, rows))
        assert same(penstock.expand(batch.slice(start)[1:][:rows]), plain.slice(start)[1:][:rows])


def test_kjt_from_a_stream() -> None:
    """Dictionaries replaced with every batch, in buffers of any alignment."""
    rng = random.Random(8)
    pairs = [made(rng, list(COLUMNS), rows) for rows in (40, 0, 1, 200)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pairs[0][0].schema) as writer:
        for batch, _ in pairs:
            writer.write_batch(batch)
    shifted = pa.py_buffer(b"x" + sink.getvalue().to_pybytes())[1:]
    with pa.ipc.open_stream(shifted) as reader:
        got = [penstock.expand(batch) for batch in reader]
    assert all(same(one, plain) for one, (_, plain) in zip(got, pairs, strict=True))


def test_expand_returns_plain_batches_unchanged() -> None:
    batch = pa.record_batch(
        [pa.array([1, 2]), pa.array(["a", "b"]).dictionary_encode()], names=["n", "encoded"]
    )
    assert penstock.expand(batch) is batch
    assert indexed.plain_schema(SCHEMA) == SCHEMA


@pytest.mark.parametrize("entries", [0, 3])
def test_a_batch_without_rows(entries: int) -> None:
    whole, plain = made(random.Random(9), list(COLUMNS))
    columns = [whole.column("row")[:0]]
    columns += [
        pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), whole.column(level).dictionary[:entries])
        for level in ("one", "two")
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=whole.schema)
    assert same(penstock.expand(batch), plain[:0])


def test_null_entries_are_null_in_every_column() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))])
    entries = pa.StructArray.from_arrays(
        [pa.array([1, 2]), pa.array([[1], [2]])], fields=list(kind), mask=pa.array([False, True])
    )
    level = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int32()), entries)
    assert penstock.expand(pa.record_batch([level], names=["level"])).to_pydict() == {
        "a": [None, 1, None],
        "b": [None, [1], None],
    }


def test_schema_metadata_is_kept() -> None:
    batch, _ = made(random.Random(10), ["long", "text"])
    batch = batch.replace_schema_metadata({"kept": "yes"})
    assert penstock.expand(batch).schema.metadata == {b"kept": b"yes"}


@pytest.mark.parametrize("at", [[0, 2], [-1], [None, 0]])
def test_indices_out_of_range_are_corrupt(at: list[int | None]) -> None:
    entries = pa.array([{"a": [1]}, {"a": [2]}])
    level = pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), entries, safe=False)
    batch = pa.record_batch([level], names=["history"])
    with pytest.raises(penstock.Corrupt, match="history"):
        penstock.expand(batch)


# A million elements, by which 2048 rows are more than offsets of 32 bits can say.
MANY = pa.ListArray.from_arrays(pa.array([0, 2**20], pa.int32()), pa.repeat(pa.scalar(1, pa.int8()), 2**20))


@pytest.mark.parametrize(
    "entry",
    [
        MANY,
        pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), MANY),
        pa.StructArray.from_arrays([MANY], names=["inner"]),
        pa.ListArray.from_arrays(
            pa.array([0, 2**20], pa.int32()), pa.repeat(pa.scalar(None, pa.utf8()), 2**20)
        ),
    ],
)
def test_columns_too_long_for_their_offsets_are_refused(entry: pa.Array) -> None:
    level = pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int32()), 2**11), pa.StructArray.from_arrays([entry], names=["long"])
    )
    with pytest.raises(penstock.Invalid, match="history") as caught:
        penstock.expand(pa.record_batch([level], names=["history"]))
    assert [f.field for f in caught.value.faults] == ["batch_rows"]
    # One long list says nothing of the rows that have others.
    short = pa.DictionaryArray.from_arrays(
        pa.array([0] + [1] * 4096, pa.int32()),
        pa.StructArray.from_arrays([pa.concat_arrays([entry, pa.nulls(1, entry.type)])], names=["long"]),
    )
    assert penstock.expand(pa.record_batch([short], names=["history"])).column("long").null_count == 4096
    few = penstock.expand(pa.record_batch([level[:3]], names=["history"]))
    assert few.column("long").equals(pa.concat_arrays([entry] * 3))
