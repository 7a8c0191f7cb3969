"""Jobs that share batches, over the network or in mapped memory, read what each reads alone."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pytest
from local_host import Host, mapped
from server import Server

import penstock

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
    ),
]

ROWS = 1500
REQUESTS = 60
CASES = 400 if os.environ.get("PENSTOCK_LONG") else 20


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("sharing"), 11, ROWS, REQUESTS, files=2)


@pytest.fixture(scope="module")
def host(config: Path) -> Iterator[Host]:
    """A server that shares batches and maps them; its windows are small enough to fall behind."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Host(config, Path(folder), "--share-batches", "48KiB") as host,
    ):
        yield host


@pytest.fixture(scope="module")
def plain(config: Path) -> Iterator[penstock.Client]:
    """A client of a server that does neither."""
    with (
        Server(config, "--share-batches", "0") as server,
        penstock.connect(server.address, local=False) as client,
    ):
        yield client


@dataclass
class Want:
    """What a stream alone returns."""

    batches: list[pa.RecordBatch]
    cursors: list[Any]
    report: Any  # the comparable part


class Job:
    """A job, whose streams may end early; the next one continues over the other path."""

    def __init__(self, query: dict[str, Any], want: Want, *, step: int, near: bool) -> None:
        self._query = query
        self.want = want
        self._step = step  # of the next batch
        self._near = near
        self._began: dict[str, Any] = {}
        self._stream: penstock.Stream | None = None
        self.kept: list[tuple[int, pa.RecordBatch]] = []

    def advance(
        self, steps: int, near: penstock.Client, far: penstock.Client, plain: penstock.Client
    ) -> bool:
        """Takes steps, each of which must be that of a stream alone. Reports whether there are more."""
        if self._stream is None:
            self._began = {"cursor": self.want.cursors[self._step - 1]} if self._step else {}
            self._stream = (near if self._near else far).read("d", **self._query, **self._began)
        for _ in range(steps):
            batch = next(self._stream, None)
            if batch is None:
                assert self._step == len(self.want.batches)
                assert comparable(self._stream.report) == alone(plain, self._query | self._began).report
                self._stream.close()
                return False
            assert batch.equals(self.want.batches[self._step])
            assert self._stream.cursor == self.want.cursors[self._step]
            self.kept.append((self._step, batch))
            self._step += 1
        return True

    def stop(self) -> None:
        """Ends the stream early."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._near = None, not self._near


def alone(client: penstock.Client, query: dict[str, Any]) -> Want:
    stream = client.read("d", **query)
    pairs = [(batch, stream.cursor) for batch in stream]
    return Want([batch for batch, _ in pairs], [cursor for _, cursor in pairs], comparable(stream.report))


def comparable(report: Any) -> Any:
    """A report without the costs of reading, which fall to one of the streams that share."""
    if isinstance(report, dict):
        costs = ("bytes_read", "bytes_shared", "amplification", "spilled_bytes", "cached")
        return {name: comparable(value) for name, value in report.items() if name not in costs}
    return [comparable(value) for value in report] if isinstance(report, list) else report


def random_query(rng: random.Random) -> dict[str, Any]:
    query: dict[str, Any] = {
        "batch_rows": rng.choice([32, 64, 100]),
        "lanes": rng.choice([1, 2]),
        "wire": rng.choice(["plain", "indexed"]),
    }
    if rng.random() < 0.4:
        query |= {"order": "shuffled", "seed": rng.randrange(5), "shuffle_window": 256}
    return query


def varied(rng: random.Random, query: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The query with other columns, in another order, or with larger batches."""
    query = dict(query)
    if rng.random() < 0.5:
        query["columns"] = rng.sample(names, rng.randint(1, len(names)))
    if rng.random() < 0.5:
        query["batch_rows"] *= rng.choice([2, 4])
    return query


# spec: wire-39, wire-40, local-7
def test_jobs_read_what_each_reads_alone(host: Host, plain: penstock.Client) -> None:
    """Jobs begin, end early, continue and overtake each other at random."""
    from_memory = from_network = 0
    names = plain.plan("d").schema.names
    with host.connect() as near, host.connect(local=False) as far:
        for case in range(CASES):
            print(f"case {case}")  # shown if the test fails
            rng = random.Random(case)
            query = random_query(rng)
            vary = rng.random() < 0.5
            jobs = []
            for _ in range(rng.randint(3, 6)):
                asked = varied(rng, query, names) if vary else query
                want = alone(plain, asked)
                step = rng.choice([0, 0, 0, rng.randrange(len(want.batches))])
                jobs.append(Job(asked, want, step=step, near=rng.random() < 0.6))
            running = list(jobs)
            while running:
                job = rng.choice(running)
                if not job.advance(rng.choice([1, 1, 3, 12]), near, far, plain):
                    running.remove(job)
                elif rng.random() < 0.05:
                    job.stop()
            for job in jobs:
                for step, batch in job.kept:
                    assert batch.equals(job.want.batches[step]), f"a later batch changed that of step {step}"
                    from_memory, from_network = from_memory + mapped(batch), from_network + 1
    assert 0 < from_memory < from_network
    assert host.metric("penstock_sharing_batches_total") > 0
    assert host.metric("penstock_sharing_views_total") > 0
    assert host.metric("penstock_sharing_widened_total") > 0
    assert host.metric('penstock_sharing_left_total{reason="behind"}') > 0
