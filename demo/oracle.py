"""The same join, computed by DuckDB over the same Parquet files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq


def join(key: str, training: list[str], staging: list[list[str]]) -> pa.Table:
    """Left join of the training files with each list of staging files."""
    columns = ["training.*"]
    source = f"{_files(training)} AS training"
    for index, files in enumerate(staging):
        columns.append(f"staging{index}.* EXCLUDE ({key})")
        source += f" LEFT JOIN {_files(files)} AS staging{index}"
        source += f" ON training.{key} = staging{index}.{key}"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(f"SELECT {', '.join(columns)} FROM {source}").to_arrow_table()


@contextmanager
def altered(files: list[str], key: str, column: str, folder: Path) -> Iterator[tuple[list[str], int]]:
    """The files, one of them a copy in which one list has another first element.

    Gives the files and the key of the altered row. The copy lives as long as
    the context.
    """
    original = next(path for path in files if pq.read_metadata(path).num_rows > 0)
    rows = pq.ParquetFile(original).read()
    lists = rows[column].to_pylist()
    chosen = len(lists) // 2
    lists[chosen] = [lists[chosen][0] + 1, *lists[chosen][1:]]
    place = rows.column_names.index(column)
    changed = rows.set_column(place, rows.field(column), pa.array(lists, rows.field(column).type))
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy = Path(temporary) / "altered.parquet"
        pq.write_table(changed, copy)
        replaced = [str(copy) if path == original else path for path in files]
        yield replaced, rows[key][chosen].as_py()


def _files(paths: list[str]) -> str:
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    # Folders are named by bucket, which DuckDB would turn into a column.
    return f"read_parquet([{listed}], hive_partitioning = false)"
