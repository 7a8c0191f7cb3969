"""Computes expressions in DuckDB or Spark, for the tests of package function.

Usage: engine.py duckdb|spark DIRECTORY

The directory has cases.json, a list of objects. "input" names a file with rows, "sql" is an expression over
their columns, and "output" names the file to write, whose column has the type of the file "like". All files
are Arrow IPC files in the directory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc


def read(path: Path) -> pa.Table:
    """Reads all rows of a file."""
    with ipc.open_file(path) as rows:
        return rows.read_all()


def duckdb_runner() -> Callable[[pa.Table, str], pa.Table]:
    """Returns a function that computes an expression in DuckDB."""
    import duckdb

    connection: Any = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")

    def run(rows: pa.Table, sql: str) -> pa.Table:
        connection.register("rows", rows)
        return connection.execute(f"SELECT {sql} AS r FROM rows").to_arrow_table()

    return run


def spark_runner() -> Callable[[pa.Table, str], pa.Table]:
    """Returns a function that computes an expression in Spark."""
    from pyspark.sql import SparkSession  # type: ignore[import-not-found,unused-ignore]

    session: Any = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )

    def run(rows: pa.Table, sql: str) -> pa.Table:
        frame = session.createDataFrame(rows).coalesce(1)
        return frame.selectExpr(f"{sql} AS r").toArrow()

    return run


def main(engine: str, directory: Path) -> None:
    """Computes all cases."""
    run = {"duckdb": duckdb_runner, "spark": spark_runner}[engine]()
    for case in json.loads((directory / "cases.json").read_text()):
        like = read(directory / case["like"]).schema.field(0).type
        try:
            result = run(read(directory / case["input"]), case["sql"]).column("r")
            if isinstance(result, pa.ChunkedArray):
                result = result.combine_chunks()
            result = result.cast(like)
        except Exception as e:
            raise SystemExit(f"{case['sql']}: {e}") from e
        table = pa.table({"r": result})
        with ipc.new_file(directory / case["output"], table.schema) as out:
            out.write_table(table)


main(sys.argv[1], Path(sys.argv[2]))
