"""What does one staging column more cost, read from storage?

A server reads a data set twice without one of its staging columns, and then once with it. What it reads from
storage in the third epoch is compared with the stored bytes of that column: a server that keeps nothing reads
everything again. The column is that of middle size.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
from entrants import DEFAULT_ROWS
from inputs import Inputs, Source
from reading import batches
from running import Program, RunError, serving


@dataclasses.dataclass(frozen=True)
class OneMore:
    """Bytes that the server read in the epoch with one column more, and those that are stored of it."""

    column: str
    read: int
    stored: int


def measure(program: Program, config: Path, inputs: Inputs) -> OneMore:
    """Start a server, and read three epochs from it."""
    stored = _stored(inputs.staging)
    column = sorted(inputs.features, key=lambda name: stored[name])[len(inputs.features) // 2]
    without = [name for name in (*inputs.training.columns, *inputs.features) if name != column]
    with serving(program.command(config, "127.0.0.1:0")) as server:
        for columns in (without, without):
            _read(server.first, inputs, columns)
        before = _bytes_read(server.pid)
        _read(server.first, inputs, [*without, column])
        read = _bytes_read(server.pid) - before
    return OneMore(column, read, stored[column])


def _read(address: str, inputs: Inputs, columns: list[str]) -> None:
    query = {"dataset": inputs.dataset, "batch_rows": DEFAULT_ROWS, "columns": columns}
    rows = sum(batch.num_rows for batch in batches(address, query))
    if rows != inputs.expected.rows:
        raise RunError(f"{rows} rows instead of {inputs.expected.rows}")


def _bytes_read(pid: int) -> int:
    """Bytes that a process has read by system calls, of files and of sockets, on which clients send little."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    raise ValueError(f"process {pid} has no count of bytes read")


def _stored(source: Source) -> Counter[str]:
    """The stored bytes of each column of a table."""
    found: Counter[str] = Counter()
    for path in source.files:
        metadata = pq.ParquetFile(path).metadata
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(number)
                found[chunk.path_in_schema.split(".")[0]] += chunk.total_compressed_size
    return found
