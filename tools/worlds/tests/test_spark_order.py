"""What was written first, where Spark wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reading import ORDERS, Reader, ask_for_orders, check_order, misled, staged
from spark_session import java_table


def six(spark: Any, formats: list[int]) -> list[int]:
    """Appends one row for each format version, and returns the snapshots.

    Under hashed paths, as object stores want them, names say nothing of the order.
    """
    spark.sql("CREATE TABLE default.ml.train (k bigint) USING iceberg")
    spark.sql("INSERT INTO default.ml.train VALUES (1)")
    while True:
        spark.sql(
            "CREATE TABLE default.ml.six (k bigint, v bigint, tie bigint) USING iceberg PARTITIONED BY (bucket(2, k)) "
            f"TBLPROPERTIES ('format-version' = '{formats[0]}', 'write.object-storage.enabled' = 'true')"
        )
        for i, version in enumerate(formats):
            if i > 0 and version != formats[i - 1]:
                spark.sql(f"ALTER TABLE default.ml.six SET TBLPROPERTIES ('format-version' = '{version}')")
            spark.sql(f"INSERT INTO default.ml.six VALUES (1, {i}, {i // 3})")
        snapshots = list(java_table(spark, "default.ml.six").snapshots())
        io = java_table(spark, "default.ml.six").io()
        if misled([next(iter(s.addedDataFiles(io))).location() for s in snapshots]):
            return [s.snapshotId() for s in snapshots]
        spark.sql("DROP TABLE default.ml.six PURGE")


@pytest.mark.parametrize("formats", [[1] * 6, [1, 1, 1, 1, 2, 2], [1, 1, 1, 3, 3, 3], [2] * 6], ids=str)
def test_commits_order_rows(spark: Any, tmp_path: Path, formats: list[int]) -> None:
    snapshots = six(spark, formats)
    assert ask_for_orders(tmp_path) == {name: want for name, (_, want) in ORDERS.items()}
    for i, snapshot in enumerate(snapshots):  # Spark too says that append i made snapshot i
        held = spark.sql(f"SELECT max(v), count(*) FROM default.ml.six VERSION AS OF {snapshot}").collect()
        assert [tuple(row) for row in held] == [(i, i + 1)]


@pytest.mark.parametrize(
    ("version", "expired", "refused"), [(1, 1, False), (1, 2, True), (1, 5, True), (2, 5, False)]
)
def test_expired_snapshots_leave_no_order(
    spark: Any, tmp_path: Path, version: int, expired: int, refused: bool
) -> None:
    """One commit beyond the chain's break is the oldest; two have no known order."""
    snapshots = six(spark, [version] * 6)
    expire = java_table(spark, "default.ml.six").expireSnapshots()
    for snapshot in snapshots[:expired]:
        expire = expire.expireSnapshotId(snapshot)
    expire.commit()
    for name, answer in ask_for_orders(tmp_path).items():
        if refused:
            check_order(name, answer, expired)
        else:
            assert answer == ORDERS[name][1], name
    assert sorted(Reader(tmp_path, {"all": staged("all")}).values("all", "v")) == list(range(6))
