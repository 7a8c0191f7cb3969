"""Reads a table with PyIceberg, and its data files with DuckDB.

read_elsewhere.py FOLDER TABLE [FILE...] < filters.json

The input is a list of filters, each an object with the filter as PyIceberg and as DuckDB spell it; an
empty text reads all rows. The output has the rows of each filter, once as PyIceberg gives them, and once
as DuckDB gives them from the Parquet files that PyIceberg plans for the filter: so both prune, PyIceberg by
manifests, DuckDB by the statistics and Bloom filters of the files. DuckDB applies position deletes; its
rows are null if there are deletes of another kind. With the Parquet files that the table was written from,
the output also has their rows, which DuckDB filters in memory, so that nothing is pruned.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from plain import Plain, plain_rows
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table


class Elsewhere:
    """A table, as PyIceberg and DuckDB read it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        self._table: Table = self._catalog.load_table(name)
        self._columns = [field.name for field in self._table.schema().fields]

    def close(self) -> None:
        """Closes the catalog's file."""
        self._catalog.engine.dispose()

    def read(self, where: dict[str, str]) -> dict[str, Any]:
        """The rows of a filter, as both give them, and PyIceberg's count of them."""
        scan = self._table.scan(row_filter=where["pyiceberg"] or "true")
        files = list(scan.plan_files())
        return {
            "pyiceberg": plain_rows(scan.to_arrow().select(self._columns)),
            "count": scan.count(),
            "files": len(files),
            "duckdb": self._files(files, where["duckdb"]),
        }

    def _files(self, files: list[Any], where: str) -> list[list[Plain]] | None:
        """The rows of data files, without those that position deletes name."""
        if not files:
            return []
        deletes = {path(delete.file_path) for task in files for delete in task.delete_files}
        if any(not delete.endswith(".parquet") for delete in deletes):
            return None
        with duckdb.connect() as db:
            db.execute("SET TimeZone = 'UTC'")
            alive = ""
            if deletes:
                alive = (
                    f"ANTI JOIN (SELECT regexp_replace(file_path, '^file:/*', '/') AS filename, pos "
                    f"AS file_row_number FROM read_parquet({sorted(deletes)})) USING (filename, file_row_number)"
                )
            columns = ", ".join(f'"{name}"' for name in self._columns)
            source = sorted(path(task.file.file_path) for task in files)
            rows = db.execute(
                f"SELECT {columns} FROM read_parquet({source}, union_by_name = true, filename = true, "
                f"file_row_number = true, hive_partitioning = false) {alive} WHERE {where or 'true'}"
            )
            return plain_rows(rows.to_arrow_table())


def unpruned(sources: pa.Table, where: str) -> list[list[Plain]]:
    """The rows of a filter, which is evaluated on every row."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("sources", sources)
        return plain_rows(db.execute(f"SELECT * FROM sources WHERE {where or 'true'}").to_arrow_table())


def path(location: str) -> str:
    """The path of a file."""
    return "/" + location.removeprefix("file:").lstrip("/")


def main() -> None:
    """Answers one request."""
    elsewhere = Elsewhere(Path(sys.argv[1]), sys.argv[2])
    sources = [pq.read_table(file) for file in sys.argv[3:]]
    answers = []
    for where in json.load(sys.stdin):
        answers.append(elsewhere.read(where))
        if sources:
            answers[-1]["sources"] = unpruned(pa.concat_tables(sources), where["duckdb"])
    json.dump(answers, sys.stdout)
    elsewhere.close()


if __name__ == "__main__":
    main()
