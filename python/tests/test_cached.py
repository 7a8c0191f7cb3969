"""Servers that keep columns, in memory and on disk, return what a server returns that keeps nothing."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import lake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing_tables import TEXT, ChangingWorld
from lake import Lake
from local_host import Host
from pyiceberg.types import DoubleType, FloatType, IcebergType, ListType, LongType, StringType
from server import Server

import penstock

pytestmark = pytest.mark.more

LONG = bool(os.environ.get("PENSTOCK_LONG"))
WORLDS = 12 if LONG else 3
QUERIES = 60 if LONG else 16
IN_MEMORY, ON_DISK = "penstock_cache_hits_total", 'penstock_disk_cache_reads_total{result="hit"}'


class Warm:
    """A server with little memory for columns, and a folder for them, that is killed or stopped now and then."""

    def __init__(self, config: Path, folder: Path, rng: random.Random) -> None:
        self._config, self._folder, self._rng = config, folder, rng
        self._start(rng.choice)

    def _start(self, choose: Callable[[list[Any]], Any]) -> None:
        flags = [
            "--memory",
            choose(["48MiB", "1GiB"]),
            "--cache-memory",
            choose(["30KB", "300KB", "12MiB"]),
        ]
        flags += ["--cache-dir", str(self._folder / "columns"), "--cache-disk", choose(["1MiB", "1GiB"])]
        flags += choose([[], ["--share-batches", "0"]])
        self._host = Host(self._config, self._folder, *flags)
        self._host.__enter__()
        self.client = self._host.connect(local=False)

    def found(self, name: str) -> float:
        """A metric of the server."""
        return self._host.metric(name)

    def stop(self, *, kill: bool | None = None) -> None:
        """Ends the server: by a signal, after which it writes what waits, or by a kill."""
        self.client.close()
        if not (self._rng.random() < 0.3 if kill is None else kill):
            self._host.server.terminate()
            assert self._host.server.wait() == 0
        self._host.server.kill()

    def restart(self) -> None:
        """Ends the server, and starts it with other settings and the same folder."""
        self.stop()
        self._start(self._rng.choice)

    def restart_large(self) -> None:
        """Stops the server, and starts it with the largest settings."""
        self.stop(kill=False)
        self._start(lambda settings: settings[-1])


@contextmanager
def warm(config: Path, folder: Path, rng: random.Random) -> Iterator[Warm]:
    server = Warm(config, folder, rng)
    try:
        yield server
    finally:
        server.stop()


def random_query(rng: random.Random, names: list[str]) -> dict[str, Any]:
    lanes = rng.choice([1, 1, 2, 4])
    query: dict[str, Any] = {"lanes": lanes, "batch_rows": lanes * rng.choice([16, 100, 333, 1000])}
    if rng.random() < 0.6:
        query |= {"order": "shuffled", "seed": rng.randrange(3), "epoch": rng.randrange(3)}
        query["shuffle"] = rng.choice(["rows", "requests", "splits"])
        if query["shuffle"] != "splits":
            query |= {
                "shuffle_window": rng.choice([100, 1500, 100_000]),
                "shuffle_parts": rng.choice([1, 3, 8]),
            }
    if rng.random() < 0.6:
        columns: list[Any] = rng.sample(names, rng.randint(1, len(names)))
        query["columns"] = [
            {"column": name, "as": "category"} if TEXT in name and rng.random() < 0.5 else name
            for name in columns
        ]
    if rng.random() < 0.4:
        one = rng.choice(names)
        query["filter"] = rng.choice([f"{one} IS NOT NULL", "t_row > 400", f"{one} IS NULL OR t_id < 30"])
    if rng.random() < 0.15:
        query["sample"] = {"rate": 0.4}
    return query


# spec: cache-1, cache-3, disk-1, disk-3
@pytest.mark.parametrize("seed", range(WORLDS))
def test_warm_servers_return_what_a_cold_one_does(tmp_path: Path, seed: int) -> None:
    """Commits of deletes, other columns and restarts come between."""
    rng = random.Random(seed)
    world = ChangingWorld(tmp_path / "lake", seed)
    with (
        Server(world.config, "--cache-memory", "0", "--share-batches", "0") as server,
        penstock.connect(server.address, local=False) as cold,
        warm(world.config, tmp_path, rng) as kept,
    ):
        for number in range(QUERIES):
            print(f"query {number}")  # shown if the test fails
            if rng.random() < 0.3:
                world.change()
            if rng.random() < 0.2:
                kept.restart()
            dataset = rng.choice(world.datasets)
            planned = cold.plan(dataset)
            query = random_query(rng, planned.schema.names) | {"snapshots": planned.pin}
            with cold.read(dataset, cache="off", **query) as stream:
                want = list(stream)
            for _ in range(rng.randint(1, 3)):
                uses: dict[str, Any] = {"cache": rng.choice(["read", "fill", "fill", "off"])}
                uses["wire"] = rng.choice(["auto", "plain"])
                with kept.client.read(dataset, **query, **uses) as stream:
                    if rng.random() < 0.2:
                        assert next(stream, None) == (want[0] if want else None)
                        continue
                    got = list(stream)
                assert [batch.num_rows for batch in got] == [batch.num_rows for batch in want], (
                    dataset,
                    query,
                    uses,
                )
                assert got == want, (dataset, query, uses)
        for found in ("", ON_DISK, IN_MEMORY):
            if found != IN_MEMORY:
                kept.restart_large()
            with kept.client.read("one", columns=["t_row"], cache="fill") as stream:
                rows = pa.Table.from_batches(stream, stream.schema)["t_row"].to_pylist()
            assert sorted(rows) == sorted(world.training.rows)
            assert not found or kept.found(found) > 0


COUNTRIES = [f"country {number}" for number in range(90)]
STAGING: dict[str, IcebergType] = {
    "request_id": LongType(),
    "score": DoubleType(),
    "history": ListType(element_id=900, element_type=LongType(), element_required=False),
    "user": ListType(element_id=901, element_type=FloatType(), element_required=False),
    "country": StringType(),
    "name": StringType(),
}


# spec: cache-2, cache-11, cache-13
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes that a process has read")
@pytest.mark.parametrize("cache", ["read", "fill"])
def test_a_further_staging_column_reads_its_own_bytes(tmp_path: Path, cache: Literal["read", "fill"]) -> None:
    """A warm server reads neither the columns that it has, texts included, nor the training table."""
    rng = random.Random(4)
    made = Lake(tmp_path / "lake")
    made.write("ml.events", lake.EVENTS, ("request_id", 4), lake.events(rng, 5000, 30_000))
    rows = [
        {
            "request_id": i,
            "score": rng.random(),
            "history": [rng.randrange(2**60) for _ in range(6)],
            "user": [rng.random() for _ in range(16)],
            "country": rng.choice(COUNTRIES),
            "name": rng.randbytes(8).hex(),
        }
        for i in range(30_000)
    ]
    staging = made.write("features.users", STAGING, ("request_id", 8), rows)
    entry = {"table": "features.users", "max_amplification": 1000}
    dataset = {"training": {"table": "ml.events"}, "key": ["request_id"], "staging": [entry]}
    stored = Counter[str]()
    for path in staging.files():
        group = pq.ParquetFile(path).metadata.row_group(0)
        for number in range(group.num_columns):
            column = group.column(number)
            stored[column.path_in_schema.split(".")[0]] += column.total_compressed_size
    columns = ["row", "price", "tags", "score", "country", "name"]
    with (
        Server(made.config({"d": dataset})) as server,
        penstock.connect(server.address, local=False) as client,
    ):

        def read(columns: list[str]) -> int:
            before = bytes_read(server)
            assert client.read("d", columns=columns, cache=cache).read_all().num_rows == 5000
            return bytes_read(server) - before

        read(columns)
        if cache == "read":
            read(columns)  # keeps the columns of the training table
        for column in ("history", "user"):
            columns.append(column)
            assert read(columns) <= 1.1 * stored[column], (column, stored)


def bytes_read(server: Server) -> int:
    """Bytes that a server has read by system calls: of files, and of sockets, on which clients send little."""
    lines = Path(f"/proc/{server.pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
