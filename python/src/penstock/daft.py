"""Datasets as data frames of Daft.

    frame = penstock.daft.read("loader.example.com:8815", "homefeed")
    frame.where(daft.col("label") == 1).groupby("country").count().show()

Daft plans the query once, when the frame is created, and all uses read the snapshots of this plan. A task reads a split, or
several small ones that join the same staging files, and only the columns that a query needs.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import daft
import pyarrow as pa
from daft.io.pushdowns import Pushdowns
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import RecordBatch

from penstock import errors, query
from penstock.access import Access, Files
from penstock.asynchronous import AsyncStream
from penstock.client import Client
from penstock.fields import RunQuery
from penstock.parts import Part, Query, dealt, planned, separated, weights
from penstock.plan import Endpoint
from penstock.predicates import Pushdown
from penstock.query import Dataset
from penstock.servers import Servers
from penstock.signatures import lists
from penstock.splits import Split
from penstock.stream import Stream


@lists(RunQuery, Files, Query)
def read(servers: Client | str | Sequence[str], dataset: Dataset, **fields: Unpack[Query]) -> daft.DataFrame:
    """Returns the rows of a query as a lazy data frame.

    Daft reads the columns that it needs, of all rows of the query: name rows with `filter`.

    Args:
        servers: the servers' addresses as in `penstock.connect`, or a client without credentials of its own. All machines
            that run Daft's tasks connect to these addresses.
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        fields: the query's other fields, and files with credentials.

    Raises:
        Invalid: a field is set that `read` sets itself, or the client's credentials would be pickled.
    """
    given, files = separated("penstock.daft.read", fields)
    access = Access.of(servers, files)
    given |= {"endpoints": "splits"}
    form, plan, _ = planned(access, query.form(dataset, given))
    pinned = {**given, "wire": form["wire"], "snapshots": plan.pin}
    return _Source(access, dataset, pinned, plan.schema).read()


class _Source(DataSource):
    """The rows of a pinned query.

    It sends no filter: Daft orders -0.0 before 0.0, unlike servers, and evaluates its filters itself on the rows of a task.
    """

    def __init__(
        self, access: Access, dataset: Dataset, fields: Mapping[str, Any], schema: pa.Schema
    ) -> None:
        self._access = access
        self._dataset = dataset
        self._pushdown = Pushdown({**fields}, schema, filters=False)  # type: ignore[typeddict-item]

    @property
    def name(self) -> str:
        """The name in Daft's plans."""
        return "penstock"

    @property
    def schema(self) -> daft.Schema:
        """All columns."""
        return _schema(self._pushdown.schema)

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """Plans the query, for the columns that Daft and its filters need."""
        schema = self._pushdown.schema
        needed = _needed(pushdowns)
        names = [name for name in schema.names if needed is None or name in needed] or schema.names[:1]
        form = query.form(self._dataset, self._pushdown.query(names, []))
        _, plan, endpoints = await asyncio.to_thread(planned, self._access, form)
        selected = pa.schema([schema.field(name) for name in names])
        # Daft counts the rows that pass its filters.
        limit = pushdowns.limit if pushdowns.filters is None else None
        for part in dealt(plan, endpoints, _parallelism(endpoints)):
            yield _Task(self._access, form, part, selected, limit)


@dataclass(frozen=True)
class _Task(DataSourceTask):
    """Reads a part of the plan, or as many of its rows as a query needs, on any machine, any number of times.

    Daft reads a task that it has started to its end, even if the query has ended meanwhile.
    """

    access: Access
    form: Mapping[str, Any]
    part: Part
    columns: pa.Schema
    limit: int | None

    @property
    def schema(self) -> daft.Schema:
        """The columns that the task reads."""
        return _schema(self.columns)

    async def read(self) -> AsyncIterator[RecordBatch]:
        """Yields the batches of the splits' streams, which another thread reads."""
        servers = Servers(self.access.settings())
        given = 0
        try:
            for split in self.part.splits(servers, self.form):
                with errors.naming(repr(split)):
                    async with AsyncStream(partial(_opened, split)) as stream:
                        async for batch in stream:
                            yield _converted(batch.select(self.columns.names))
                            given += batch.num_rows
                            if self.limit is not None and given >= self.limit:
                                return
        finally:
            servers.close()


def _parallelism(endpoints: Sequence[Endpoint]) -> int:
    """Returns the least number of tasks.

    Daft keeps all rows of the tasks that it runs in memory. So no task has more rows than the largest split.
    """
    at_once = daft.context.get_context().daft_execution_config.scantask_max_parallel or os.cpu_count() or 1
    rows = weights(endpoints)
    return max(at_once, -(-sum(rows) // max([1, *rows])))


def _opened(split: Split, _: threading.Event) -> Stream:
    return split.read()


def _needed(pushdowns: Pushdowns) -> set[str] | None:
    """Returns the columns of a query and of its filters; None for all."""
    if pushdowns.columns is None:
        return None
    try:
        return {*pushdowns.columns, *pushdowns.filter_required_column_names()}
    except (
        ValueError
    ):  # Daft does not know the columns of filters with some functions, such as the field of a struct
        return None


def _converted(batch: pa.RecordBatch) -> RecordBatch:
    """Returns a batch in Daft's types. Daft has no dictionaries, so texts as codes are texts again."""
    plain = pa.schema([(field.name, _plain(field.type)) for field in batch.schema])
    columns = [array.cast(field.type) for array, field in zip(batch.columns, plain, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=plain)
    return RecordBatch.from_arrow_record_batches([rows], plain)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _schema(schema: pa.Schema) -> daft.Schema:
    """Returns the schema that converted batches have, which Daft's own conversion of schemas does not give for UUIDs."""
    return _converted(pa.RecordBatch.from_pylist([], schema)).schema()
