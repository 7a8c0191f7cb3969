"""Counts the rows of a dataset in Daft, which reads each split in a task of its own.

    python daft_frame.py 127.0.0.1:8815 homefeed --by country --sum clicks

Prints a line of JSON for each value of a column, with the number of rows and the sum of another column.
"""

from __future__ import annotations

import argparse
import json

import daft

import penstock.daft


def main() -> None:
    """Prints the result."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("server", help="host:port")
    arguments.add_argument("dataset")
    arguments.add_argument("--by", required=True)
    arguments.add_argument("--sum", required=True)
    given = arguments.parse_args()
    rows = penstock.daft.read(given.server, given.dataset)
    sums = rows.groupby(given.by).agg(
        daft.lit(1).count().alias("rows"), daft.col(given.sum).cast("double").sum().alias("sum")
    )
    for row in sums.sort(given.by, nulls_first=True).to_pylist():
        print(json.dumps(row))


if __name__ == "__main__":
    main()
