"""Tables and servers for slow streams, and what the status says of a stream."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IcebergType, LongType, NestedField, StringType
from server import BINARY

import penstock

# The share of a stream's time that its causes may lack.
UNKNOWN = 0.05
# Times are in whole milliseconds.
ROUNDED = 0.002


@dataclass(frozen=True)
class Seen:
    """What the status of a server says of one stream.

    Attributes:
        limit: the cause in the column LIMIT; "" if there is none.
        line: the line below the streams that explains it.
        stream: the stream as programs see it.
    """

    limit: str
    line: str
    stream: penstock.StreamStatus


def status(address: str) -> str:
    """What `penstock status` prints."""
    command = [str(BINARY), "status", "--uri", f"grpc://{address}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def look(address: str, job: str) -> Seen:
    """Reads the status as a person does, and checks that the causes add up to the time of the stream."""
    with penstock.connect(address) as client:
        (stream,) = [one for one in client.status().streams if one.job == job]
    shown = status(address)
    rows = [line for line in shown.splitlines() if line.startswith(f"{job} ")]
    assert len(rows) == 1, shown
    limit = re.sub(r" \d+%$", "", re.split(r" {2,}", rows[0])[-1]).removeprefix("-")
    lines = [line for line in shown.splitlines() if line.startswith(f"{limit}: ")]
    spent = sum(asdict(stream.waited).values()) + sum(asdict(stream.worked).values())
    assert (1 - UNKNOWN) * stream.open <= spent <= stream.open + ROUNDED, stream
    return Seen(limit, "".join(lines), stream)


# Makes the values of a column for a number of rows.
Values = Callable[[np.random.Generator, int], Any]


def numbers(rng: np.random.Generator, rows: int) -> Any:
    """Random numbers, which no encoding makes small."""
    return rng.integers(0, 2**62, rows)


def texts(rng: np.random.Generator, rows: int) -> Any:
    """Random texts of a thousand letters."""
    return [one.tobytes().hex() for one in rng.integers(0, 256, (rows, 500), np.uint8)]


def put(
    catalog: Catalog,
    name: str,
    columns: dict[str, Values],
    rows: int,
    *,
    commits: int = 1,
    buckets: int = 1,
    keys: Values = lambda _, rows: np.arange(rows),
) -> Table:
    """Makes a table with a column id, whose files have row groups of 100,000 rows."""
    types: dict[str, IcebergType] = {"id": LongType()}
    types |= {column: StringType() if of is texts else LongType() for column, of in columns.items()}
    schema = Schema(*(NestedField(i, n, of, required=False) for i, (n, of) in enumerate(types.items(), 1)))
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(buckets), "id_bucket"))
    properties = {"write.parquet.row-group-limit": "100000"}
    table = catalog.create_table(name, schema, partition_spec=spec, properties=properties)
    rng = np.random.default_rng(7)
    made = {"id": keys(rng, rows), **{column: of(rng, rows) for column, of in columns.items()}}
    content = pa.table(made).cast(schema_to_pyarrow(table.schema()))
    for i in range(commits):
        table.append(content.slice(i * rows // commits, rows // commits))
    return table
