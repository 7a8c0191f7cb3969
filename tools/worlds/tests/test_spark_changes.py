"""Spark and penstock stage change one table in turn: every engine reads all rows, once."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from plain import plain_rows
from staging import Lake, exchanges

_FIRST = datetime.date(2026, 1, 1)
_COLUMNS = pa.schema([("item", pa.int64()), ("k", pa.int64()), ("day", pa.date32()), ("v", pa.string())])
pytestmark = pytest.mark.timeout(300)  # the first test starts Spark

_TABLE = "ml.history"
_NEW = ("--key", "k", "--buckets", "4", "--partition", "day")


def rows_of(items: range, days: int = 3, v: str = "new") -> pa.Table:
    """Rows of some days, whose keys repeat."""
    return pa.Table.from_pylist(
        [{"item": i, "k": i % 50, "day": _FIRST + datetime.timedelta(days=i % days), "v": f"{v} {i % 9}"} for i in items],
        _COLUMNS,
    )  # fmt: skip


class Model:
    """What the table is to hold, and a lake that holds it."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.rows = lake, {}  # type: Lake, dict[int, list[Any]]

    def put(self, rows: pa.Table) -> None:
        """Adds rows, or changes those of the same items."""
        self.rows |= {row[0]: row for row in plain_rows(rows)}

    def drop(self, gone: Any) -> None:
        """Removes the rows that a function finds."""
        self.rows = {item: row for item, row in self.rows.items() if not gone(row)}

    def check(self) -> None:
        """Sees that everyone reads the rows of the model."""
        self.lake.check(_TABLE, list(self.rows.values()))

    def append(self, items: range, *flags: str) -> dict[str, Any]:
        """Stages new rows."""
        self.put(rows_of(items))
        return self.lake.stage(_TABLE, rows_of(items), *flags)

    def snapshot(self) -> int:
        """The snapshot of main."""
        refs = self.lake.sql(f"SELECT snapshot_id FROM default.{_TABLE}.refs WHERE name = 'main'")
        return int(refs[0]["snapshot_id"])

    def spark_changes(self) -> None:
        """Spark appends, merges, updates and deletes."""
        sql = self.lake.sql
        sql(
            f"INSERT INTO default.{_TABLE} SELECT id, id % 50, date'2026-01-02', 'spark' FROM range(1000, 1040)"
        )
        self.put(pa.Table.from_pylist(
            [{"item": i, "k": i % 50, "day": datetime.date(2026, 1, 2), "v": "spark"} for i in range(1000, 1040)], _COLUMNS
        ))  # fmt: skip
        sql(
            f"MERGE INTO default.{_TABLE} t USING (SELECT id FROM range(20, 30)) s ON t.item = s.id "
            "WHEN MATCHED AND t.item < 25 THEN UPDATE SET v = 'merged' WHEN MATCHED THEN DELETE"
        )
        for item in range(20, 25):
            self.rows[item][3] = "merged"
        self.drop(lambda row: 25 <= row[0] < 30)
        sql(f"UPDATE default.{_TABLE} SET v = 'updated' WHERE k = 7")
        for row in self.rows.values():
            row[3] = "updated" if row[1] == 7 else row[3]
        sql(f"DELETE FROM default.{_TABLE} WHERE k = 9 AND day = date'2026-01-01'")
        self.drop(lambda row: row[1] == 9 and row[2] == "2026-01-01")


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


# spec: stage-91, stage-92
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_table_that_penstock_created(lake: Lake, mode: str) -> None:
    """Spark changes the table, compacts it and expires its snapshots between calls of stage."""
    model = Model(lake)
    model.append(range(200), *_NEW)
    lake.sql(f"ALTER TABLE default.{_TABLE} SET TBLPROPERTIES ({properties(mode)})")
    model.spark_changes()
    model.check()
    model.append(range(200, 260))
    before = model.snapshot()
    kept = dict(model.rows)
    model.drop(lambda row: row[2] == "2026-01-01")  # the only day of the rows that replace it
    model.put(rows_of(range(300, 330), days=1))
    replaced = lake.stage(_TABLE, rows_of(range(300, 330), days=1), "--mode", "replace")
    model.check()
    lake.penstock("undo", _TABLE, "--from", str(before), "--to", str(replaced["snapshot"]))
    model.rows = kept
    model.check()
    lake.call("rewrite_data_files", f"table => '{_TABLE}', options => map('rewrite-all', 'true')")
    lake.call("rewrite_manifests", f"table => '{_TABLE}'")
    model.append(range(400, 430))
    lake.clean(_TABLE)
    model.check()
    model.append(range(500, 510))
    model.check()


def properties(mode: str) -> str:
    """The properties of a table that say how Spark changes rows."""
    return ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))


# spec: stage-91, stage-92
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_that_spark_created(lake: Lake, version: int) -> None:
    """Penstock stages to a table of each format version, whose spec Spark changed."""
    lake.sql(
        f"CREATE TABLE default.{_TABLE} (item bigint, k bigint, day date, v string) USING iceberg "
        f"PARTITIONED BY (day, bucket(2, k)) TBLPROPERTIES ('format-version' = '{version}'"
        + (f", {properties('merge-on-read')})" if version > 1 else ")")
    )
    model = Model(lake)
    lake.sql(f"INSERT INTO default.{_TABLE} SELECT id, id % 50, date'2026-01-01', 'first' FROM range(40)")
    model.put(pa.Table.from_pylist(
        [{"item": i, "k": i % 50, "day": _FIRST, "v": "first"} for i in range(40)], _COLUMNS
    ))  # fmt: skip
    model.append(range(100, 200))
    lake.sql(f"ALTER TABLE default.{_TABLE} REPLACE PARTITION FIELD bucket(2, k) WITH bucket(4, k)")
    model.append(range(200, 260))
    model.spark_changes()
    model.check()
    model.append(range(300, 310))
    lake.call("rewrite_data_files", f"table => '{_TABLE}', options => map('rewrite-all', 'true')")
    model.append(range(400, 410))
    lake.clean(_TABLE)
    model.check()
    if version == 3:
        ids = lake.in_spark(_TABLE, columns="_row_id")
        assert None not in [row[0] for row in ids]
        assert len({row[0] for row in ids}) == len(ids)


# spec: stage-91
def test_columns_that_evolve(lake: Lake) -> None:
    """Columns are added by stage and by Spark; rows that lack them are null everywhere."""
    model = Model(lake)
    model.append(range(60), *_NEW)
    more = rows_of(range(60, 90)).append_column("score", pa.array([1.5] * 30, pa.float64()))
    lake.stage(_TABLE, more, "--evolve")
    model.rows = {item: [*row, None] for item, row in model.rows.items()}
    model.put(more)
    model.check()
    lake.sql(f"ALTER TABLE default.{_TABLE} ADD COLUMN tags array<string>")
    lake.sql(f"UPDATE default.{_TABLE} SET tags = array('x') WHERE k < 5")
    model.rows = {item: [*row, ["x"] if row[1] < 5 else None] for item, row in model.rows.items()}
    last = more.append_column("tags", pa.array([["y", None]] * 30, pa.list_(pa.string())))
    last = last.set_column(0, "item", pa.array(range(90, 120), pa.int64()))
    model.put(last)
    lake.stage(_TABLE, last)
    model.check()


# spec: stage-92
def test_a_branch_that_is_published(lake: Lake) -> None:
    """Spark reads the branch and then main, and expires what neither has."""
    model = Model(lake)
    model.append(range(100), *_NEW)
    lake.stage(_TABLE, rows_of(range(100, 140)), "--branch", "candidate")
    model.check()
    branch = lake.in_spark(f"{_TABLE}.branch_candidate")
    assert len(branch) == 140
    lake.penstock("publish", _TABLE, "candidate")
    model.put(rows_of(range(100, 140)))
    model.check()
    lake.sql(f"ALTER TABLE default.{_TABLE} DROP BRANCH candidate")
    lake.clean(_TABLE)
    model.check()
    assert len(lake.sql(f"SELECT * FROM default.{_TABLE}.snapshots")) == 1
    model.append(range(200, 210))
    model.check()


# spec: stage-92
@pytest.mark.parametrize("version", [2, 3])
def test_a_table_that_was_promoted(lake: Lake, version: int) -> None:
    """A promoted column has the values of Spark's own join, also after Spark has expired and compacted the table, and after demote."""
    lake.sql(
        "CREATE TABLE default.ml.train (item bigint, k bigint, day date) USING iceberg "
        f"PARTITIONED BY (day, bucket(2, k)) TBLPROPERTIES ('format-version' = '{version}', {properties('merge-on-read')})"
    )
    insert = "INSERT INTO default.ml.train SELECT id, if(id % 7 = 0, NULL, id % 50), date'2026-01-01' + CAST(id % 3 AS int) FROM"
    lake.sql(f"{insert} range(200)")
    lake.sql("DELETE FROM default.ml.train WHERE item % 10 = 3")
    lake.sql(f"{insert} range(200, 260)")
    lake.stage(_TABLE, rows_of(range(40)), "--key", "k", "--like", "ml.train")
    want = lake.spark.sql(
        f"SELECT t.item, t.k, t.day, s.v FROM default.ml.train t LEFT JOIN default.{_TABLE} s ON t.k = s.k AND t.day = s.day"
    )
    rows = plain_rows(want.toArrow())
    assert len(rows) == 240
    assert len({row[3] for row in rows}) > 5
    before = plain_rows(lake.spark.table("default.ml.train").toArrow())
    entry = {"table": _TABLE, "align": {"training": "day"}, "columns": ["v"]}
    lake.datasets({"d": {"training": {"table": "ml.train"}, "key": ["k"], "staging": [entry]}})
    lake.penstock("promote", "d", "history")
    lake.check("ml.train", rows)
    lake.clean("ml.train")
    lake.check("ml.train", rows)
    lake.penstock("demote", "ml.train", "v", "--yes")
    lake.clean("ml.train")
    lake.check("ml.train", before)
    lake.datasets({"d": {"training": {"table": "ml.train"}, "key": ["k"], "staging": [entry]}})
    lake.penstock("promote", "d", "history")
    lake.call("rewrite_data_files", "table => 'ml.train', options => map('rewrite-all', 'true')")
    lake.clean("ml.train")
    lake.check("ml.train", rows)


# What makes Spark join tables of one layout partition by partition.
_BY_PARTITION = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


# spec: stage-93
def test_spark_joins_a_staged_table_without_a_shuffle(lake: Lake) -> None:
    """A table that --like laid out has its training table's partitions, which Spark joins one by one."""
    lake.sql(
        "CREATE TABLE default.ml.train (item bigint, k bigint, day date) USING iceberg "
        "PARTITIONED BY (day, bucket(4, k)) TBLPROPERTIES ('format-version' = '2')"
    )
    lake.sql(
        "INSERT INTO default.ml.train SELECT id, id % 50, date'2026-01-01' + CAST(id % 3 AS int) FROM range(300)"
    )
    result = lake.stage(_TABLE, rows_of(range(40)), "--key", "k", "--like", "ml.train")
    assert result["created"]
    join = (
        f"SELECT t.item, s.v FROM default.ml.train t JOIN default.{_TABLE} s ON t.k = s.k AND t.day = s.day"
    )
    found = []
    for settings in ({"spark.sql.autoBroadcastJoinThreshold": "-1"}, _BY_PARTITION):
        for name, value in settings.items():
            lake.spark.conf.set(name, value)
        plan = lake.spark.sql(f"EXPLAIN {join}").collect()[0][0]
        print(plan)
        found.append((len(exchanges(plan)), plan.count("SortMergeJoin"), len(lake.sql(join))))
    rows = found[0][2]
    assert rows > 0
    assert found == [(2, 1, rows), (0, 1, rows)]
