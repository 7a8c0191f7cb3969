"""Polars in a loop over buckets, as one would write it: what a program does that knows the layout.

The files of one residue class of buckets of both tables are read and joined, and then the next ones. The
frames of a class are in memory at once, and no more.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator

import polars as pl
import pyarrow as pa
from inputs import Source

from peers import contender


class Loop:
    """Yields slices of the joined frame of each class of buckets."""

    def __init__(self, settings: contender.Settings) -> None:
        self._inputs = settings.inputs
        self._batch_rows = settings.batch_rows
        training, staging = by_bucket(settings.inputs.training), by_bucket(settings.inputs.staging)
        # Buckets match if they are equal modulo this (Iceberg's bucket transform).
        self._classes = math.gcd(max(training) + 1, max(staging) + 1)
        self._training, self._staging = training, staging

    def stream(self) -> Iterator[pl.DataFrame]:
        """Read and join class by class."""
        key, staging_key = self._inputs.keys
        for number in range(self._classes):
            features = _read(self._staging, number, self._classes)
            rows = _read(self._training, number, self._classes)
            joined = rows.join(
                features, left_on=key, right_on=staging_key, how=self._inputs.join, maintain_order="none"
            )
            yield from joined.iter_slices(self._batch_rows)

    def rows(self, batch: pl.DataFrame) -> int:
        """The frame's height."""
        return batch.height

    def arrow(self, batch: pl.DataFrame) -> list[pa.RecordBatch]:
        """The frame as Arrow."""
        return list(batch.to_arrow().to_batches())


def by_bucket(source: Source) -> dict[int, list[str]]:
    """The files of each bucket of a table; every bucket has a file."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for path in source.files:
        named = re.search(r"_bucket=(\d+)/", path)
        if named is None:
            raise ValueError(f"{path} names no bucket")
        found[int(named[1])].append(path)
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"{source.table} has empty buckets: the number of its buckets is unknown")
    return dict(found)


def _read(buckets: dict[int, list[str]], number: int, classes: int) -> pl.DataFrame:
    files = [path for bucket, paths in buckets.items() if bucket % classes == number for path in paths]
    # The bucket in the folder's name is no column of the table.
    return pl.read_parquet(files, hive_partitioning=False, glob=False)


if __name__ == "__main__":
    contender.main(Loop, contender.joined)
