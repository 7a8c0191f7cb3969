"""Computes expressions in DuckDB or Spark, for the tests of package function.

Usage: engine.py duckdb|spark DIRECTORY

The directory has cases.json, a list of objects. "input" names a file with rows, "sql" is an expression over
their columns, and "output" names the file to write, whose column has the type of the file "like". All files
are Arrow IPC files in the directory.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

Runner = Callable[[pa.Table, list[str]], pa.Table]

# Number of cases in a query: each query of Spark takes seconds.
TOGETHER = 25


def read(path: Path) -> pa.Table:
    """Reads all rows of a file."""
    with ipc.open_file(path) as rows:
        return rows.read_all()


def duckdb_runner() -> Runner:
    """Returns a function that computes expressions in DuckDB."""
    import duckdb

    connection: Any = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")

    def run(rows: pa.Table, sql: list[str]) -> pa.Table:
        connection.register("rows", rows)
        columns = ", ".join(f"{text} AS r{i}" for i, text in enumerate(sql))
        return connection.execute(f"SELECT {columns} FROM rows").to_arrow_table()

    return run


def spark_runner() -> Runner:
    """Returns a function that computes expressions in Spark."""
    from pyspark.sql import SparkSession  # type: ignore[import-not-found,unused-ignore]

    session: Any = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )

    def run(rows: pa.Table, sql: list[str]) -> pa.Table:
        frame = session.createDataFrame(rows).coalesce(1)
        return frame.selectExpr(*(f"{text} AS r{i}" for i, text in enumerate(sql))).toArrow()

    return run


def together(cases: list[dict[str, str]], directory: Path) -> tuple[pa.Table, list[str]]:
    """Returns the inputs of cases as one table, and their expressions over its columns.

    Tables are filled up with nulls, since they may have different numbers of rows.
    """
    inputs = [read(directory / case["input"]) for case in cases]
    rows = max(t.num_rows for t in inputs)
    columns, sql = {}, []
    for i, (case, table) in enumerate(zip(cases, inputs, strict=True)):
        for name, column in zip(table.column_names, table.columns, strict=True):
            nulls = pa.nulls(rows - len(column), column.type)
            columns[f"{name}{i}"] = pa.chunked_array([*column.chunks, nulls], column.type)
        sql.append(
            re.sub(
                r"'(?:[^']|'')*'|\b[abcd]\b",
                lambda m, i=i: m[0] if m[0][0] == "'" else f"{m[0]}{i}",
                case["sql"],
            )
        )
    return pa.table(columns), sql


def main(engine: str, directory: Path) -> None:
    """Computes all cases."""
    run = {"duckdb": duckdb_runner, "spark": spark_runner}[engine]()
    cases = json.loads((directory / "cases.json").read_text())
    for start in range(0, len(cases), TOGETHER):
        part = cases[start : start + TOGETHER]
        rows, sql = together(part, directory)
        results = run(rows, sql)
        for i, case in enumerate(part):
            like = read(directory / case["like"])
            # Floats may round: Spark's floor returns a long where DuckDB's returns a float.
            kind = like.schema.field(0).type
            column = results.column(f"r{i}").slice(0, like.num_rows)
            result = column.cast(kind, safe=not pa.types.is_floating(kind))
            table = pa.table({"r": result})
            with ipc.new_file(directory / case["output"], table.schema) as out:
                out.write_table(table)


main(sys.argv[1], Path(sys.argv[2]))
