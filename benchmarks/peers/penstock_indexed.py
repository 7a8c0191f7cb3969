"""Penstock with `wire: indexed`, its batches left as they come."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

import penstock
from peers import contender
from peers.penstock_flight import Penstock


class Indexed(Penstock):
    """Counts rows; the features of a request lie in a dictionary, once per batch."""

    fields: ClassVar[dict[str, Any]] = {"wire": "indexed"}

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The plain batch, which must be another than the one that came."""
        plain = penstock.expand(batch)
        if plain is batch:
            raise ValueError("the server sent a plain batch")
        return [plain]


if __name__ == "__main__":
    contender.main(Indexed, contender.joined)
