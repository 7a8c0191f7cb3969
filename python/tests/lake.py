"""Small Iceberg tables as a Spark or PyIceberg job would leave them, and the answers of their joins.

The joins are computed row by row in plain Python, from the values that were
written: nothing of the server, nor any engine, is in them.
"""

from __future__ import annotations

import datetime
import decimal
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

Row = dict[str, Any]

_LONGS = ListType(element_id=900, element_type=LongType(), element_required=False)
_TEXTS = ListType(element_id=900, element_type=StringType(), element_required=False)


@dataclass(frozen=True)
class Written:
    """A table's rows, in the order they were written, and where its files are."""

    table: Table
    rows: list[Row]

    def files(self) -> list[Path]:
        return sorted(Path(t.file.file_path.removeprefix("file://")) for t in self.table.scan().plan_files())

    @property
    def snapshot(self) -> int:
        current = self.table.current_snapshot()
        assert current is not None
        return int(current.snapshot_id)


class Lake:
    """A folder with a catalog, its tables, and a server's configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "warehouse").mkdir(parents=True)
        self._uri = f"sqlite:///{folder}/catalog.db"
        self._warehouse = f"file://{folder}/warehouse"
        self.catalog = SqlCatalog("default", uri=self._uri, warehouse=self._warehouse)
        for namespace in ("ml", "features"):
            self.catalog.create_namespace(namespace)
        self._disconnect()

    def _disconnect(self) -> None:
        """Closes the pool's connections; Python 3.13 warns of those that are left open."""
        self.catalog.engine.dispose()

    def write(
        self,
        name: str,
        columns: Mapping[str, IcebergType],
        bucket: tuple[str, int] | None,
        rows: list[Row],
        files: int = 1,
    ) -> Written:
        """Makes a table, bucketed by a column, and appends its rows in several commits."""
        schema = Schema(
            *[NestedField(i, n, t, required=False) for i, (n, t) in enumerate(columns.items(), 1)]
        )
        spec = PartitionSpec()
        if bucket is not None:
            source = schema.find_field(bucket[0]).field_id
            spec = PartitionSpec(
                PartitionField(source, 1000, BucketTransform(bucket[1]), f"{bucket[0]}_bucket")
            )
        table = self.catalog.create_table(name, schema, partition_spec=spec)
        arrow = schema_to_pyarrow(table.schema())  # its ids are the catalog's
        for i in range(files):
            part = rows[i * len(rows) // files : (i + 1) * len(rows) // files]
            table.append(pa.Table.from_pylist(part, arrow))
        self._disconnect()
        return Written(table, rows)

    def config(self, datasets: dict[str, Any], name: str = "penstock.yaml", **more: Any) -> Path:
        """Writes a configuration, with more settings of the catalog. JSON is YAML too."""
        path = self.folder / name
        catalogs = {"default": {"type": "sql", "uri": self._uri, "warehouse": self._warehouse, **more}}
        path.write_text(json.dumps({"catalogs": catalogs, "datasets": datasets}))
        return path


def join(training: list[Row], staging: list[Row], on: tuple[str, str], *, inner: bool = False) -> list[Row]:
    """The join by definition: null matches nothing, staging keys are not output."""
    features = {
        row[on[1]]: {k: v for k, v in row.items() if k != on[1]} for row in staging if row[on[1]] is not None
    }
    missing = dict.fromkeys([k for k in staging[0] if k != on[1]])
    out = []
    for row in training:
        found = features.get(row[on[0]])
        if found is not None or not inner:
            out.append({**row, **(found or missing)})
    return out


EVENTS: dict[str, IcebergType] = {
    "row": LongType(),
    "request_id": LongType(),
    "label": IntegerType(),
    "price": DecimalType(12, 2),
    "day": DateType(),
    "at": TimestamptzType(),
    "tags": _TEXTS,
}
HISTORY: dict[str, IcebergType] = {"req": IntegerType(), "last_items": _LONGS, "country": StringType()}
SCORES: dict[str, IcebergType] = {"request_id": LongType(), "score": DoubleType()}
VIEWS: dict[str, IcebergType] = {"row": LongType(), "session": StringType(), "label": IntegerType()}
TEXTS: dict[str, IcebergType] = {"session": StringType(), "text": StringType(), "words": _TEXTS}


def events(rng: random.Random, rows: int, requests: int) -> list[Row]:
    start = datetime.datetime(2026, 10, 1, tzinfo=datetime.UTC)
    return [
        {
            "row": i,
            "request_id": None if i % 97 == 0 else rng.randrange(requests),
            "label": rng.choice([0, 1, None]),
            "price": decimal.Decimal(rng.randrange(10**7)) / 100,
            "day": start.date() + datetime.timedelta(days=i % 5),
            "at": start + datetime.timedelta(microseconds=i * 1_000_003),
            "tags": rng.choice([None, [], ["a"], ["b", None, "zürich"]]),
        }
        for i in range(rows)
    ]


def history(rng: random.Random, requests: int) -> list[Row]:
    """Two in three requests have a history, and some rows have no request."""
    rows = [
        {
            "req": r,
            "last_items": rng.choice([None, [], [rng.randrange(2**60) for _ in range(5)], [1, None]]),
            "country": rng.choice([None, "de", "jp", ""]),
        }
        for r in range(requests + 20)
        if r % 3
    ]
    return [*rows, {"req": None, "last_items": [9], "country": "null keys match nothing"}]


def scores(rng: random.Random, requests: int) -> list[Row]:
    return [{"request_id": r, "score": rng.random()} for r in range(requests) if r % 5]


def session(i: int) -> str:
    return f"sitzung-ü-{i:04d}" if i else ""


def views(rng: random.Random, rows: int, sessions: int) -> list[Row]:
    return [
        {"row": i, "session": None if i % 50 == 7 else session(rng.randrange(sessions)), "label": i % 2}
        for i in range(rows)
    ]


def texts(rng: random.Random, sessions: int) -> list[Row]:
    return [
        {"session": session(i), "text": f"text {i}", "words": [f"w{i}", None] if rng.random() < 0.5 else None}
        for i in range(sessions)
        if i % 4 != 1
    ]


def scored(folder: Path, seed: int, rows: int, requests: int, *, files: int = 1) -> Path:
    """The configuration of a dataset d: random events with the scores of their requests."""
    rng = random.Random(seed)
    made = Lake(folder)
    made.write("ml.events", EVENTS, ("request_id", 4), events(rng, rows, requests), files=files)
    made.write("features.scores", SCORES, ("request_id", 8), scores(rng, requests))
    dataset = {
        "training": {"table": "ml.events"},
        "key": ["request_id"],
        "staging": [{"table": "features.scores"}],
    }
    return made.config({"d": dataset})
