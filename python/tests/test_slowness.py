"""Streams that are slow on purpose: the status names the cause, by words that docs/slow.md explains.

Each test makes one cause that has most of a stream's time, whatever the machine does meanwhile, reads some batches, and then reads
`penstock status` once. The causes always add up to the time of the stream.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rest_catalog
import slow
from accidents import storage
from bucket_lake import bucket_lake
from lake import Lake
from monitored import Faults, repeated
from proxy import Proxy
from server import BINARY, Server
from shuffled_tables import delete_places
from slow import look, numbers, put, texts

import penstock

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        "PENSTOCK_LONG" not in os.environ,
        reason="which cause takes the most time depends on what else runs: make test-slowness, alone on a machine",
    ),
]

# Expressions and filters that no statistics of a file decide.
NEVER = "id % 1000003 = 1000002"
SOME = "id % 100 = 1"


def dataset(table: str) -> dict[str, Any]:
    return {"training": {"table": table}}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in files of this machine."""
    lake = Lake(tmp_path_factory.mktemp("slow"))
    wide: dict[str, slow.Values] = dict.fromkeys("abcdef", numbers)
    put(lake.catalog, "ml.rows", dict.fromkeys("abc", numbers), 200_000)
    put(lake.catalog, "ml.texts", {"text": texts}, 150_000)
    put(lake.catalog, "ml.wide", wide, 1_000_000)
    put(lake.catalog, "features.side", {"x": numbers, "y": numbers}, 2_000_000)
    skewed = put(lake.catalog, "ml.skewed", {"a": numbers}, 8_000, buckets=4, keys=one_key)
    assert len(skewed.inspect.partitions()) > 1
    lake.catalog.engine.dispose()
    datasets = {name: dataset(f"ml.{name}") for name in ("rows", "texts", "wide", "skewed")}
    joined = {**dataset("ml.rows"), "key": ["id"], "staging": [{"table": "features.side"}]}
    return lake.config({**datasets, "joined": joined})


def one_key(_: np.random.Generator, rows: int) -> Any:
    """Keys of which one has nearly all rows."""
    return np.where(np.arange(rows) % 50 == 0, np.arange(rows), 7)


@contextmanager
def served(config: Path, *flags: str, pace: int = 0) -> Iterator[tuple[str, penstock.Client]]:
    """A server without caches, unless the flags say so, and a client; pace limits the network between them."""
    with ExitStack() as stack:
        server = stack.enter_context(Server(config, "--cache-memory", "0", "--share-batches", "0", *flags))
        address = server.address
        if pace:
            proxy = stack.enter_context(Proxy(address))
            proxy.pace, address = pace, proxy.address
        # Small, so that tables of a few megabytes are more than fits in between.
        ahead: dict[str, Any] = {} if pace else {"lookahead": 1 << 16}
        client = stack.enter_context(penstock.connect(address, **ahead, reconnect=0))
        yield server.address, client


def seen(address: str, client: penstock.Client, name: str, batches: int, **query: Any) -> slow.Seen:
    """Reads some batches of a stream, and looks."""
    with client.read(name, job="job", batch_rows=1000, **query) as stream:
        for _ in islice(stream, batches):
            pass
        return look(address, "job")


def seen_meanwhile(address: str, client: penstock.Client, name: str, **query: Any) -> slow.Seen:
    """Looks after the first batch of a stream, and reads on meanwhile."""
    with (
        client.read(name, job="job", **query) as stream,
        ThreadPoolExecutor(1) as pool,
    ):
        next(stream)
        found = pool.submit(look, address, "job")
        while not found.done():
            next(stream)
        return found.result()


def steps(address: str, client: penstock.Client, step: Callable[[Any], object]) -> slow.Seen:
    """Trains for some steps, and looks."""
    with client.read("rows", job="job", batch_rows=4000) as stream:
        for batch in islice(stream, 30):
            step(batch)
        return look(address, "job")


# spec: status-17
def test_slow_training_steps(config: Path) -> None:
    with served(config) as at:
        assert steps(*at, lambda _: time.sleep(0.05)).limit == "trainer"


def test_conversion_in_the_loop(config: Path) -> None:
    with served(config) as at:
        assert steps(*at, lambda batch: [batch.to_pylist() for _ in range(5)]).limit == "trainer"


def test_a_slow_network(config: Path) -> None:
    with served(config, pace=400_000) as at, at[1].read("wide", job="job", batch_rows=2000) as stream:
        for _ in islice(stream, 32):
            pass
        assert look(at[0], "job").limit == "network"
        assert stream.stats.stall > 0.5  # the client sees that it is not the loop


def test_no_slot(config: Path) -> None:
    with (
        served(config, "--max-streams", "1") as (address, client),
        client.read("rows", batch_rows=1000) as first,
        client.read("rows", job="job") as second,
    ):
        next(first)
        with in_thread(lambda: next(second)):
            for _ in islice(first, 60):
                time.sleep(0.02)
            assert look(address, "job").limit == "slot"
            first.close()


def test_a_full_memory_budget(config: Path) -> None:
    """Of four slow streams, the budget has room for the windows of one or two. Which ones, the server decides."""
    done = threading.Event()

    def read(job: str) -> None:
        window: dict[str, Any] = {"order": "shuffled", "shuffle": "rows", "shuffle_window": 250_000}
        with client.read("wide", job=job, batch_rows=1000, **window) as stream:
            while not done.wait(0.1):
                next(stream)

    with served(config, "--memory", "144MiB") as (address, client), ExitStack() as reading:
        for number in range(4):
            reading.enter_context(in_thread(partial(read, f"job{number}")))
        reading.callback(done.set)
        time.sleep(5)
        least = min(client.status().streams, key=lambda one: one.rows)
        assert look(address, least.job).limit == "memory"


@contextmanager
def in_thread(call: Callable[[], object]) -> Iterator[None]:
    """Makes a call meanwhile; its failure is part of the test."""

    def run() -> None:
        with suppress(penstock.Error, StopIteration, ValueError):
            call()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)


def test_joins_on_disk(config: Path) -> None:
    with served(config, "--memory", "64MiB") as at:
        assert seen(*at, "joined", 1).limit == "spill"


def test_wide_columns(config: Path) -> None:
    with served(config) as at:
        assert seen_meanwhile(*at, "texts", filter=SOME, batch_rows=10).limit == "decode"


def test_expensive_expressions(config: Path) -> None:
    text = "a % 1000003"
    for _ in range(30):
        text = f"abs({text} * 3 - b % 1000) % 1000003 + 1"
    columns = [{"column": f"z{i}", "expr": f"{text} + {i}"} for i in range(6)]
    with served(config) as at:
        assert seen(*at, "rows", 40, columns=["id", *columns]).limit == "compute"


def test_too_few_cores(config: Path) -> None:
    def other() -> None:
        assert client.read("texts", filter=NEVER).read_all().num_rows == 0

    with served(config) as (address, client), repeated(*[other] * 12):
        assert seen_meanwhile(address, client, "texts", filter=SOME, batch_rows=10).limit == "cores"


def test_a_cache_that_is_too_small(config: Path) -> None:
    with served(config, "--cache-memory", "4MiB") as (address, client):
        for _ in range(3):
            client.read("rows").read_all()
        found = seen_meanwhile(address, client, "texts", filter=SOME, batch_rows=10)
        assert found.limit == "decode"
        assert "and is full" in found.line


def test_skewed_buckets(config: Path, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    command = [str(BINARY), "explain", "skewed", "--config", str(config), "--svg", str(picture)]
    subprocess.run(command, check=True, capture_output=True)
    assert "Training rows by bucket: the largest has 7" in picture.read_text()


class Site:
    """Tables on S3 behind a REST catalog.

    Attributes:
        s3: faults of requests to S3.
        catalog: faults of requests to the catalog.
        config: the config file.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.s3, self.catalog = Faults(), Faults()
        bucket = stack.enter_context(bucket_lake(folder / "lake", rest=True))
        wide: dict[str, slow.Values] = dict.fromkeys("abc", numbers)
        put(bucket.catalog, "features.rows", wide, 200_000, commits=2)
        put(bucket.catalog, "features.small", wide, 20_000, commits=100)
        put(bucket.catalog, "features.side", {"x": numbers}, 400_000)
        deleted = put(bucket.catalog, "features.deleted", {"a": numbers}, 200_000)
        for i in range(40):
            delete_places(deleted, [(task.file, [i]) for task in deleted.scan().plan_files()])
            deleted = deleted.refresh()
        keys = {"s3.region": "us-east-1", "s3.access-key-id": "testaccess"}
        keys |= {"s3.secret-access-key": "testsecret12"}
        keys["s3.endpoint"] = stack.enter_context(storage(bucket.endpoint, self.s3)).uri
        served = stack.enter_context(rest_catalog.serve(bucket.catalog, keys, self.catalog))
        content = json.loads((folder / "lake" / "penstock.yaml").read_text())
        content["catalogs"]["default"]["uri"] = served.uri
        content["datasets"] = {name: dataset(f"features.{name}") for name in ("rows", "small", "deleted")}
        joined = {**dataset("features.rows"), "key": ["id"], "staging": [{"table": "features.side"}]}
        content["datasets"]["joined"] = joined
        self.config = folder / "penstock.yaml"
        self.config.write_text(json.dumps(content))

    def seen(self, name: str, batches: int, *flags: str, **faults: Any) -> slow.Seen:
        """Looks at a stream that was planned before the faults began."""
        with served(self.config, *flags) as (address, client):
            client.plan(name)
            with self.faulty(**faults):
                return seen(address, client, name, batches)

    @contextmanager
    def faulty(self, **faults: Any) -> Iterator[None]:
        """Requests to S3 have faults meanwhile."""
        for name, value in faults.items():
            setattr(self.s3, name, value)
        try:
            yield
        finally:
            self.s3.delay, self.s3.pace, self.s3.throttled = 0.0, 0, 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path_factory.mktemp("site"), stack)


def test_slow_first_bytes(site: Site) -> None:
    found = site.seen("rows", 150, delay=0.4)
    assert found.limit == "storage latency"
    assert "each for the first byte" in found.line


def test_slow_bytes(site: Site) -> None:
    assert site.seen("rows", 150, pace=1_000_000).limit == "storage bandwidth"


def test_throttling(site: Site) -> None:
    found = site.seen("rows", 50, throttled=4)
    assert found.limit == "storage errors"
    assert "requests failed" in found.line


# spec: status-16
def test_small_files(site: Site) -> None:
    found = site.seen("small", 15, delay=0.02)
    assert found.limit == "small reads"
    assert found.stream.reads.requests > 50


def test_many_delete_files(site: Site) -> None:
    assert site.seen("deleted", 2, delay=0.1).limit == "deletes"


def test_a_cold_cache(site: Site) -> None:
    with served(site.config, "--cache-memory", "64MiB") as (address, client):
        client.plan("rows")
        with site.faulty(delay=0.4):
            found = seen(address, client, "rows", 150)
            assert found.limit == "storage latency"
            assert "columns and fills" in found.line
            client.read("rows").read_all()
            warm = seen(address, client, "rows", 150)
            assert not warm.limit.startswith("storage")


def test_rows_that_another_stream_reads(site: Site) -> None:
    with served(site.config) as (address, client):
        client.plan("joined")
        with (
            site.faulty(delay=0.5),
            client.read("joined", job="first", batch_rows=1000) as first,
            client.read("joined", job="job", batch_rows=1000, columns=["a", "x"]) as second,
            in_thread(lambda: next(first)),
        ):
            next(second)
            limits = {look(address, job).limit for job in ("first", "job")}
            assert limits == {"storage latency", "stream"}


def test_one_slow_member_of_a_mix(site: Site, config: Path) -> None:
    with served(config) as fast, served(site.config) as slowly:
        slowly[1].plan("rows")
        with site.faulty(delay=0.4):
            names = (fast, "fast", 40), (slowly, "slow", 150)
            streams = [at[1].read("rows", job=job, batch_rows=1000) for at, job, _ in names]
            for _ in range(100):  # both have a part in each step
                for stream in streams:
                    next(stream)
            limits = [look(at[0], job).limit for at, job, _ in names]
            for stream in streams:
                stream.close()
            assert limits == ["trainer", "storage latency"]


def test_a_slow_catalog(site: Site) -> None:
    with served(site.config) as (address, client):
        site.catalog.delay = 3.0
        try:
            with in_thread(lambda: client.plan("small")):
                until = time.monotonic() + 60
                while "1 being made" not in slow.status(address):
                    assert time.monotonic() < until
        finally:
            site.catalog.delay = 0.0
