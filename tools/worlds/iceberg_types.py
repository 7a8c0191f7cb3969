"""Iceberg types as text, such as map<string,list<long>> or struct<a:long,b:decimal(9,2)>."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_PLAIN: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "timestamp_ns": TimestampNanoType(),
    "timestamptz_ns": TimestamptzNanoType(),
    "string": StringType(),
    "uuid": UUIDType(),
    "binary": BinaryType(),
}


def column_type(text: str) -> IcebergType:
    """Reads a type. The ids inside are unique within it; a catalog gives its own."""
    return _parse(text, count(10_000))


def _parse(text: str, ids: Iterator[int]) -> IcebergType:
    if text in _PLAIN:
        return _PLAIN[text]
    kind, opening, inner = text[:-1].partition("(" if text.endswith(")") else "<")
    match kind, opening, _arguments(inner):
        case "decimal", "(", [precision, scale]:
            return DecimalType(int(precision), int(scale))
        case "fixed", "(", [length]:
            return FixedType(int(length))
        case "list", "<", [element]:
            return ListType(next(ids), *_required(element, ids))
        case "map", "<", [key, value]:
            return MapType(next(ids), _parse(key, ids), next(ids), *_required(value, ids))
        case "struct", "<", fields:
            return StructType(*[_field(field, ids) for field in fields])
    raise ValueError(f"no type {text!r}")


def _field(text: str, ids: Iterator[int]) -> NestedField:
    name, _, kind = text.partition(":")
    inner, required = _required(kind, ids)
    return NestedField(next(ids), name, inner, required=required)


def _required(text: str, ids: Iterator[int]) -> tuple[IcebergType, bool]:
    """A type inside another, and whether it is required."""
    return _parse(text.removesuffix("!"), ids), text.endswith("!")


def _arguments(text: str) -> list[str]:
    """Cuts at the commas that no bracket encloses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
