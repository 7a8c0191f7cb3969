"""Eight processes of penstock stage on one table, beside Spark and PyIceberg."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reading import BINARY

_ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(_ROOT / "python" / "tests"))

from stage_runs import DAYS, FOREIGN, StageRuns  # type: ignore[import-not-found]  # noqa: E402 - of the client's tests

_TABLE = "features.busy"
_PYTHON = os.environ.get("PENSTOCK_PYTHON", str(_ROOT / ".venv" / "test" / "bin" / "python"))
_JARS = Path(os.environ.get("PENSTOCK_REST_JARS", _ROOT / ".bin" / "rest-jars"))
STEPS = ("insert", "merge", "compact")
_PROCESSES, _CHANGES = 8, 20
_START_LIMIT = 60.0


class SparkWriter:
    """Spark's changes, some of which fail since others commit first.

    Attributes:
        rows: that are in the table.
        made: the kinds of changes that were made.
    """

    def __init__(self, spark: Any) -> None:
        self._spark, self._next = spark, 2 * FOREIGN
        self.rows: set[int] = set()
        self.made: set[str] = set()

    def step(self) -> None:
        """Makes the next change."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        change = getattr(self, STEPS[self._next // 5 % len(STEPS)])
        self._next += 5
        try:
            change()
            self.made.add(change.__name__)
        except (PySparkException, Py4JError) as e:
            if not any(word in str(e) for word in ("CommitFailed", "ValidationException", "locked")):
                raise

    def insert(self) -> None:
        """Adds rows."""
        self._spark.sql(
            f"INSERT INTO default.{_TABLE} SELECT id, id % {DAYS} FROM range({self._next}, {self._next + 5})"
        )
        self.rows |= set(range(self._next, self._next + 5))

    def merge(self) -> None:
        """Deletes rows by position, in files that may have rows of others, and adds some."""
        gone = sorted(self.rows)[::2]
        new = range(self._next, self._next + 5)
        ids = ", ".join(f"({n}L)" for n in [*gone, *new])
        self._spark.sql(
            f"MERGE INTO default.{_TABLE} t USING (SELECT * FROM VALUES {ids} AS v(id)) s ON t.id = s.id "
            f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, s.id % {DAYS})"
        )
        self.rows = (self.rows - set(gone)) | set(new)

    def compact(self) -> None:
        """Writes small files, and files with deletes, into others."""
        self._spark.sql(
            f"CALL default.system.rewrite_data_files(table => '{_TABLE}', options => map('min-input-files', '2', "
            "'delete-file-threshold', '1', 'partial-progress.enabled', 'true', 'partial-progress.max-commits', '4'))"
        )

    def answers(self, snapshots: list[int]) -> list[dict[str, int]]:
        """The count and the sum of the rows' numbers in snapshots."""
        out = []
        for snapshot in snapshots:
            (row,) = self._spark.sql(
                f"SELECT count(*) c, sum(id) s, count(DISTINCT id) d FROM default.{_TABLE} VERSION AS OF {snapshot}"
            ).collect()
            assert row.c == row.d, snapshot
            out.append({"snapshot": snapshot, "count": row.c, "sum": row.s or 0})
        return out


@contextlib.contextmanager
def java_catalog(folder: Path) -> Iterator[str]:
    """Iceberg's own REST catalog, over the catalog of a folder; returns its URI."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
        "CATALOG_WAREHOUSE": f"file://{folder}/warehouse",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_REST_PORT": str(port),
        "CATALOG_CATALOG_NAME": "default",
        "CATALOG_CLIENTS": "1",
    }
    command = ["java", "-Xmx256m", "-cp", f"{_JARS}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    with (
        (folder / "rest.log").open("w") as log,
        subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log) as process,
    ):
        try:
            uri = f"http://127.0.0.1:{port}"
            limit = time.monotonic() + _START_LIMIT
            while True:
                try:
                    with urllib.request.urlopen(f"{uri}/v1/config"):
                        break
                except OSError:
                    assert time.monotonic() < limit, (folder / "rest.log").read_text()
                    time.sleep(0.1)
            yield uri
        finally:
            process.kill()


def foreign(what: str, settings: dict[str, str]) -> subprocess.Popen[str]:
    """PyIceberg, in an environment of its own."""
    program = _ROOT / "python" / "tests" / "foreign_writer.py"
    command = [_PYTHON, str(program), what, json.dumps(settings), _TABLE]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def contend(spark: Any, folder: Path, settings: dict[str, str]) -> None:
    """Writes to a table with everything at once, and checks each snapshot with PyIceberg and Spark."""
    spark.sql("CREATE NAMESPACE default.features")
    spark.sql(
        f"CREATE TABLE default.{_TABLE} (id bigint, day bigint) USING iceberg PARTITIONED BY (day, bucket(2, id)) "
        "TBLPROPERTIES ('format-version' = '2', 'write.merge.mode' = 'merge-on-read', "
        "'write.merge.isolation-level' = 'snapshot', 'commit.retry.num-retries' = '100', "
        "'commit.retry.min-wait-ms' = '10', 'commit.retry.max-wait-ms' = '100')"
    )
    block = settings | {"writes": {"namespaces": ["features"]}}
    config = folder / "penstock.yaml"
    config.write_text(json.dumps({"catalogs": {"default": block}}))
    stages = StageRuns([BINARY, "stage", _TABLE, "--config", str(config)], folder, _PROCESSES, _CHANGES)
    writer = SparkWriter(spark)
    with foreign("write", settings) as beside:
        stages.start()
        while stages.running() or len(writer.made) < len(STEPS):
            writer.step()
        stages.wait()
        answer, _ = beside.communicate(timeout=120)
    assert stages.failures == []
    with foreign("read", settings) as reader:
        seen = json.loads(reader.communicate(timeout=600)[0])
    rows = stages.rows() | writer.rows | set(json.loads(answer))
    assert seen[-1]["count"] == len(rows)
    assert seen[-1]["sum"] == sum(rows)
    assert len(seen) > _PROCESSES * _CHANGES
    wanted = seen if "PENSTOCK_LONG" in os.environ else [*seen[::10], seen[-1]]
    assert writer.answers([one["snapshot"] for one in wanted]) == wanted


# spec: write-24, stage-33, stage-37
@pytest.mark.timeout(1800)
def test_stages_beside_spark_and_pyiceberg(spark: Any, tmp_path: Path) -> None:
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    contend(spark, tmp_path, settings)


# spec: write-24, stage-33, stage-37
@pytest.mark.timeout(1800)
def test_stages_by_rest_beside_spark_and_pyiceberg(jvm: Any, tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    with java_catalog(tmp_path) as uri:
        spark = jvm.newSession()
        prefix = "spark.sql.catalog.default"
        for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": uri}.items():
            spark.conf.set(prefix + key, value)
        spark.conf.set(prefix + ".cache-enabled", "false")
        contend(spark, tmp_path, {"type": "rest", "uri": uri})
