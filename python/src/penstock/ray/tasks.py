"""The read tasks of a Ray dataset: each reads consecutive splits of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock import answers
from penstock.access import Access
from penstock.indexed import expand, plain_schema
from penstock.parts import Part
from penstock.servers import Servers


@dataclass(frozen=True)
class ReadSplits:
    """Reads some splits of a plan, in order. Called on any node, as often as Ray likes.

    Ray repeats a task whose process was killed, and drops as many blocks as it already has. So each call must return the
    same blocks: the query has a fixed `batch_rows`, and batches come as plain or as indexed ones, not as the server chooses for each
    stream. Then a batch has one form and size, from whatever cursor its stream began.

    Attributes:
        access: the servers.
        form: the query, pinned to the snapshots of the plan.
        part: the splits to read. Without any, the task returns no row.
        names: the columns to return, in order.
    """

    access: Access
    form: Mapping[str, Any]
    part: Part
    names: tuple[str, ...]

    @property
    def rows(self) -> int | None:
        """The exact number of rows; None if it is unknown before reading."""
        return answers.total(endpoint.rows for endpoint in self.part.endpoints)

    def __call__(self) -> Iterator[pa.Table]:
        """Yields a table for each batch, or an empty one if there is none.

        A stream that ends before it has returned the rows of its plan and of its report raises `Corrupt`.
        """
        returned = 0
        if self.part.endpoints:
            servers = Servers(self.access.settings())
            try:
                for batch in self.part.batches(servers, self.form):
                    returned += batch.num_rows
                    yield pa.Table.from_batches([expand(batch)]).select(list(self.names))
            finally:
                servers.close()
        if not returned:
            yield plain_schema(self.part.plan.schema).empty_table().select(list(self.names))
