"""Rows of tables that are staged to: how others take and give them, what is refused, and whether they are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from plain import Plain
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from stage_columns import FLAT, Kind


@dataclass
class Refusal:
    """Why a stage must be refused: a sentence of docs/spec/stage.md, and a text of the error."""

    sentence: str
    text: str


# Types that tables do not have, with an array of three.
FOREIGN: list[pa.Array] = [
    pa.array([1, None, 3], pa.int16()),
    pa.array([1, None, 3], pa.uint32()),
    pa.array([1, None, 3], pa.uint64()),
    pa.array([1, None, 3], pa.date64()),
    pa.array([1, None, 3], pa.time32("ms")),
    pa.array([1, None, 3], pa.timestamp("s")),
    pa.array([1, None, 3], pa.timestamp("ns")),  # of new tables, which are of version 2
    pa.array([1, None, 3], pa.duration("us")),
    pa.array([None, None, None], pa.null()),
    pa.array([1, None, 3], pa.decimal256(50, 2)),
    pa.array([[1], None, [3, None]], pa.list_view(pa.int64())),
    pa.array([[1], None, [3, None]], pa.large_list_view(pa.int64())),
    pa.array([["a"], None, ["c"]], pa.list_(pa.string(), 1)),
    pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, None], pa.int64())),
    pa.array([1.5, None, 2.5], pa.float64()).cast(pa.float16()),
    pa.array([{"a": 1}, None, {"a": 3}], pa.struct([("a", pa.int8())])),
    pa.StructArray.from_arrays([pa.array(["x", "y", "z"]).cast(pa.string_view()), pa.nulls(3)], ["a", "b"]),
]


def appended(schema: Schema) -> pa.Schema:
    """The columns of a table as PyIceberg takes them."""
    fields = schema_to_pyarrow(schema)
    return pa.schema([f.remove_metadata() for f in fields])


def given(made: pa.Array) -> list[Any]:
    """The values of an array, as arrays are made of them."""
    if isinstance(made, pa.ExtensionArray):
        return list(made.storage.to_pylist())
    return list(made.to_pylist())


def spelled(transform: str, column: str) -> str:
    """A partition field as the option partition has it."""
    kind, bracket, width = transform.partition("[")
    return f"{kind}{bracket}{width}({column})"


def fits_parquet(rows: pa.Table) -> bool:
    """Whether pyarrow writes rows to Parquet, in the same types: not views, run-ends, and nulls of dictionaries."""
    return all(in_parquet(f.type) for f in rows.schema)


def in_parquet(of: pa.DataType) -> bool:
    """Whether pyarrow writes a type to Parquet and has the same type there."""
    if isinstance(of, pa.BaseExtensionType):
        return True
    if pa.types.is_nested(of) and not pa.types.is_run_end_encoded(of):
        return all(in_parquet(of.field(i).type) for i in range(of.num_fields))
    return (
        of in _PARQUET or pa.types.is_decimal128(of) or pa.types.is_fixed_size_binary(of) or _is_instant(of)
    )


_PARQUET = {k.arrow for k in FLAT.values()} | {pa.large_string(), pa.large_binary()}


def _is_instant(of: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(of) and of.unit == "us")


def emptied(value: Plain, of: pa.DataType) -> Plain:
    """A value as PyIceberg gives it, which reads and writes null lists and maps of structs as empty (its issue 3833)."""
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        if value is None:
            return [] if pa.types.is_struct(of.value_type) else None
        return [emptied(v, of.value_type) for v in value]
    if pa.types.is_map(of) and value is None:
        return [] if pa.types.is_struct(of.item_type) else None
    if value is None:
        return None
    if pa.types.is_map(of):
        return [[k, emptied(v, of.item_type)] for k, v in value]
    if pa.types.is_struct(of):
        return [emptied(v, f.type) for v, f in zip(value, of, strict=True)]
    return value


def same(got: list[list[Plain]], want: list[list[Plain]], at: int, kinds: dict[str, Kind], who: str) -> None:
    """Sees that rows are the same.

    Raises:
        AssertionError: with the first value that differs.
    """
    got = sorted(got, key=lambda row: row[at])
    if got == want:
        return
    assert [row[at] for row in got] == [row[at] for row in want], f"{who}: other rows"
    for one, other in zip(got, want, strict=True):
        for name, value, wanted in zip(kinds, one, other, strict=True):
            assert value == wanted, (
                f"{who}: {name} of {kinds[name].name} of row {one[at]} is {value!r}, not {wanted!r}"
            )
