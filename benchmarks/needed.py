"""Measures what entries cost that a query does not ask for: 20 features of one key, and a column of one.

    python benchmarks/needed.py --binary bin/penstock --tables .bench/needed

Two servers have a dataset of the same training table: one of all 20 staging tables, one of a single one. Both
are asked for the same columns, in turns, so that whatever else the machine does falls on both. Server time is
the time of its threads on a CPU, from /proc. It prints medians, and the ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import tables
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, LongType, NestedField

import penstock

FEATURES = 20
BUCKETS = 16
KEYS = 100_000
COLUMNS = ["item", "f7_a"]


def write(folder: Path, rows: int) -> None:
    """Makes the tables, unless they exist."""
    if (folder / "done").exists():
        return
    (folder / "warehouse").mkdir(parents=True)
    catalog = tables.open_catalog(folder)
    catalog.create_namespace("b")
    rng = np.random.default_rng(34)

    def table(name: str, columns: dict[str, Any]) -> None:
        types = [LongType() if c.dtype == np.int64 else DoubleType() for c in columns.values()]
        fields = [
            NestedField(i, n, t, required=False)
            for i, (n, t) in enumerate(zip(columns, types, strict=True), 1)
        ]
        spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(BUCKETS), "bucket"))
        made = catalog.create_table(f"b.{name}", Schema(*fields), partition_spec=spec)
        made.append(pa.table(list(columns.values()), schema_to_pyarrow(made.schema())))

    table(
        "train", {"key": np.sort(rng.integers(0, KEYS, rows)), "item": np.arange(rows), "x": rng.random(rows)}
    )
    for i in range(FEATURES):
        table(f"f{i}", {"key": np.arange(KEYS), **{f"f{i}_{c}": rng.random(KEYS) for c in "abcd"}})
    (folder / "done").touch()


def config(folder: Path, features: list[int]) -> Path:
    """Writes the configuration of a dataset of some features."""
    path = folder / f"of_{len(features)}.yaml"
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    dataset = {
        "training": {"table": "b.train"},
        "key": ["key"],
        "staging": [{"table": f"b.f{i}"} for i in features],
    }
    path.write_text(json.dumps({"catalogs": {"default": catalog}, "datasets": {"d": dataset}}))
    return path


class Served:
    """A server of a configuration, and its client."""

    def __init__(self, binary: str, path: Path, *flags: str) -> None:
        command = [binary, "serve", "--config", str(path), "--listen", "127.0.0.1:0", *flags]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.client = penstock.connect(self._process.stdout.readline().strip())

    def cpu(self) -> float:
        """The CPU time of the process so far, in milliseconds."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6

    def end(self) -> None:
        """Stops the server."""
        self.client.close()
        self._process.terminate()
        self._process.wait()


def stream(client: penstock.Client, _: int, cache: Literal["off", "fill"] = "fill") -> Any:
    """Reads a whole stream and returns its report."""
    with client.read("d", columns=COLUMNS, batch_rows=8192, cache=cache) as batches:
        for _batch in batches:
            pass
        return batches.report


def plan(client: penstock.Client, turn: int) -> Any:
    """Plans a query that was not planned before, 20 times."""
    for i in range(20):
        client.plan("d", columns=COLUMNS, order="shuffled", seed=1000 * turn + i)


def turns(servers: dict[str, Served], count: int, do: Callable[[penstock.Client, int], Any]) -> None:
    """Has the servers do something in turns, and prints medians."""
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    wall: dict[str, list[float]] = {name: [] for name in servers}
    for turn in range(count):
        for name in sorted(servers, reverse=turn % 2 == 1):
            before, began = servers[name].cpu(), time.perf_counter()
            do(servers[name].client, turn)
            cpu[name].append(servers[name].cpu() - before)
            wall[name].append((time.perf_counter() - began) * 1000)
    for what, of in (("CPU", cpu), ("wall", wall)):
        middle = {name: statistics.median(values) for name, values in of.items()}
        text = ", ".join(f"{name} {ms:.0f} ms" for name, ms in middle.items())
        print(f"  {what}: {text}; ratio {middle['20'] / middle['1']:.3f}")


def main() -> int:
    """Runs the measurement."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--binary", default="bin/penstock")
    flags.add_argument("--tables", type=Path, default=Path(".bench/needed"))
    flags.add_argument("--rows", type=int, default=2_000_000)
    flags.add_argument("--turns", type=int, default=9)
    given = flags.parse_args()
    write(given.tables.resolve(), given.rows)
    folder = given.tables.resolve()
    paths = {"20": config(folder, list(range(FEATURES))), "1": config(folder, [7])}
    servers = {name: Served(given.binary, path, "--memory", "2GiB") for name, path in paths.items()}
    reports = {name: stream(server.client, 0) for name, server in servers.items()}
    read = {name: {n: s["bytes_read"] for n, s in r["staging"].items()} for name, r in reports.items()}
    print(f"staging bytes read: {read}; unread of 20: {len(reports['20']['unread'])}")
    print("a warm stream, from the cache of decoded columns")
    turns(servers, given.turns, stream)
    print("a stream that decodes all columns")
    turns(servers, given.turns, lambda client, turn: stream(client, turn, "off"))
    print("20 plans that were not planned before, with metadata that was read before")
    turns(servers, given.turns, plan)
    for server in servers.values():
        server.end()
    print("the first plan of a server")
    first: dict[str, list[float]] = {"20": [], "1": []}
    for turn in range(given.turns):
        for name in sorted(paths, reverse=turn % 2 == 1):
            server = Served(given.binary, paths[name], "--memory", "2GiB")
            began = time.perf_counter()
            server.client.plan("d", columns=COLUMNS)
            first[name].append((time.perf_counter() - began) * 1000)
            server.end()
    middle = {name: statistics.median(values) for name, values in first.items()}
    print(f"  wall: 20 {middle['20']:.0f} ms, 1 {middle['1']:.0f} ms; ratio {middle['20'] / middle['1']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
