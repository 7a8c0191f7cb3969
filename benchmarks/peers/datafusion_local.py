"""DataFusion in the consumer's own process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import datafusion
import pyarrow as pa
from inputs import Source

from peers import contender


class DataFusion:
    """Streams a join's record batches."""

    def __init__(self, settings: contender.Settings) -> None:
        config = (
            datafusion.SessionConfig()
            .with_batch_size(settings.batch_rows)
            .with_target_partitions(len(os.sched_getaffinity(0)))
        )
        self._context = datafusion.SessionContext(config)
        inputs = settings.inputs
        for name, source in (("t", inputs.training), ("s", inputs.staging)):
            self._context.register_parquet(name, _folder(source))
        features = ", ".join(f's."{name}"' for name in inputs.features)
        key, staging_key = inputs.keys
        join = inputs.join.upper()
        self._query = f'SELECT t.*, {features} FROM t {join} JOIN s ON t."{key}" = s."{staging_key}"'

    def stream(self) -> Iterator[datafusion.RecordBatch]:
        """Run the join."""
        yield from self._context.sql(self._query).execute_stream()

    def rows(self, batch: datafusion.RecordBatch) -> int:
        """The batch's rows."""
        return int(batch.to_pyarrow().num_rows)

    def arrow(self, batch: datafusion.RecordBatch) -> list[pa.RecordBatch]:
        """The batch through the C data interface, without a copy."""
        return [batch.to_pyarrow()]


def _folder(source: Source) -> str:
    """The folder of a table's files.

    DataFusion takes one path: it must hold the pinned files and no others.
    """
    folder = Path(os.path.commonpath(source.files))
    if sorted(map(str, folder.rglob("*.parquet"))) != sorted(source.files):
        raise ValueError(f"{folder} holds other files than the pinned snapshot")
    return f"{folder}/"


if __name__ == "__main__":
    contender.main(DataFusion, contender.joined)
