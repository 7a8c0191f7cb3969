"""Counts the rows of a dataset in DuckDB, which reads the stream batch by batch.

    python duckdb_stream.py 127.0.0.1:8815 homefeed --by country --sum clicks

Prints a line of JSON for each value of a column, with the number of rows and the sum of another column.
"""

from __future__ import annotations

import argparse
import json

import duckdb

import penstock


def main() -> None:
    """Prints the result."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("server", help="host:port")
    arguments.add_argument("dataset")
    arguments.add_argument("--by", required=True)
    arguments.add_argument("--sum", required=True)
    given = arguments.parse_args()
    with (
        penstock.connect(given.server) as client,
        client.read(given.dataset, columns=[given.by, given.sum]) as stream,
        duckdb.connect() as session,
    ):
        session.register("rows", stream)
        found = session.execute(
            f"""SELECT "{given.by}", count(*), sum("{given.sum}")::DOUBLE
            FROM rows GROUP BY 1 ORDER BY 1 NULLS FIRST"""
        )
        for value, rows, total in found.fetchall():
            print(json.dumps({given.by: value, "rows": rows, "sum": total}))


if __name__ == "__main__":
    main()
