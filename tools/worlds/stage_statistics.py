"""Whether the statistics of data files in manifests are those of the values that the files have."""

from __future__ import annotations

import datetime
import math
import uuid
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, PrimitiveType, StructType
from read_elsewhere import path

_EPOCH = datetime.datetime(1970, 1, 1)


class Leaf:
    """All values of a field that holds no others."""

    def __init__(self, of: PrimitiveType) -> None:
        self.of = of
        self.values: list[Any] = []
        self.nulls = 0

    def add(self, value: Any) -> None:
        """Takes a value."""
        if value is None:
            self.nulls += 1
        else:
            self.values.append(_number(value))


def check(schema: Schema, file: DataFile) -> None:
    """Sees that the counts and bounds of a file are right, and that bounds of numbers are values of the file.

    Raises:
        AssertionError: they are not, and of which field.
    """
    leaves: dict[int, Leaf] = {}
    stored = pq.read_table(path(file.file_path))
    for field in schema.fields:
        if field.name in stored.column_names:
            for value in stored[field.name].to_pylist():
                _collect(leaves, field.field_type, field.field_id, value)
    for field_id, leaf in leaves.items():
        name = f"{schema.find_column_name(field_id)} of {file.file_path}"
        nulls = (file.null_value_counts or {}).get(field_id)
        within = _ancestors_repeat(schema, field_id)
        assert nulls is None or within or nulls == leaf.nulls, f"{nulls} nulls, not {leaf.nulls}, in {name}"
        nans = [v for v in leaf.values if isinstance(v, float) and math.isnan(v)]
        counted = (file.nan_value_counts or {}).get(field_id)
        assert counted is None or counted == len(nans), f"{counted} NaNs, not {len(nans)}, in {name}"
        values = [v for v in leaf.values if not (isinstance(v, float) and math.isnan(v))]
        lower = (file.lower_bounds or {}).get(field_id)
        upper = (file.upper_bounds or {}).get(field_id)
        if not values:
            assert lower is None, f"lower bound {lower!r} without values in {name}"
            assert upper is None, f"upper bound {upper!r} without values in {name}"
            continue
        if lower is not None:
            _check_bound(_bound(leaf.of, lower), min(values), f"lower bound of {name}")
        if upper is not None:
            _check_bound(_bound(leaf.of, upper), max(values), f"upper bound of {name}", least=False)


def _ancestors_repeat(schema: Schema, field_id: int) -> bool:
    name = schema.find_column_name(field_id) or ""
    return any(part in ("element", "key", "value") for part in name.split("."))


def _check_bound(bound: Any, value: Any, name: str, *, least: bool = True) -> None:
    if not isinstance(bound, str | bytes):
        assert bound == value, f"{name}: {bound!r}, not {value!r}"
    elif least:
        assert value[: len(bound)] == bound, f"{name}: {bound!r}, not {value!r}"
    else:
        # A bound that is shorter has its last letter raised.
        assert bound >= value, f"{name}: {bound!r} is less than {value!r}"
        assert bound == value or value[: len(bound) - 1] == bound[:-1], f"{name}: {bound!r}, not {value!r}"


def _bound(of: PrimitiveType, stored: bytes) -> Any:
    found = from_bytes(of, stored)
    return found.bytes if isinstance(found, uuid.UUID) else found


def _collect(leaves: dict[int, Leaf], of: IcebergType, field_id: int, value: Any) -> None:
    if isinstance(of, StructType):
        for field in of.fields:
            _collect(leaves, field.field_type, field.field_id, None if value is None else value[field.name])
    elif isinstance(of, ListType):
        for item in value or []:
            _collect(leaves, of.element_type, of.element_id, item)
    elif isinstance(of, MapType):
        for key, item in value or []:
            _collect(leaves, of.key_type, of.key_id, key)
            _collect(leaves, of.value_type, of.value_id, item)
    else:
        assert isinstance(of, PrimitiveType)
        leaves.setdefault(field_id, Leaf(of)).add(value)


def _number(value: Any) -> Any:
    """A value as bounds have it."""
    match value:
        case datetime.datetime():
            plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
            return (plain - _EPOCH) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - _EPOCH.date()).days
        case datetime.time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case uuid.UUID():
            return value.bytes
        case _:
            return value
