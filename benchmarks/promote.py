"""Measures what it costs to make three features columns of the training table, in three ways.

    .venv/spark/bin/python benchmarks/promote.py --binary bin/penstock --rows 1000000 --rounds 3
    .venv/spark/bin/python benchmarks/promote.py --binary bin/penstock --t .bench/full --rounds 3

The ways are three MERGE statements of Spark, one for each feature; the single INSERT OVERWRITE that `penstock
promote --print spark` prints; and `penstock promote`. All tables are bucketed by the key, and Spark joins them
without a shuffle. Each way gets a fresh copy of the training table in each round, and the ways take turns, so that
whatever else the machine does falls on all of them. CPU seconds are those of the process that does the work: Spark's
JVM, whose code a first round of few rows has compiled, or penstock. In the end the columns of all ways are compared. It prints medians,
and the ratio to `penstock promote`. With `--t`, the tables are copies of T (`tables.py`) and the features three of its staging columns.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from process import cpu_seconds
from pyspark.sql import SparkSession

_ROOT = Path(__file__).resolve().parent.parent
JARS = Path(os.environ.get("PENSTOCK_SPARK_JARS", _ROOT / ".bin" / "spark-jars"))
BUCKETS = 16
WAYS = ("merge", "overwrite", "promote")

Cost = tuple[float, float]
"""Seconds by the clock, and CPU seconds."""


@dataclasses.dataclass(frozen=True)
class Tables:
    """What the tables are filled with."""

    name: str
    columns: str  # of the training table
    training: str  # the query for its rows
    features: dict[str, str]  # columns and their types, each of a staging table of its own
    staging: str  # the query for request_id and all features
    item: str  # a training column that differs from row to row


def drawn(rows: int) -> Tables:
    """Rows that Spark draws."""
    return Tables(
        f"{rows} rows",
        "request_id bigint, item bigint, label float, score double, surface string, recent array<bigint>",
        "SELECT id DIV 10 AS request_id, id, CAST(rand(2) AS float), rand(3), "
        f"concat('surface ', id % 7), transform(sequence(1, 10), i -> (id * i) % 1000) FROM range({rows})",
        {"f1": "bigint", "f2": "double", "f3": "array<bigint>"},
        "SELECT id AS request_id, id * 7 AS f1, rand(1) AS f2, "
        f"transform(sequence(1, 20), i -> (id * i) % 100000) AS f3 FROM range({rows // 10}) WHERE id % 100 <> 0",
        "item",
    )


def t(spark: SparkSession, folder: Path) -> Tables:
    """The rows of T, as tables.py wrote them."""

    def files(name: str) -> str:
        return f"parquet.`{(folder / 'warehouse/bench' / name / 'data').resolve()}`"

    fields = spark.table(files("t")).drop("request_id_bucket").schema.fields
    names = [field.name for field in fields]
    return Tables(
        "T",
        ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields),
        f"SELECT {', '.join(names)} FROM {files('t')}",
        {"u0": "float", "country": "string", "history": "array<bigint>"},
        f"SELECT request_id, u0, country, history FROM {files('staging')}",
        "i4",
    )


def start(scratch: Path, cores: int) -> SparkSession:
    """Starts Spark over a SQL catalog in a folder."""
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.jars": ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "6g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "unused"),
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalog.default": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.default.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "spark.sql.catalog.default.uri": f"jdbc:sqlite:{scratch}/catalog.db",
        "spark.sql.catalog.default.warehouse": f"file://{scratch}/warehouse",
        "spark.sql.catalog.default.jdbc.schema-version": "V1",
        "spark.sql.catalog.default.clients": "1",
        "spark.sql.catalog.default.cache-enabled": "false",
        # Tables of one layout are joined bucket by bucket.
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("promote")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Promoting:
    """The tables of one size, and the three ways."""

    def __init__(self, spark: SparkSession, folder: Path, binary: str, tables: Tables) -> None:
        self._spark, self._folder, self._binary, self._tables = spark, folder, binary, tables
        self._pid = spark._sc._gateway.proc.pid

    def sql(self, text: str) -> list[Any]:
        """The rows of a statement."""
        rows: list[Any] = self._spark.sql(text).collect()
        return rows

    def write(self) -> None:
        """Makes the training table, of about ten rows per request, and the features."""
        self.sql("CREATE NAMESPACE IF NOT EXISTS default.b")
        self._create("t", self._tables.columns)
        self.sql(f"INSERT INTO default.b.t {self._tables.training} ORDER BY request_id")
        for name, of in self._tables.features.items():
            self._create(name, f"request_id bigint, {name} {of}")
            self.sql(
                f"INSERT INTO default.b.{name} SELECT request_id, {name} FROM ({self._tables.staging}) ORDER BY request_id"
            )

    def _create(self, name: str, columns: str) -> None:
        self.sql(f"DROP TABLE IF EXISTS default.b.{name} PURGE")
        self.sql(
            f"CREATE TABLE default.b.{name} ({columns}) USING iceberg PARTITIONED BY (bucket({BUCKETS}, request_id)) "
            "TBLPROPERTIES ('format-version' = '2', 'write.parquet.compression-codec' = 'zstd')"
        )
        self.sql(f"ALTER TABLE default.b.{name} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY request_id")

    def copy(self, way: str) -> None:
        """Makes the training table of a way again."""
        self._create(f"t_{way}", self._tables.columns)
        self.sql(f"INSERT INTO default.b.t_{way} SELECT * FROM default.b.t")
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{self._folder}/catalog.db",
            "warehouse": f"file://{self._folder}/warehouse",
            "writes": {"namespaces": ["b"]},
        }
        dataset = {
            "training": {"table": f"b.t_{way}"},
            "key": ["request_id"],
            "staging": [{"table": f"b.{name}"} for name in self._tables.features],
        }
        config = {"catalogs": {"default": catalog}, "datasets": {"d": dataset}}
        (self._folder / "penstock.yaml").write_text(json.dumps(config))

    def take(self, way: str) -> Cost:
        """Makes the features columns in one way."""
        script = (
            self._penstock("--print", "spark", "--spark-catalog", "default") if way == "overwrite" else ""
        )
        ways: dict[str, Callable[[], Any]] = {
            "merge": self._merge,
            "overwrite": lambda: self._run(script),
            "promote": self._penstock,
        }
        began, spark, children = time.perf_counter(), cpu_seconds(self._pid), _children()
        ways[way]()
        used = cpu_seconds(self._pid) - spark if way != "promote" else _children() - children
        return time.perf_counter() - began, used

    def _merge(self) -> None:
        for name, of in self._tables.features.items():
            self.sql(f"ALTER TABLE default.b.t_merge ADD COLUMN {name} {of}")
            self.sql(
                f"MERGE INTO default.b.t_merge t USING default.b.{name} s ON t.request_id = s.request_id "
                f"WHEN MATCHED THEN UPDATE SET t.{name} = s.{name}"
            )

    def _run(self, script: str) -> None:
        for statement in script.split(";\n"):
            if any(line and not line.startswith("--") for line in statement.splitlines()):
                self.sql(statement)

    def _penstock(self, *flags: str) -> str:
        command = [
            self._binary,
            "promote",
            "d",
            *self._tables.features,
            "--config",
            str(self._folder / "penstock.yaml"),
        ]
        return subprocess.run([*command, *flags], check=True, capture_output=True, text=True).stdout

    def sums(self, way: str) -> Any:
        """Sums that depend on all values of the new columns, and on the rows that they are in."""
        hashes = ", ".join(
            f"sum(CAST(xxhash64({self._tables.item}, {name}) AS decimal(38, 0)))"
            for name in self._tables.features
        )
        counts = ", ".join(f"count({name})" for name in self._tables.features)
        return self.sql(f"SELECT count(*), {counts}, {hashes} FROM default.b.t_{way}")[0]


def _children() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(promoting: Promoting, rounds: int) -> dict[str, list[Cost]]:
    """The costs of each way, in turns.

    Raises:
        SystemExit: if two ways give other values.
    """
    promoting.write()
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        sums = {}
        for way in WAYS:
            promoting.copy(way)
            costs[way].append(promoting.take(way))
            sums[way] = promoting.sums(way)
        if len(set(sums.values())) != 1:
            sys.exit(f"promote: the ways differ: {sums}")
    return costs


def main() -> None:
    """Measures, and prints a table."""
    flags = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    flags.add_argument("--binary", default="bin/penstock")
    flags.add_argument("--rows", type=int, default=1_000_000)
    flags.add_argument("--t", type=Path, help="a folder of tables.py: measure T instead")
    flags.add_argument("--rounds", type=int, default=3)
    asked = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = start(Path(folder), len(os.sched_getaffinity(0)))
        measure(Promoting(spark, Path(folder), asked.binary, drawn(20_000)), 1)  # what the JVM compiles first
        tables = t(spark, asked.t) if asked.t else drawn(asked.rows)
        costs = measure(Promoting(spark, Path(folder), asked.binary, tables), asked.rounds)
        spark.stop()
    walls = {way: statistics.median(wall for wall, _ in costs[way]) for way in WAYS}
    cpus = {way: statistics.median(cpu for _, cpu in costs[way]) for way in WAYS}
    print(f"{tables.name}, {asked.rounds} rounds\n\n| way | s | CPU s | s, times | CPU s, times |")
    print("|---|---:|---:|---:|---:|")
    for way in WAYS:
        ratios = f"{walls[way] / walls['promote']:.1f} | {cpus[way] / cpus['promote']:.1f}"
        print(f"| {way} | {walls[way]:.1f} | {cpus[way]:.1f} | {ratios} |")


if __name__ == "__main__":
    main()
