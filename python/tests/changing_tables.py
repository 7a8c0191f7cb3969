"""Random tables of many types that change: rows are added and deleted, and columns are added, renamed and widened."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from lake import Lake
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
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
    NestedField,
    StringType,
    TimestampType,
)
from shuffled_tables import delete_some

Draw = Callable[[random.Random], Any]

TEXT = "text"  # begins the names of texts
_DAY = datetime.datetime(2026, 1, 1)
_TYPES: dict[str, tuple[IcebergType, Draw]] = {
    "int": (IntegerType(), lambda r: r.randrange(-(2**31), 2**31)),
    "long": (LongType(), lambda r: r.randrange(100)),
    "float": (FloatType(), lambda r: r.randrange(1 << 20) / 256),
    "double": (DoubleType(), lambda r: r.random()),
    "bool": (BooleanType(), lambda r: r.random() < 0.3),
    TEXT + "few": (StringType(), lambda r: r.choice(["", "red", "grün", "blue"])),
    TEXT + "many": (StringType(), lambda r: f"u{r.randrange(1 << 40):x}"),
    "binary": (BinaryType(), lambda r: r.randbytes(r.randrange(9))),
    "fixed": (FixedType(7), lambda r: r.randbytes(7)),
    "small": (DecimalType(9, 2), lambda r: decimal.Decimal(r.randrange(-(10**8), 10**8)).scaleb(-2)),
    "large": (DecimalType(22, 3), lambda r: decimal.Decimal(r.randrange(10**20)).scaleb(-3)),
    "day": (DateType(), lambda r: (_DAY + datetime.timedelta(r.randrange(40))).date()),
    "at": (TimestampType(), lambda r: _DAY + datetime.timedelta(microseconds=r.randrange(10**12))),
    "longs": (
        ListType(element_id=900, element_type=LongType(), element_required=False),
        lambda r: [r.choice([None, r.randrange(2**60)]) for _ in range(r.randrange(5))],
    ),
    "floats": (
        ListType(element_id=901, element_type=FloatType(), element_required=False),
        lambda r: [r.randrange(256) / 4] * 4,
    ),
}
_WIDER: dict[str, IcebergType] = {
    "int": LongType(),
    "float": DoubleType(),
    "decimal(9, 2)": DecimalType(14, 2),
}


class ChangingTable:
    """A table whose rows have numbers, and keys; its columns begin with a prefix."""

    def __init__(self, lake: Lake, rng: random.Random, name: str, prefix: str) -> None:
        self._rng, self._key, self._row = rng, f"{prefix}_id", f"{prefix}_row"
        key, row = self._key, self._row
        self._kinds = {f"{prefix}_{kind}": kind for kind in rng.sample(sorted(_TYPES), rng.randint(4, 9))}
        self._next = 0  # row
        self.rows: set[int] = set()
        types: dict[str, IcebergType] = {row: LongType(), key: LongType()}
        types |= {column: _TYPES[kind][0] for column, kind in self._kinds.items()}
        schema = Schema(*[NestedField(i, n, t, required=False) for i, (n, t) in enumerate(types.items(), 1)])
        buckets = PartitionField(2, 1000, BucketTransform(rng.choice([1, 3, 4])), f"{key}_bucket")
        sizes = {
            "write.parquet.row-group-limit": str(rng.choice([20, 60, 300])),
            "write.parquet.page-row-limit": "16",
        }
        self._table = lake.catalog.create_table(
            name, schema, partition_spec=PartitionSpec(buckets), properties={"format-version": "2", **sizes}
        )

    def append(self, keys: list[int | None]) -> None:
        """Adds a row for each key."""
        schema = schema_to_pyarrow(self._table.schema())
        rows = []
        for key in keys:
            row: dict[str, Any] = {self._row: self._next, self._key: key}
            for column, kind in self._kinds.items():
                row[column] = None if self._rng.random() < 0.15 else _TYPES[kind][1](self._rng)
            rows.append(row)
            self.rows.add(self._next)
            self._next += 1
        self._table.append(pa.Table.from_pylist(rows, schema))

    def delete(self) -> None:
        """Deletes some rows by position."""
        self.rows -= delete_some(self._rng, self._table, self._row)

    def evolve(self) -> None:
        """Adds a column, renames one, and widens all that can be; files stay as they are."""
        number = len(self._table.metadata.schemas)
        kind, old = self._rng.choice(sorted(_TYPES)), self._rng.choice(sorted(self._kinds))
        added, renamed = f"{self._row[0]}_{kind}_{number}", f"{old}_now_{number}"
        with self._table.update_schema() as change:
            for field in self._table.schema().fields:
                if str(field.field_type) in _WIDER:
                    change.update_column(field.name, _WIDER[str(field.field_type)])
            change.add_column(added, _TYPES[kind][0])
            change.rename_column(old, renamed)
        self._kinds = {renamed if name == old else name: of for name, of in self._kinds.items()}
        self._kinds[added] = kind


class ChangingWorld:
    """A training table, one with a row per request, one with several, and datasets that join them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._rng = random.Random(seed)
        lake = Lake(folder)
        self._requests = self._rng.choice([50, 400])
        self.training = ChangingTable(lake, self._rng, "ml.events", "t")
        self._one = ChangingTable(lake, self._rng, "features.one", "o")
        self._many = ChangingTable(lake, self._rng, "features.many", "m")
        for _ in range(2):
            self.training.append(self._keys(self._rng.choice([300, 2500])))
        requests: list[int | None] = list(range(0, self._requests, 2))
        self._one.append(requests)
        self._many.append([key for key in requests for _ in range(self._rng.choice([0, 1, 3]))])
        one = {"table": "features.one", "key": {"t_id": "o_id"}, "max_amplification": 1000}
        many = {
            "table": "features.many",
            "key": {"t_id": "m_id"},
            "max_amplification": 1000,
            "duplicates": "all",
        }
        training = {"training": {"table": "ml.events"}, "key": ["t_id"]}
        datasets: dict[str, Any] = {
            "one": {**training, "staging": [one]},
            "inner": {**training, "staging": [{**one, "join": "inner"}]},
            "both": {**training, "staging": [one, many]},
        }
        self.datasets = sorted(datasets)
        self.config = lake.config(datasets)

    def change(self) -> None:
        """Makes a commit, most often one of deletes."""
        what = self._rng.random()
        if what < 0.6:
            self._rng.choice([self.training, self._one, self._many]).delete()
        elif what < 0.8:
            self._rng.choice([self.training, self._one, self._many]).evolve()
        else:
            self.training.append(self._keys(200))

    def _keys(self, count: int) -> list[int | None]:
        draw = self._rng.random
        return [None if draw() < 0.03 else int(draw() * self._requests) for _ in range(count)]
