"""The join as SQL for DuckDB, and a connection to run it on."""

from __future__ import annotations

import duckdb
from inputs import Inputs, Source


def connect() -> duckdb.DuckDBPyConnection:
    """An empty in-memory database that is free to give rows in any order."""
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    return connection


def join(inputs: Inputs) -> str:
    """The join of the pinned files, all columns."""
    key, staging_key = inputs.keys
    features = ", ".join(f's."{name}"' for name in inputs.features)
    return (
        f"SELECT t.*, {features} FROM {_files(inputs.training)} t "
        f'{inputs.join.upper()} JOIN {_files(inputs.staging)} s ON t."{key}" = s."{staging_key}"'
    )


def _files(source: Source) -> str:
    names = ", ".join("'" + path.replace("'", "''") + "'" for path in source.files)
    # The bucket in the folder's name is no column of the table.
    return f"read_parquet([{names}], hive_partitioning = false)"
