"""Compares the columns of files before and after columns were added, with pyarrow and DuckDB.

A folder has old-N.parquet and new-N.parquet. What an engine cannot read of the old file is
not compared. Prints the number of files that each engine compared.
"""

import pathlib
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq


def with_duckdb(path):
    """Returns all rows as DuckDB reads them."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    return con.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()


def main():
    """Compares all files."""
    compared = {}
    for old in sorted(pathlib.Path(sys.argv[1]).glob("old-*.parquet")):
        new = old.with_name(old.name.replace("old-", "new-"))
        for read in (pq.read_table, with_duckdb):
            try:
                before = read(old)
            except (OSError, pa.ArrowException, duckdb.Error):
                continue
            after = read(new)
            assert after.num_rows == before.num_rows, new
            assert after.column_names == [*before.column_names, "new number", "new list"], (
                new,
                after.column_names,
            )
            for name in before.column_names:
                assert after.column(name).to_pylist() == before.column(name).to_pylist() or has_nan(
                    before.column(name)
                ), (new, name)
            assert after.column("new number").to_pylist() == list(range(after.num_rows)), new
            compared[read.__name__] = compared.get(read.__name__, 0) + 1
    print(*sorted(compared.values()))


def has_nan(column):
    """Reports whether a column differs from itself."""
    return column.to_pylist() != column.to_pylist()


if __name__ == "__main__":
    main()
