"""Writes by_pyiceberg.avro beside this file: a manifest of PyIceberg 0.12, with two partition fields of each named type."""

from __future__ import annotations

import decimal
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, FixedType, LongType, NestedField, StringType

_FIELDS = {
    "a": DecimalType(9, 2),
    "b": DecimalType(9, 2),
    "f": FixedType(3),
    "g": FixedType(3),
    "größe": StringType(),
}
_ROW = {
    "k": 1,
    "a": decimal.Decimal("1.25"),
    "b": decimal.Decimal("-2.89"),
    "f": b"\x06ab",
    "g": b"abc",
    "größe": "é",
}


def main() -> None:
    """Writes the manifest."""
    numbered = list(enumerate(_FIELDS.items(), start=2))
    schema = Schema(
        NestedField(1, "k", LongType()), *(NestedField(i, name, kind) for i, (name, kind) in numbered)
    )
    spec = PartitionSpec(
        *(PartitionField(i, 998 + i, IdentityTransform(), name) for i, (name, _) in numbered)
    )
    with tempfile.TemporaryDirectory() as folder:
        catalog = InMemoryCatalog("default", warehouse=f"file://{folder}")
        catalog.create_namespace("ml")
        table = catalog.create_table("ml.events", schema, partition_spec=spec)
        columns = [
            ("k", pa.int64()),
            ("a", pa.decimal128(9, 2)),
            ("b", pa.decimal128(9, 2)),
            ("f", pa.binary(3)),
            ("g", pa.binary(3)),
            ("größe", pa.string()),
        ]
        table.append(pa.Table.from_pylist([_ROW], schema=pa.schema(columns)))
        (manifest,) = Path(folder).rglob("*-m0.avro")
        shutil.copy(manifest, Path(__file__).with_name("by_pyiceberg.avro"))


if __name__ == "__main__":
    main()
