"""Rows of Arrow tables as values that can be compared, and written as JSON."""

from __future__ import annotations

import datetime
import re
import uuid
from typing import Any

import pyarrow as pa

Plain = Any
"""None, a bool, a number, a text, or a list of those."""

# Spark and DuckDB give uuids as text.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def plain_rows(table: pa.Table) -> list[list[Plain]]:
    """The rows of a table, column by column in the table's order.

    Floats are texts that tell NaN, -0.0 and every bit of the others apart; maps are
    sorted by key; uuids are hexadecimal.
    """
    columns = [[plain(value, column.type) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def plain(value: Any, of: pa.DataType) -> Plain:
    """One value of a type."""
    if value is None:
        return None
    if isinstance(of, pa.BaseExtensionType):
        return plain(value, of.storage_type)
    if pa.types.is_dictionary(of):
        return plain(value, of.value_type)
    if pa.types.is_map(of):
        return sorted([plain(k, of.key_type), plain(v, of.item_type)] for k, v in value)
    if pa.types.is_struct(of):
        return [plain(value[field.name], field.type) for field in of]
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return [plain(item, of.value_type) for item in value]
    return scalar(value)


def scalar(value: Any) -> Plain:
    """One value that holds no others."""
    match value:
        case str() if _UUID.fullmatch(value):
            return value.replace("-", "")
        case bool() | int() | str():
            return value
        case float():
            return value.hex()
        case bytes():
            return value.hex()
        case uuid.UUID():
            return value.bytes.hex()
        case datetime.datetime():
            utc = value.astimezone(datetime.UTC) if value.tzinfo else value
            return utc.isoformat()
        case _:
            return str(value)
