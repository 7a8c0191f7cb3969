"""The statements of docs/layout.md for Spark write a table that is laid out as the page says."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from reading import BINARY, Reader
from spark_session import java_table

PAGE = Path(__file__).parents[3] / "docs" / "layout.md"
REQUESTS, BUCKETS = 400, 16


def statements(text: str) -> list[str]:
    """The SQL statements of the page's section for Spark."""
    section = text.partition("\n## Spark SQL\n")[2].partition("\n## ")[0]
    found = re.search(r"^```sql\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    assert found
    return [one.strip() for one in found[1].split(";") if one.strip()]


def test_page_writes_a_table_that_joins(spark: Any, tmp_path: Path) -> None:
    spark.sql("USE default")
    for namespace in ("features", "logs"):
        spark.sql(f"CREATE NAMESPACE default.{namespace}")
    spark.sql("CREATE TABLE logs.clicks (request_id string, price double) USING iceberg")
    rows = ", ".join(f"('r{i % REQUESTS:05d}', {i % 7})" for i in range(3 * REQUESTS))
    spark.sql(f"INSERT INTO logs.clicks VALUES {rows}")
    spark.sql(
        f"CREATE TABLE ml.impressions (request_id string) USING iceberg PARTITIONED BY (bucket({BUCKETS}, request_id))"
    )
    spark.sql("INSERT INTO ml.impressions SELECT request_id FROM logs.clicks")
    for statement in statements(PAGE.read_text(encoding="utf-8")):
        spark.sql(statement)
    files = spark.sql("SELECT file_path, partition FROM features.user_history.files").collect()
    assert len(files) == len({str(file.partition) for file in files}) == BUCKETS, "one file for each bucket"
    order = java_table(spark, "default.features.user_history").sortOrder()
    assert order.isSorted()

    dataset = {
        "training": {"table": "ml.impressions"},
        "key": ["request_id"],
        "staging": [{"table": "features.user_history"}],
    }
    found = Reader(tmp_path, {"clicks": dataset}).rows("clicks", columns=["request_id", "clicks"])
    assert len(found) == 3 * REQUESTS
    assert {row["clicks"] for row in found} == {3}
    verified = subprocess.run(
        [BINARY, "verify", "clicks", "--config", str(tmp_path / "penstock.yaml"), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(verified.stdout)
    assert report["tables"][1]["join"]["matched"] == 3 * REQUESTS
    assert all(file["bucketed"] and not file["wrong"] for file in report["tables"][1]["files"])


def test_overwrite_branches_and_compaction(spark: Any) -> None:
    def rows(table: str) -> int:
        return int(spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0])

    text = PAGE.read_text(encoding="utf-8")
    spark.sql("USE default")
    spark.sql("CREATE NAMESPACE default.features")
    table = "features.user_history"
    create, order, _ = statements(text)
    spark.sql(create)
    spark.sql(order)
    for first in (0, 50):
        values = ", ".join(f"('r{i:05d}', 1, 0.5)" for i in range(first, first + 50))
        spark.sql(f"INSERT INTO {table} VALUES {values}")
    spark.sql(f"CALL system.rewrite_data_files(table => '{table}', options => map('min-input-files', '2'))")
    assert rows(table) == 100
    assert rows(f"{table}.files") == BUCKETS
    spark.sql(f"INSERT OVERWRITE {table} VALUES ('r00001', 2, 0.5)")
    assert rows(table) == 1, "all rows are replaced, not those of one bucket"

    for statement in ("ALTER TABLE features.user_history CREATE BRANCH audit", "system.fast_forward("):
        assert statement in text
    spark.sql("ALTER TABLE features.user_history CREATE BRANCH audit")
    spark.sql(f"INSERT INTO {table}.branch_audit VALUES ('r00002', 2, 0.5)")
    assert rows(table) == 1
    spark.sql(f"CALL system.fast_forward('{table}', 'main', 'audit')")
    assert rows(table) == 2
