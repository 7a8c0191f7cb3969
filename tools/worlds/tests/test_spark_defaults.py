"""Columns that files lack or hold otherwise, as Spark and Iceberg's Java API leave them.

What Spark answers is right, for every query that reads such a column.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reading import Reader
from spark_session import java_table

# Ten rows before the column d came, with the default 77, and ten after it.
_BEFORE = "(id, k) SELECT id, id % 5 FROM range(10)"
_AFTER = "(id, k, d) SELECT id, id % 5, 5 FROM range(10, 20)"

_TRAINING = {"training": {"table": "ml.t"}, "key": ["k"], "staging": []}
_STAGING = {
    "training": {"table": "ml.train"},
    "key": ["k"],
    "staging": [{"table": "ml.t", "key": {"k": "k"}, "duplicates": "all"}],
}
# Queries that read the column d of the table in either role, whether or not it
# is asked for.
_READS: dict[str, dict[str, Any]] = {
    "output": {"columns": ["id", "d"]},
    "equal": {"columns": ["id"], "filter": "d = 77"},
    "null": {"columns": ["id"], "filter": "d IS NULL"},
    "either": {"columns": ["id"], "filter": "d = 5 OR id < 3"},
}
_SAMPLED = {"columns": ["id"], "sample": {"rate": 0.5, "where": "d = 77"}}


def create(spark: Any, name: str, columns: str, version: int = 3) -> None:
    spark.sql(
        f"CREATE TABLE default.ml.{name} ({columns}) USING iceberg PARTITIONED BY (bucket(2, k)) "
        f"TBLPROPERTIES ('format-version' = '{version}')"
    )


def add_default(spark: Any) -> None:
    """Adds the column d with the initial default 77, for which SQL has no word."""
    api = spark._jvm.org.apache.iceberg
    table = java_table(spark, "default.ml.t")
    default = api.expressions.Literal.of(77)
    table.updateSchema().addColumn("d", api.types.Types.IntegerType.get(), None, default).commit()


def ids(spark: Any, where: str) -> list[int]:
    """What Spark answers."""
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM default.ml.t WHERE {where}").collect())


@pytest.fixture
def reader(spark: Any, tmp_path: Path) -> Reader:
    create(spark, "train", "k bigint")
    spark.sql("INSERT INTO default.ml.train SELECT id FROM range(5)")
    create(spark, "t", "id bigint, k bigint")
    return Reader(tmp_path, {"training": _TRAINING, "staging": _STAGING})


@pytest.fixture(params=["training", "staging"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def agrees(spark: Any, reader: Reader, role: str) -> None:
    """Every query gives the rows that Spark gives."""
    for query in list(_READS.values())[1:]:
        assert sorted(reader.values(role, "id", **query)) == ids(spark, query["filter"])
    rows = spark.sql("SELECT id, d FROM default.ml.t").collect()
    found = [(row["id"], row["d"]) for row in reader.rows(role, columns=["id", "d"])]
    assert sorted(found) == sorted((row[0], row[1]) for row in rows)
    if role == "training":  # the rows that the condition is not about stay
        assert set(ids(spark, "d IS NULL OR d <> 77")) <= set(reader.values(role, "id", **_SAMPLED))


def test_files_from_before_a_default(spark: Any, reader: Reader, role: str) -> None:
    spark.sql(f"INSERT INTO default.ml.t {_BEFORE}")
    add_default(spark)
    spark.sql(f"INSERT INTO default.ml.t {_AFTER}")
    assert ids(spark, "d = 77") == list(range(10))
    assert ids(spark, "d IS NULL") == []
    agrees(spark, reader, role)
    spark.sql(
        "CALL default.system.rewrite_data_files(table => 'ml.t', options => map('rewrite-all', 'true'))"
    )
    agrees(spark, reader, role)


def begun_before(spark: Any) -> Any:
    """Removes the files of the table, and returns the commit that adds them again later."""
    table = java_table(spark, "default.ml.t")
    scans = table.newScan().planFiles().iterator()
    late = []
    while scans.hasNext():
        late.append(scans.next().file())
    delete, append = table.newDelete(), table.newFastAppend()
    for file in late:
        delete = delete.deleteFile(file)
        append = append.appendFile(file)
    delete.commit()
    return append


def test_a_late_writer_left_out_a_default(spark: Any, reader: Reader, role: str) -> None:
    """A file that was begun before the column, and committed under the schema that has it."""
    spark.sql(f"INSERT INTO default.ml.t {_BEFORE}")
    append = begun_before(spark)
    add_default(spark)
    spark.sql(f"INSERT INTO default.ml.t {_AFTER}")
    append.commit()
    assert ids(spark, "d = 77") == list(range(10))
    agrees(spark, reader, role)


def test_a_late_writer_without_a_default(spark: Any, reader: Reader, role: str) -> None:
    """What has no default is null in files that lack it, whatever schema they were committed under."""
    spark.sql(f"INSERT INTO default.ml.t {_BEFORE}")
    append = begun_before(spark)
    spark.sql("ALTER TABLE default.ml.t ADD COLUMN d int")
    spark.sql(f"INSERT INTO default.ml.t {_AFTER}")
    append.commit()
    assert ids(spark, "d IS NULL") == list(range(10))
    for query in list(_READS.values())[1:]:
        assert sorted(reader.values(role, "id", **query)) == ids(spark, query["filter"])


def test_a_promoted_column(spark: Any, reader: Reader, role: str) -> None:
    spark.sql("ALTER TABLE default.ml.t ADD COLUMN d int")
    spark.sql(f"INSERT INTO default.ml.t {_AFTER}")
    spark.sql("ALTER TABLE default.ml.t ALTER COLUMN d TYPE bigint")
    spark.sql("INSERT INTO default.ml.t (id, k, d) SELECT id, id % 5, 77 FROM range(20, 30)")
    assert ids(spark, "d = 77") == list(range(20, 30))
    agrees(spark, reader, role)
