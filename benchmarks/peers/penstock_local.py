"""Penstock read by its Python package from mapped memory, by the server's local socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from peers import contender


class Local:
    """Plans and reads with one call; planning is part of the time. Batches stay in the form that is asked."""

    def __init__(self, settings: contender.Settings) -> None:
        if settings.address is None:
            raise SystemExit("there is no server")
        self._client = penstock.connect(settings.address, local=True)
        self._dataset = settings.inputs.dataset
        self._query: dict[str, Any] = {"batch_rows": settings.batch_rows, "wire": "plain", **settings.query}

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Plan and read all shards."""
        with self._client.read(self._dataset, **self._query) as stream:
            for number, batch in enumerate(stream):
                if number == 0 and "/memfd:" not in Path("/proc/self/maps").read_text():
                    raise ValueError("the batches did not come in mapped memory")
                yield batch

    def rows(self, batch: pa.RecordBatch) -> int:
        """The batch's rows."""
        return int(batch.num_rows)

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The plain batch, which must be another than the one that came if that is asked to be indexed."""
        plain = penstock.expand(batch)
        if plain is batch and self._query["wire"] == "indexed":
            raise ValueError("the server sent a plain batch")
        return [plain]


if __name__ == "__main__":
    contender.main(Local, contender.joined)
