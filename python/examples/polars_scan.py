"""Counts the rows of a dataset in Polars, which reads only the columns that it needs.

    python polars_scan.py 127.0.0.1:8815 homefeed --by country --sum clicks

Prints a line of JSON for each value of a column, with the number of rows and the sum of another column.
"""

from __future__ import annotations

import argparse
import json

import polars as pl

import penstock
import penstock.polars


def main() -> None:
    """Prints the result."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("server", help="host:port")
    arguments.add_argument("dataset")
    arguments.add_argument("--by", required=True)
    arguments.add_argument("--sum", required=True)
    given = arguments.parse_args()
    with penstock.connect(given.server) as client:
        rows = penstock.polars.scan(client, given.dataset)
        sums = rows.group_by(given.by).agg(
            pl.len().alias("rows"), pl.col(given.sum).cast(pl.Float64).sum().alias("sum")
        )
        for row in sums.sort(given.by).collect(engine="streaming").to_dicts():
            print(json.dumps(row))


if __name__ == "__main__":
    main()
