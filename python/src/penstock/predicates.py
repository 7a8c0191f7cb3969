"""Filters from the predicates of other engines.

A filter that is sent to a server must keep each row for which the engine's predicate is true. The engine evaluates the
predicate again on the rows that arrive, so a filter may keep more rows, and a predicate without a filter costs only speed.
Columns are compared only with literals of their own type, because engines convert other literals in different ways.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from penstock.fields import RunQuery

COMPARISONS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operators of comparisons, and their opposites for exchanged operands."""

# A server refuses filters with more than 64 KiB.
_MAX_BYTES = 64 << 10

# The years that every engine reads as the same day.
_YEARS = range(1583, 10_000)


class Pushdown:
    """Writes filters for the columns of a query, and the query that has them.

    Attributes:
        schema: the columns of the query's batches.
    """

    def __init__(self, fields: RunQuery, schema: pa.Schema, *, filters: bool) -> None:
        """Prepares the query.

        Args:
            fields: the query's fields.
            schema: the schema of its batches, in plain columns.
            filters: whether filters may be written. They may not for a dataset with `distinct`, which would keep other rows.
        """
        self.schema = schema
        self._fields = fields
        # With tail="drop", a filter changes which rows are dropped.
        may = filters and fields.get("tail") != "drop"
        self._columns = _unchanged(fields, schema) if may else {}

    def has(self, column: str) -> bool:
        """Reports whether filters may name a column of the batches."""
        return column in self._columns

    def compare(self, column: str, operator: str, value: Any) -> str | None:
        """Returns a comparison of a column and a literal; None if engines may disagree about it."""
        literal = self._literal(column, value)
        if literal is None or operator not in COMPARISONS:
            return None
        return f"{quoted(column)} {operator} {literal}"

    def among(self, column: str, values: Iterable[Any]) -> str | None:
        """Returns a condition that a column has one of some values; None if engines may disagree about it."""
        literals = [self._literal(column, value) for value in values]
        known = [literal for literal in literals if literal is not None]
        if not known or len(known) < len(literals):
            return None
        return f"{quoted(column)} IN ({', '.join(known)})"

    def is_null(self, column: str, *, negated: bool = False) -> str | None:
        """Returns a condition that a column is null, or that it is not."""
        if column not in self._columns:
            return None
        return f"{quoted(column)} IS {'NOT ' if negated else ''}NULL"

    def starts_with(self, column: str, text: Any) -> str | None:
        """Returns a condition that a column of strings starts with a text."""
        if not pa.types.is_string(self._columns.get(column, pa.null())) or not isinstance(text, str):
            return None
        escaped = "".join(f"\\{one}" if one in "%_\\" else one for one in text)
        literal = _text(f"{escaped}%")
        return None if literal is None else f"{quoted(column)} LIKE {literal}"

    def query(self, names: Iterable[str] | None, conditions: Iterable[str]) -> RunQuery:
        """Returns the query with some of its columns, for the rows that satisfy its own filter and the conditions.

        Conditions for which a filter has no room are left out.

        Args:
            names: the columns to read, at least one; None for all.
            conditions: filters that this object has written.
        """
        fields = self._fields.copy()
        if names is not None:
            self._project(fields, set(names))
        own = fields.get("filter")
        filters = [f"({own})"] if own else []
        free = _MAX_BYTES - sum(map(_size, filters))
        for condition in conditions:
            size = _size(condition) + len("() AND ")
            if size <= free:
                filters.append(f"({condition})")
                free -= size
        if filters:
            fields["filter"] = " AND ".join(filters)
        return fields

    def _project(self, fields: RunQuery, names: set[str]) -> None:
        dense = fields.get("dense") or {}
        columns = fields.get("columns")
        if columns is None:
            columns = [name for name in self.schema.names if name not in dense]
        kept = [one for one in columns if _output(one) in names]
        fields["dense"] = {name: packed for name, packed in dense.items() if name in names} or None
        fields["columns"] = kept

    def _literal(self, column: str, value: Any) -> str | None:
        kind = self._columns.get(column)
        return None if kind is None else literal(kind, value)


def _unchanged(fields: RunQuery, schema: pa.Schema) -> dict[str, pa.DataType]:
    """Returns the types of the columns that have the names and values of the dataset's columns."""
    columns = fields.get("columns")
    if columns is None:
        named = set(schema.names) - set(fields.get("dense") or {})
    else:
        named = {one for one in columns if isinstance(one, str)}
    return {field.name: field.type for field in schema if field.name in named}


def _size(text: str) -> int:
    return len(text.encode())


def _output(column: Any) -> str:
    """Returns the name that a column of a query has in batches."""
    return str(column.get("name", column["column"])) if isinstance(column, Mapping) else str(column)


def quoted(name: str) -> str:
    """Writes a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(kind: pa.DataType, value: Any) -> str | None:
    """Writes a value of exactly an Arrow type as a literal of filters; None for other values and types."""
    for known, write in _LITERALS:
        if known(kind):
            return write(kind, value)
    return None


def _boolean(_: pa.DataType, value: Any) -> str | None:
    return str(value).upper() if isinstance(value, bool) else None


def _integer(kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    bound = 1 << (kind.bit_width - 1)
    return str(value) if -bound <= value < bound else None


def _float(kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    if kind.bit_width == 32 and struct.unpack("f", struct.pack("f", _clipped(value)))[0] != value:
        return None
    return repr(value + 0.0)


def _clipped(value: float) -> float:
    """Returns a number that float32 can represent, and that differs from the value if float32 cannot represent it."""
    largest = (2 - 2**-23) * 2.0**127
    return max(-largest, min(largest, value))


def _decimal(kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, decimal.Decimal) or not value.is_finite():
        return None
    _, digits, exponent = value.as_tuple()
    fits = (
        isinstance(exponent, int)
        and -exponent <= kind.scale
        and len(digits) + exponent <= kind.precision - kind.scale
    )
    return format(value, "f") if fits else None


def _date(_: pa.DataType, value: Any) -> str | None:
    if (
        not isinstance(value, datetime.date)
        or isinstance(value, datetime.datetime)
        or value.year not in _YEARS
    ):
        return None
    return f"DATE '{value.isoformat()}'"


def _timestamp(kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, datetime.datetime) or value.year not in _YEARS or kind.unit != "us":
        return None
    if (kind.tz is None) != (value.tzinfo is None):
        return None
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    return f"TIMESTAMP '{value.isoformat(' ', 'microseconds')}'"


def _string(_: pa.DataType, value: Any) -> str | None:
    return _text(value) if isinstance(value, str) else None


def _text(value: str) -> str | None:
    if "\x00" in value or any("\ud800" <= one <= "\udfff" for one in value):
        return None
    return "'" + value.replace("'", "''") + "'"


_LITERALS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Any], str | None]], ...] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_signed_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date32, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_string, _string),
)
