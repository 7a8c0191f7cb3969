"""Counts the rows of a dataset in Spark, which reads each split in a task of its own.

    spark-submit spark_frame.py loader.example.com:8815 homefeed --by country --sum clicks

Prints a line of JSON for each value of a column, with the number of rows and the sum of another column.
"""

from __future__ import annotations

import argparse
import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import penstock.spark


def main() -> None:
    """Prints the result."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("server", help="host:port, which all machines of the cluster can reach")
    arguments.add_argument("dataset")
    arguments.add_argument("--by", required=True)
    arguments.add_argument("--sum", required=True)
    arguments.add_argument("--token-file", help="a file with the token, on all machines of the cluster")
    given = arguments.parse_args()
    spark = SparkSession.builder.getOrCreate()
    frame = penstock.spark.read(
        spark, given.server, given.dataset, columns=[given.by, given.sum], token_file=given.token_file
    )
    sums = frame.groupBy(given.by).agg(
        f.count("*").alias("rows"), f.sum(f.col(given.sum).cast("double")).alias("sum")
    )
    for row in sums.orderBy(f.col(given.by).asc_nulls_first()).collect():
        print(json.dumps(row.asDict()))
    spark.stop()


if __name__ == "__main__":
    main()
