"""Penstock read by `penstock.torch.IterableDataset`, as it comes: ahead of the loop, in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

import penstock
from peers import contender, into_torch
from penstock.torch import Batch, IterableDataset


class Torch:
    """Gives tensors. The warm-up compares the record batches of a plain read: tensors are tested elsewhere."""

    # What the query asks beside data set and batch size.
    fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, settings: contender.Settings) -> None:
        if settings.address is None:
            raise SystemExit("there is no server")
        name = settings.inputs.dataset
        query: dict[str, Any] = {"batch_rows": settings.batch_rows, **self.fields}
        self._client = penstock.connect(settings.address)
        with self._client.read(name, **query) as stream:
            rules = into_torch.rules(stream.schema)
        self._data = IterableDataset(settings.address, name, **query, **rules)
        self._name, self._query = name, query
        self._records: Iterator[pa.RecordBatch] | None = None

    def stream(self) -> Iterator[Batch]:
        """Plan, read, convert."""
        self._records = None
        yield from self._data

    def rows(self, batch: Batch) -> int:
        """The rows of the tensors."""
        return batch.rows

    def arrow(self, batch: Batch) -> list[pa.RecordBatch]:
        """What the tensors were made of, read beside them."""
        if self._records is None:
            self._records = iter(self._client.read(self._name, **self._query))
        records = next(self._records)
        if batch.rows != records.num_rows:
            raise ValueError(f"a batch of {batch.rows} rows beside one of {records.num_rows}")
        return [penstock.expand(records)]


if __name__ == "__main__":
    contender.main(Torch, contender.joined)
