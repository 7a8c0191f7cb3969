"""Spark plans with the distinct counts that penstock stats --keep writes, and its own statistics stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_session import java_table
from staging import Lake

pytestmark = pytest.mark.timeout(300)  # the first test starts Spark

_TABLE = "ml.history"
_SETTINGS = {
    "spark.sql.cbo.enabled": "true",
    "spark.sql.cbo.planStats.enabled": "true",
    "spark.sql.iceberg.report-column-stats": "true",
}
_THETA = "apache-datasketches-theta-v1"
Blob = tuple[str, tuple[int, ...], bytes]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    made = Lake(spark, tmp_path)
    made.stage(_TABLE, rows_of(range(4000)), "--key", "k", "--buckets", "4")
    return made


def rows_of(items: range) -> pa.Table:
    """Rows with known numbers of distinct values."""
    return pa.table(
        {
            "k": pa.array(items, pa.int64()),
            "few": pa.array([i % 7 for i in items], pa.int32()),
            "text": pa.array([None if i % 3 == 0 else f"t{i % 500}" for i in items]),
            "score": pa.array([i / 8 for i in items], pa.float64()),
        }
    )


def distinct_of(rows: pa.Table) -> dict[str, int]:
    """The exact numbers of distinct values, without nulls."""
    return {name: len(set(rows.column(name).to_pylist()) - {None}) for name in rows.column_names}


def distinct_in_spark(lake: Lake) -> dict[str, int]:
    """The distinct counts of columns with which Spark plans a scan."""
    for name, value in _SETTINGS.items():
        lake.spark.conf.set(name, value)
    stats = lake.spark.table(f"default.{_TABLE}")._jdf.queryExecution().optimizedPlan().stats()
    found, entries = {}, stats.attributeStats().iterator()
    while entries.hasNext():
        entry = entries.next()
        count = entry._2().distinctCount()
        if count.isDefined():
            found[entry._1().name()] = int(str(count.get()))
    return found


def blobs(lake: Lake) -> list[Blob]:
    """Type, fields and bytes of each blob of the table's only statistics file, as Iceberg's own library reads them."""
    table = java_table(lake.spark, f"default.{_TABLE}")
    (file,) = table.statisticsFiles()
    jvm = lake.spark._jvm
    reader = jvm.org.apache.iceberg.puffin.Puffin.read(table.io().newInputFile(file.path())).build()
    pairs, found = reader.readAll(reader.fileMetadata().blobs()).iterator(), []
    while pairs.hasNext():
        pair = pairs.next()
        blob = jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(pair.second())
        found.append((pair.first().type(), tuple(pair.first().inputFields()), bytes(blob)))
    reader.close()
    return found


def near(found: dict[str, int], exact: dict[str, int]) -> None:
    """Sees that counts have an error of at most 5 %, three times the standard error of the sketches."""
    assert found.keys() == exact.keys()
    for name, count in exact.items():
        assert abs(found[name] - count) <= 0.05 * count, f"{name}: {found[name]}, not {count}"


# spec: stats-14
def test_spark_plans_with_kept_distinct_counts(lake: Lake) -> None:
    assert distinct_in_spark(lake) == {}
    lake.penstock("stats", _TABLE, "--keep")
    near(distinct_in_spark(lake), distinct_of(rows_of(range(4000))))
    lake.stage(_TABLE, rows_of(range(4000, 9000)))
    lake.penstock("stats", _TABLE, "--keep")
    near(distinct_in_spark(lake), distinct_of(rows_of(range(9000))))


# spec: stats-15
def test_statistics_of_spark_stay(lake: Lake) -> None:
    lake.call("compute_table_stats", f"table => '{_TABLE}', columns => array('few', 'text')")
    of_spark = blobs(lake)
    assert sorted(fields for kind, fields, _ in of_spark if kind == _THETA) == [(2,), (3,)]
    lake.penstock("stats", _TABLE, "--keep")
    both = blobs(lake)
    assert both[: len(of_spark)] == of_spark
    assert sorted(fields for kind, fields, _ in both if kind == _THETA) == [(1,), (2,), (3,), (4,)]
    near(distinct_in_spark(lake), distinct_of(rows_of(range(4000))))


# spec: stats-16
def test_penstock_reads_tables_after_spark_replaced_its_statistics(lake: Lake) -> None:
    lake.penstock("stats", _TABLE, "--keep")
    lake.call("compute_table_stats", f"table => '{_TABLE}'")
    assert {kind for kind, _, _ in blobs(lake)} == {_THETA}
    lake.penstock("log", _TABLE)
    lake.penstock("stats", _TABLE, "--keep")
    assert {kind for kind, _, _ in blobs(lake)} == {_THETA, "penstock-stats-v1"}
    near(distinct_in_spark(lake), distinct_of(rows_of(range(4000))))
