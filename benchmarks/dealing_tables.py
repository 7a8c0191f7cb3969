"""Makes small tables for `go run ./benchmarks/dealing check`: rows of T in buckets, and in buckets of each day.

Both training tables have the same rows and are joined with the same staging table, which has no days.

    .venv/bench/bin/python benchmarks/dealing_tables.py FOLDER [--rows 1000000]
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import tables
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, IdentityTransform

DAYS = 20


def ensure(folder: Path, sizes: tables.Sizes) -> None:
    """Make the tables in `folder`, unless they exist with the same sizes."""
    tables.made(folder, {"dealing": 1, **dataclasses.asdict(sizes)}, lambda: _write(folder, sizes))


def _write(folder: Path, sizes: tables.Sizes) -> None:
    drawn = tables.draw(sizes)
    day = np.arange(sizes.rows, dtype=np.int32) * DAYS // sizes.rows
    training = drawn.training.append_column("day", pa.array(day, pa.int32()))
    catalog = tables.open_catalog(folder)
    catalog.create_namespace("bench")
    tables.create(catalog, "staging", drawn.staging, sizes.buckets)
    tables.create(catalog, "buckets", training, sizes.buckets)
    schema = tables.iceberg_schema(training.schema)
    fields = [
        PartitionField(
            schema.find_field(tables.KEY).field_id, 1000, BucketTransform(sizes.buckets), "request_id_bucket"
        ),
        PartitionField(schema.find_field("day").field_id, 1001, IdentityTransform(), "day"),
    ]
    by_day = catalog.create_table("bench.days", schema, partition_spec=PartitionSpec(*fields))
    by_day.append(training)
    catalog.close()
    tables.write_config(folder, _DATASETS)


_DATASETS = """\
datasets:
  buckets:
    training: {table: bench.buckets}
    key: [request_id]
    staging: [{table: bench.staging}]
  days:
    training: {table: bench.days}
    key: [request_id]
    staging: [{table: bench.staging}]
"""


def main() -> None:
    """Make the tables."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="training rows; a tenth as many requests")
    arguments = parser.parse_args()
    ensure(arguments.folder, tables.Sizes(rows=arguments.rows, requests=arguments.rows // 10))


if __name__ == "__main__":
    main()
