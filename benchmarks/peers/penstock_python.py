"""Penstock read by its own Python package, as it comes: plain batches, made plain by the client."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

import penstock
from peers import contender


class Python:
    """Plans and reads with one call; planning is part of the time."""

    def __init__(self, settings: contender.Settings) -> None:
        if settings.address is None:
            raise SystemExit("there is no server")
        self._client = penstock.connect(settings.address)
        self._dataset = settings.inputs.dataset
        self._batch_rows = settings.batch_rows

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Plan and read all shards."""
        with self._client.read(self._dataset, batch_rows=self._batch_rows) as stream:
            yield from stream

    def rows(self, batch: pa.RecordBatch) -> int:
        """The batch's rows."""
        return int(batch.num_rows)

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch itself."""
        return [batch]


if __name__ == "__main__":
    contender.main(Python, contender.joined)
