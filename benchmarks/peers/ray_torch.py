"""Ray Data on this machine's cores, into tensors."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import ray
from inputs import Source

from peers import contender, into_torch

# As many as the tables have buckets; both cores join.
_PARTITIONS = 16


class Ray:
    """Reads both tables, shuffles and joins them, and gives batches of Arrow."""

    def __init__(self, settings: contender.Settings) -> None:
        self._inputs = settings.inputs
        self._batch_rows = settings.batch_rows
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)

    def stream(self) -> Iterator[pa.Table]:
        """Run the join."""
        joined = _read(self._inputs.training).join(
            _read(self._inputs.staging),
            join_type="inner" if self._inputs.join == "inner" else "left_outer",
            num_partitions=_PARTITIONS,
            on=(self._inputs.key,),
        )
        yield from joined.iter_batches(batch_size=self._batch_rows, batch_format="pyarrow")

    def rows(self, batch: pa.Table) -> int:
        """The table's rows."""
        return int(batch.num_rows)

    def arrow(self, batch: pa.Table) -> list[pa.RecordBatch]:
        """The table as record batches."""
        return list(batch.combine_chunks().to_batches())


def _read(source: Source) -> ray.data.Dataset:
    return ray.data.read_parquet(source.files, partitioning=None)


if __name__ == "__main__":
    into_torch.main(Ray)
