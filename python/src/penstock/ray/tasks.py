"""The read tasks of a Ray dataset: each reads consecutive splits of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.access import Access
from penstock.bound import BoundQuery
from penstock.plan import Endpoint, Plan
from penstock.servers import Servers
from penstock.splits import Split


@dataclass(frozen=True)
class ReadSplits:
    """Reads some splits of a plan, in order. Called on any node, as often as Ray likes.

    Ray repeats a task whose process was killed, and drops as many blocks as it already has. So each call must return the
    same blocks: the query has a fixed `batch_rows`, and `wire` is `plain`, which has one form, however a batch comes.

    Attributes:
        access: the servers.
        form: the query, pinned to the snapshots of the plan.
        plan: the plan.
        endpoints: the plan's endpoints with the splits to read. Without any, the task returns no row.
        first: the number of the first one in the plan.
        names: the columns to return, in order.
    """

    access: Access
    form: Mapping[str, Any]
    plan: Plan
    endpoints: tuple[Endpoint, ...]
    first: int
    names: tuple[str, ...]

    @property
    def rows(self) -> int | None:
        """The exact number of rows; None if it is unknown before reading."""
        known = [endpoint.rows for endpoint in self.endpoints if endpoint.rows is not None]
        return sum(known) if len(known) == len(self.endpoints) else None

    def __call__(self) -> Iterator[pa.Table]:
        """Yields a table for each batch, or an empty one if there is none.

        A stream that ends before it has returned the rows of its plan and of its report raises `Corrupt`.
        """
        returned = 0
        if self.endpoints:
            bound = BoundQuery(Servers(self.access.settings()), self.form)
            try:
                for number, endpoint in enumerate(self.endpoints, self.first):
                    with Split(bound, self.plan, endpoint, number).read() as stream:
                        for batch in stream:
                            returned += batch.num_rows
                            yield pa.Table.from_batches([batch]).select(list(self.names))
            finally:
                bound.servers.close()
        if not returned:
            yield self.plan.schema.empty_table().select(list(self.names))
