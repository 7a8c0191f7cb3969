"""Polars' streaming engine in the consumer's own process."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow as pa
from inputs import Source

from peers import contender


class Polars:
    """Collects a lazy join in batches; a batch is a data frame."""

    def __init__(self, settings: contender.Settings) -> None:
        self._inputs = settings.inputs
        self._batch_rows = settings.batch_rows

    def stream(self) -> Iterator[pl.DataFrame]:
        """Run the join."""
        key, staging_key = self._inputs.keys
        joined = _scan(self._inputs.training).join(
            _scan(self._inputs.staging),
            left_on=key,
            right_on=staging_key,
            how=self._inputs.join,
            maintain_order="none",
        )
        yield from joined.collect_batches(
            chunk_size=self._batch_rows, maintain_order=False, engine="streaming"
        )

    def rows(self, batch: pl.DataFrame) -> int:
        """The frame's height."""
        return batch.height

    def arrow(self, batch: pl.DataFrame) -> list[pa.RecordBatch]:
        """The frame as Arrow."""
        return list(batch.to_arrow().to_batches())


def _scan(source: Source) -> pl.LazyFrame:
    # The bucket in the folder's name is no column of the table.
    return pl.scan_parquet(source.files, hive_partitioning=False, glob=False)


if __name__ == "__main__":
    contender.main(Polars, contender.joined)
