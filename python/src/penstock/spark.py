"""Datasets as data frames of Spark 4.

    frame = penstock.spark.read(spark, "loader.example.com:8815", "homefeed", columns=["label", "country"])

Spark plans the query once, when the frame is created, and all actions read the snapshots of this plan. A partition
is a split, or several consecutive ones that join the same staging files. A task that is repeated reads the same rows in the
same order. The package must be installed on all machines of the cluster, which connect to the servers themselves.
Credentials are read from files on these machines.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as source
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from penstock import errors, query
from penstock.access import Access, Files
from penstock.client import Client
from penstock.fields import RunQuery
from penstock.parts import Part, Query, dealt, planned, separated
from penstock.query import Dataset
from penstock.servers import Servers
from penstock.signatures import lists

_TIMES = "spark.sql.timeType.enabled"

# As Spark's guide for tuning recommends.
_TASKS_PER_CORE = 3


@lists(RunQuery, Files, Query)
def read(
    spark: SparkSession,
    servers: Client | str | Sequence[str],
    dataset: Dataset,
    **fields: Unpack[Query],
) -> DataFrame:
    """Returns the rows of a query as a data frame.

    Splits share a partition only if it has at most its share of the rows: of `spark.sql.leafNodeDefaultParallelism` partitions,
    or of three for each core of the cluster. The function registers the format "penstock" in the session. Spark does not tell
    such a source which columns and rows a job needs, so name them with `columns` and `filter`.

    Args:
        spark: the session.
        servers: the servers' addresses as in `penstock.connect`, or a client without credentials of its own. All machines
            of the cluster connect to these addresses.
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        fields: the query's other fields, and files with credentials.

    Raises:
        Invalid: a field is set that `read` sets itself, the client's credentials would be sent to other machines, or a column
            has times of day, which Spark supports only with a setting.
    """
    given, files = separated("penstock.spark.read", fields)
    access = Access.of(servers, files)
    if access.private is not None:
        raise errors.Invalid(
            "the client's server is private, so the machines of a cluster cannot reach it",
            remedy="start a server with `penstock serve`, and pass its address",
        )
    form, plan, _ = planned(access, query.form(dataset, {**given, "endpoints": "splits"}))
    schema = from_arrow_schema(_spark_schema(plan.schema), prefer_timestamp_ntz=True)
    if spark.conf.get(_TIMES, "false") != "true":
        _refuse_times(schema)
    spark.dataSource.register(Penstock)
    options = {
        "access": _text(access),
        "query": json.dumps({**form, "snapshots": plan.pin}),
        "parallelism": str(_parallelism(spark)),
    }
    return spark.read.format(Penstock.name()).schema(schema).options(**options).load()


def _parallelism(spark: SparkSession) -> int:
    """Returns how many tasks keep all cores of the cluster busy; 0 if their number is unknown, or changes."""
    named = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if named is not None:
        return int(named)
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is None or spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return 0
    return _TASKS_PER_CORE * int(context.defaultParallelism)


def _refuse_times(schema: StructType) -> None:
    """Refuses columns that Spark can collect, but neither filter nor count."""
    times = [one.name for one in schema.fields if '"time(' in one.dataType.json()]
    if times:
        raise errors.Invalid(
            f"columns: Spark does not support columns with times of day, such as {times[0]}",
            remedy=f"leave out the column, or set {_TIMES} to true in the session",
        )


def _text(access: Access) -> str:
    """Writes addresses and paths as JSON, for the options of a data frame."""
    return json.dumps(dataclasses.asdict(access))


def _access(text: str) -> Access:
    """Reads what `_text` has written."""
    given = json.loads(text)
    files = tuple((str(name), str(path)) for name, path in given.pop("files"))
    return Access(tuple(given.pop("locations")), files, **given)


class Penstock(source.DataSource):
    """The format "penstock", which only `read` uses: it sets the options and the schema."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return "penstock"

    def reader(self, schema: StructType) -> source.DataSourceReader:
        """Returns a reader of the pinned query."""
        parallelism = int(self.options["parallelism"])
        return _Reader(
            _access(self.options["access"]), json.loads(self.options["query"]), schema, parallelism
        )


class _Reader(source.DataSourceReader):
    """Reads the rows of a pinned query.

    It has no pushFilters: Spark 4.1 keeps the partitions of a query with pushed filters, and reads them again in later queries
    of the same data frame, which have other filters.
    """

    def __init__(self, access: Access, form: Mapping[str, Any], schema: StructType, parallelism: int) -> None:
        self._access = access
        self._form = form
        self._target = to_arrow_schema(schema)
        self._parallelism = parallelism

    def partitions(self) -> list[source.InputPartition]:
        """Plans the query on the driver."""
        _, plan, endpoints = planned(self._access, self._form)
        parts = dealt(plan, endpoints, self._parallelism or len(endpoints))
        return [source.InputPartition(part) for part in parts]

    def read(self, partition: source.InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Reads a part of the plan, on any machine, any number of times. A plan without rows has the partition None."""
        if partition is None:
            return
        part: Part = partition.value
        servers = Servers(self._access.settings())
        try:
            for batch in part.batches(servers, self._form):
                yield self._converted(batch)
        finally:
            servers.close()

    def _converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_cast(array, field.type) for array, field in zip(batch.columns, self._target, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._target)


def _spark_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with UUIDs as strings, as Iceberg's own source for Spark has them."""
    return pa.schema(
        [one.with_type(pa.string()) if isinstance(one.type, pa.UuidType) else one for one in schema]
    )


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(array.type, pa.UuidType):
        return pa.array(
            [None if one is None else str(uuid.UUID(bytes=one)) for one in array.storage.to_pylist()], kind
        )
    return array.cast(kind)
