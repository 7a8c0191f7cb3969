"""Penstock with `wire: indexed`, every batch made plain by the client, in the timed pass too."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from peers import contender
from peers.penstock_indexed import Indexed


class Expanded(Indexed):
    """Gives what plain Penstock gives."""

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Plan, read, expand."""
        for batch in super().stream():
            yield from super().arrow(batch)

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch, which is plain already."""
        return [batch]


if __name__ == "__main__":
    contender.main(Expanded, contender.joined)
