"""No join: pyarrow reading the training table alone, the least one can do."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds

from peers import contender


class Scan:
    """Reads all columns of the training files."""

    def __init__(self, settings: contender.Settings) -> None:
        self._files = settings.inputs.training.files
        self._batch_rows = settings.batch_rows

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Read the files."""
        yield from ds.dataset(self._files, format="parquet").to_batches(batch_size=self._batch_rows)

    def rows(self, batch: pa.RecordBatch) -> int:
        """The batch's rows."""
        return int(batch.num_rows)

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch itself."""
        return [batch]


if __name__ == "__main__":
    contender.main(Scan, contender.training_only)
