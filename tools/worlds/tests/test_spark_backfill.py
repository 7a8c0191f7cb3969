"""What penstock init backfill prints, run by Spark, and the rows that the product then reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from reading import BINARY, Reader, Row

DAYS = 3


class Tables(Reader):
    """A training table in days and buckets, with its dataset."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        spark.sql("CREATE NAMESPACE default.features")
        spark.sql(
            "CREATE TABLE default.ml.train (item bigint, k bigint, day date, `old one` bigint) USING iceberg "
            "PARTITIONED BY (day, bucket(4, k)) TBLPROPERTIES ('format-version' = '2')"
        )
        spark.sql(
            "INSERT INTO default.ml.train SELECT id, if(id % 11 = 0, NULL, id % 40), "
            f"date'2026-01-01' + CAST(id % {DAYS} AS int), id % 5 FROM range(400)"
        )
        training = {"table": "ml.train"}
        super().__init__(folder, {"d": {"training": training, "key": ["k"]}})
        self._catalogs = json.dumps(json.loads(self._config.read_text())["catalogs"])

    def backfill(self, *flags: str, source: str = "") -> None:
        """Runs the printed SQL, and makes the printed dataset the one that is read."""
        command = [BINARY, "init", "backfill", "d", "--config", str(self._config)]
        command += ["--spark-catalog", "default", *flags]
        printed = {
            what: subprocess.run(
                [*command, "--print", what], check=True, capture_output=True, text=True, timeout=60
            ).stdout
            for what in ("sql", "yaml")
        }
        statements = printed["sql"].replace("<source>", source).split(";\n")
        for statement in statements:
            if any(line and not line.startswith("--") for line in statement.splitlines()):
                self.spark.sql(statement)
        self._config.write_text(f"catalogs: {self._catalogs}\n{printed['yaml']}")

    def want(self, text: str) -> list[Row]:
        """Spark's answer, by item."""
        return [row.asDict() for row in self.spark.sql(text + " ORDER BY item").collect()]

    def got(self, columns: list[str]) -> list[Row]:
        """The product's answer, by item."""
        return sorted(self.rows("d", columns=columns), key=lambda row: row["item"])


def source(every: int) -> str:
    """A value for every key of each day, but for some."""
    return (
        "(SELECT id % 40 AS k, date'2026-01-01' + CAST(id DIV 40 AS int) AS day, id * 7 AS `new one`, "
        f"array(id, id + 1) AS history FROM range({DAYS * 40}) WHERE id % {every} <> 0)"
    )


@pytest.fixture
def tables(spark: Any, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path)


# spec: backfill-9
@pytest.mark.parametrize("buckets", ["2", "4", "12"])
def test_a_new_feature(tables: Tables, buckets: str) -> None:
    """A table of the printed layout is joined as Spark joins it, and is laid out as promised."""
    tables.backfill(
        "--table",
        "features.new",
        "--column",
        "`new one`:long",
        "--column",
        "history:list<long>",
        "--buckets",
        buckets,
        source=source(3),
    )
    want = tables.want(
        "SELECT item, t.k, `new one`, history FROM default.ml.train t LEFT JOIN default.features.new s ON t.k = s.k AND t.day = s.day"
    )
    assert sum(row["new one"] is not None for row in want) > 100
    assert tables.got(["item", "k", "new one", "history"]) == want
    files = [
        row["file_path"].removeprefix("file:")
        for row in tables.want("SELECT file_path, 0 AS item FROM default.features.new.files")
    ]
    partitions = tables.want("SELECT partition, 0 AS item FROM default.features.new.partitions")
    assert len(files) == len(partitions) > DAYS
    for file in files:
        keys = pq.read_table(file).column("k").to_pylist()
        assert keys == sorted(keys)
        assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


# What makes Spark join tables of one layout partition by partition.
_BY_PARTITION = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def test_spark_joins_the_table_without_a_shuffle(tables: Tables) -> None:
    """Spark, too, sees that both tables have one layout."""
    tables.backfill("--table", "features.new", "--column", "history:list<long>", source=source(3))
    join = "SELECT t.item, history FROM default.ml.train t JOIN default.features.new s ON t.k = s.k AND t.day = s.day"
    plans = []
    for settings in ({"spark.sql.autoBroadcastJoinThreshold": "-1"}, _BY_PARTITION):
        for name, value in settings.items():
            tables.spark.conf.set(name, value)
        plans.append(tables.spark.sql(f"EXPLAIN {join}").collect()[0][0])
    assert "Exchange" in plans[0]
    assert "Exchange" not in plans[1]
    assert "SortMergeJoin" in plans[1]


# spec: backfill-9
def test_a_changed_and_a_removed_feature(tables: Tables) -> None:
    """An overlay replaces the values that match; the new column is then removed again."""
    tables.backfill(
        "--table", "features.new", "--column", "`new one`:long", "--replaces", "old one", source=source(4)
    )
    want = tables.want(
        "SELECT item, if(s.k IS NULL, t.`old one`, s.`new one`) AS `old one` "
        "FROM default.ml.train t LEFT JOIN default.features.new s ON t.k = s.k AND t.day = s.day"
    )
    assert tables.got(["item", "old one"]) == want
    tables.backfill("--table", "features.newest", "--column", "history:list<long>", source=source(5))
    tables.backfill("--removes", "history")
    assert tables.got(["item", "old one"]) == want
    assert [f.name for f in tables.spark.table("default.features.newest").schema.fields] == ["k", "day"]
