"""A server with a dataset of all types, and streams that are watched or cut."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine_lake
import pyarrow as pa
import pytest
from lake import Row
from proxy import Proxy
from server import Server

import penstock

# Far less than the streams of the dataset have, and more than the messages of a plan.
CUT = 150_000


@dataclass(frozen=True)
class Served:
    """A server, its tables' folder, a client of it, and the rows of the dataset "d" in the order of `row`."""

    address: str
    folder: Path
    client: penstock.Client
    rows: list[Row]


@contextmanager
def serve(folder: Path) -> Iterator[Served]:
    """Starts a server with new tables."""
    config = engine_lake.write(folder)
    with Server(config) as server, penstock.connect(server.address, timeout=60) as client:
        yield Served(server.address, folder, client, engine_lake.rows())


@contextmanager
def cut(served: Served) -> Iterator[tuple[str, Proxy]]:
    """Gives an address whose streams break in the middle, once `cut_after` was called with CUT."""
    with Proxy(served.address) as proxy:
        yield proxy.address, proxy


class Watched:
    """The Arrow memory that is in use when a stream returns a batch.

    Attributes:
        batches: how many batches were returned.
        largest: the most bytes that batches took at once.
        whole: the bytes of all batches.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.batches = self.largest = self.whole = 0
        before, take = pa.total_allocated_bytes(), penstock.Stream._next

        def copied(stream: penstock.Stream) -> pa.RecordBatch | None:
            batch = take(stream)
            if batch is None:
                return None
            # Arrow counts this copy until nothing uses it, in any library.
            packed = batch.serialize(memory_pool=pa.default_memory_pool())
            self.batches += 1
            self.whole += packed.size
            self.largest = max(self.largest, pa.total_allocated_bytes() - before)
            return pa.ipc.read_record_batch(packed, batch.schema)

        patch.setattr(penstock.Stream, "_next", copied)


class Asked:
    """The queries whose streams a client opens.

    Attributes:
        queries: their fields.
    """

    def __init__(self, patch: pytest.MonkeyPatch, client: penstock.Client) -> None:
        self.queries: list[dict[str, Any]] = []
        read = client.read

        def noted(dataset: str, **fields: Any) -> penstock.Stream:
            self.queries.append(fields)
            return read(dataset, **fields)

        patch.setattr(client, "read", noted)


def check_example(name: str, served: Served) -> None:
    """Runs an example program, and compares what it prints."""
    program = Path(__file__).parents[2] / "examples" / name
    command = [sys.executable, str(program), served.address, "d", "--by", "country", "--sum", "i"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert [json.loads(line) for line in printed.splitlines()] == _totals(served.rows)


def _totals(rows: list[Row]) -> list[Row]:
    """Returns what the examples print for the column "country" and the sum of "i": nulls first."""
    found: dict[str | None, list[int | None]] = {}
    for row in rows:
        found.setdefault(row["country"], []).append(row["i"])
    keys = sorted(found, key=lambda key: (key is not None, key or ""))
    return [
        {"country": key, "rows": len(found[key]), "sum": sum(one for one in found[key] if one is not None)}
        for key in keys
    ]
