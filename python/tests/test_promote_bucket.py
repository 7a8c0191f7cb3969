"""Columns are promoted in a bucket, over an SQL catalog and a REST catalog, taken back and promoted again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from bucket_lake import BucketLake, bucket_lake
from lake import Row, join
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import ListType, LongType, NestedField, StringType

ROWS = "features.rows"
TRAINING: list[Row] = [{"id": i, "key": None if i % 10 == 7 else i // 2} for i in range(100)]
FEATURES: list[Row] = [
    {"key": k, "history": list(range(k % 4)), "country": f"c{k % 3}"} for k in range(0, 60, 3)
]


def append(table: Table, rows: list[Row]) -> None:
    table.append(pa.Table.from_pylist(rows, schema_to_pyarrow(table.schema())))


def make(lake: BucketLake) -> int:
    """Makes a training table of two files, and a staging table; returns the snapshot of the first one."""
    history = ListType(9, LongType(), element_required=False)
    training = lake.catalog.create_table(
        ROWS, Schema(NestedField(1, "id", LongType()), NestedField(2, "key", LongType()))
    )
    staging = lake.catalog.create_table(
        "features.history",
        Schema(
            NestedField(1, "key", LongType()),
            NestedField(2, "history", history),
            NestedField(3, "country", StringType()),
        ),
    )
    append(training, TRAINING[:40])
    append(training, TRAINING[40:])
    append(staging, FEATURES)
    entry = {"table": "features.history"}
    lake.datasets({"home": {"training": {"table": ROWS}, "key": ["key"], "staging": [entry]}})
    current = training.current_snapshot()
    assert current is not None
    return int(current.snapshot_id)


def run(lake: BucketLake, *arguments: str) -> str:
    done = lake.accidents.run(lake.command(*arguments))
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def read(lake: BucketLake) -> list[Row]:
    """The training table under its current schema; that of a snapshot is older."""
    found: list[Row] = lake.catalog.load_table(ROWS).scan().to_arrow().sort_by("id").to_pylist()
    return found


# spec: promote-1, promote-8, promote-9, promote-12, promote-29, compact-20
@pytest.mark.parametrize("rest", [False, True])
def test_columns_in_a_bucket_are_promoted(tmp_path: Path, *, rest: bool) -> None:
    with bucket_lake(tmp_path, rest=rest) as lake:
        before = make(lake)
        want = join(TRAINING, FEATURES, ("key", "key"))
        got = json.loads(run(lake, "promote", "home", "history", "--json"))
        assert got["rows_compared"] == 100
        assert read(lake) == want
        assert json.loads(run(lake, "promote", "home", "history", "--json"))["existed"]
        own = {"id": 100, "key": 3, "history": [7], "country": "of its writer"}
        append(lake.catalog.load_table(ROWS), [own])
        assert read(lake) == [*want, own]
        run(lake, "demote", ROWS, "country", "--yes")
        assert read(lake) == [*TRAINING, {"id": 100, "key": 3}]
        assert json.loads(run(lake, "promote", "home", "history", "--json"))["rows"] == 1
        assert read(lake) == join([*TRAINING, {"id": 100, "key": 3}], FEATURES, ("key", "key"))
        run(lake, "restore", ROWS, "--snapshot", str(before))
        assert read(lake) == [{**r, "history": None, "country": None} for r in TRAINING]
        assert "already, but 2 files lacked them" in run(lake, "promote", "home", "history")
        assert read(lake) == want
        assert "nothing was written" in run(lake, "promote", "home", "history")
        assert lake.unneeded(ROWS) == (set(), 0)
