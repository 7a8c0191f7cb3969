"""Streams of the real server that is killed, restarted, drained, cut off or replaced in their midst."""

from __future__ import annotations

import dataclasses
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pytest
from lake import Lake, Row, Written
from proxy import Proxy
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import ListType, LongType
from server import Server

import penstock

pytestmark = pytest.mark.usefixtures("in_order")

# Far more than a transport holds for a reader that waits.
ROWS, WIDE, REQUESTS = 3000, 1000, 50
LONG = os.environ.get("PENSTOCK_LONG") == "1"

# Every way in which the rest of a stream is asked for, and how many batches of 64 rows come before the kill.
QUERIES: dict[str, dict[str, Any]] = {
    "one shard": {},
    "lanes": {"lanes": 4},
    "shuffled": {"order": "shuffled", "seed": 5, "shuffle_window": 300, "lanes": 2},
    "a shard": {"lanes": 4, "shard": (1, 2)},
    "all shards": {"lanes": 4, "shard": {"of": 2}},
    "splits": {"endpoints": "splits"},
    "splits of unknown rows": {"endpoints": "splits", "filter": "row > 100"},
    "limit": {"limit": 2001},
    "a DataLoader worker": {"lanes": 2, "every": {"step": 1, "of": 3}},
    "even steps": {"lanes": 4, "shard": (1, 2), "tail": "drop", "filter": "label = 1"},
    "global": {"lanes": 4, "shard": (0, 2), "batch_rows": None, "global_batch_rows": 128},
    "requests": {"batch_requests": 2, "batch_rows": None, "order": "shuffled", "lanes": 2},
    "grouped": {"batch_requests": 2, "batch_rows": None, "order": "shuffled", "wire": "grouped"},
    "indexed": {"wire": "indexed"},
    "plain": {"wire": "plain"},
    "sample": {"sample": {"rate": 0.5, "where": "label = 0"}, "columns": ["row", "wide"]},
}
# What make test reads through the death of two servers. make test-more reads the others.
FEW = ("lanes", "splits", "grouped", "plain")


@dataclasses.dataclass(frozen=True)
class World:
    """A lake of one dataset "wide", its configurations, and its training table."""

    made: Lake
    config: Path
    rows: list[Row]
    training: Written


def make(folder: Path, count: int = ROWS) -> World:
    rng = random.Random(8)
    made = Lake(folder)
    rows = [{"row": i, "request_id": i % REQUESTS, "label": rng.randrange(2)} for i in range(count)]
    types = {"row": LongType(), "request_id": LongType(), "label": LongType()}
    training = made.write("ml.rows", types, ("request_id", 4), rows)
    wide = [
        {"request_id": r, "wide": [rng.randrange(2**60) for _ in range(WIDE)]}
        for r in range(REQUESTS)
        if r % 5
    ]
    wide_type = ListType(element_id=900, element_type=LongType(), element_required=False)
    staging = made.write(
        "features.wide", {"request_id": LongType(), "wide": wide_type}, ("request_id", 8), wide
    )
    dataset = {
        "training": {"table": "ml.rows"},
        "key": ["request_id"],
        "staging": [{"table": "features.wide"}],
    }
    joined = lake.join(training.rows, staging.rows, ("request_id", "request_id"))
    return World(made, made.config({"wide": dataset}), joined, training)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("restarts"))


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    with Server(world.config) as server:
        yield server


def connect(*addresses: str, **settings: Any) -> penstock.Client:
    """A client that reads little ahead, so that a kill finds something left to read."""
    return penstock.connect(list(addresses), lookahead=1 << 16, **{"reconnect": 60, **settings})


def read(client: penstock.Client, **query: Any) -> penstock.Stream:
    return client.read("wide", **{"batch_rows": 64, **query})


def rest_of(stream: penstock.Stream) -> list[tuple[pa.RecordBatch, Any]]:
    """The batches that are left, with the cursor after each."""
    return [(batch, stream.cursor) for batch in stream]


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.more) for name in QUERIES]
)
def test_a_killed_server_changes_nothing(
    world: World, server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = QUERIES[name]
    with connect(server.address) as client:
        whole = rest_of(read(client, **query))
    given = [value for batch, _ in whole for value in batch.column("row").to_pylist()]
    rows = sorted(row for value in given for row in (value if name == "grouped" else [value]))
    if not {"limit", "every", "tail", "sample", "shard", "filter"} & set(query):
        assert rows == list(range(ROWS))
    assert len(set(rows)) == len(rows) > 500
    with Server(world.config) as first, connect(first.address) as client:
        stream = read(client, **query)
        got = [(next(stream), stream.cursor) for _ in range(3)]
        first.kill()
        with Server(world.config, listen=first.address) as second:
            while len(got) < len(whole) * 2 // 3:
                got.append((next(stream), stream.cursor))
            second.kill()
            with Server(world.config, listen=first.address):
                got += rest_of(stream)
    assert stream.stats.resumed > 0
    told = [record.getMessage() for record in caplog.records if " resumed after " in record.getMessage()]
    assert len(told) == stream.stats.resumed
    assert len(got) == len(whole)
    for (batch, cursor), (want, at) in zip(got, whole, strict=True):
        assert batch == want
        assert cursor == at
    assert stream.report["requests" if name == "grouped" else "rows"] == len(given)
    assert stream.report["batches"] == len(whole)


@pytest.mark.parametrize("name", [n for n in QUERIES if n not in ("indexed", "plain", "global")])
def test_a_connection_that_is_cut_anywhere_changes_nothing(server: Server, name: str) -> None:
    """Also in a plan, within a message, and between the last batch and the report."""
    rng = random.Random(name)
    query = {"batch_rows": 128, **QUERIES[name], "columns": ["row", "label"]}
    with connect(server.address) as client:
        whole = rest_of(read(client, **query))
    size = sum(batch.nbytes for batch, _ in whole)
    for _ in range(4 if LONG else 1):
        budgets = [rng.randrange(4000, 3000 + size // 2) for _ in range(rng.randrange(1, 6))]
        with Proxy(server.address, budgets) as proxy, connect(proxy.address) as client:
            try:
                stream = read(client, **query)
            except penstock.Unavailable:  # cut in its first plan
                continue
            assert rest_of(stream) == whole
            assert stream.stats.rows == sum(batch.num_rows for batch, _ in whole)
            assert stream.stats.resumed <= proxy.cuts + 1


def test_connection_cut_before_the_report(server: Server) -> None:
    """All rows have come, and the server has nothing left to give but its report, or not even that."""
    queries: list[dict[str, Any]] = [
        {},
        {"limit": 200},
        {"endpoints": "splits"},
        {"lanes": 2, "every": {"step": 0, "of": 2}},
    ]
    for query in queries:
        behind_the_last = 0
        with Proxy(server.address) as proxy, connect(proxy.address) as client:
            whole = rest_of(client.read("wide", columns=["row"], batch_rows=100, **query))
        for budget in range(proxy.came - 1200, proxy.came, 50 if LONG else 200):
            with Proxy(server.address, [budget]) as proxy, connect(proxy.address) as client:
                stream = client.read("wide", columns=["row"], batch_rows=100, **query)
                assert rest_of(stream) == whole
                parts = stream.report.get("parts", [{"batches": 1}])
                behind_the_last += "ended" in parts[-1] or not parts[-1]["batches"]
        assert behind_the_last or "endpoints" in query


def test_a_drained_server(world: World) -> None:
    """A stream that exceeds the drain time ends as unavailable, and resumes on the next server."""
    with Server(world.config, "--drain", "1ms") as first, connect(first.address) as client:
        # A plain batch is larger than what the client reads ahead, so the server cannot say where the stream moves.
        whole = [row for batch in read(client) for row in batch.column("row").to_pylist()]
        stream = read(client, wire="plain")
        got = next(stream).column("row").to_pylist()
        first.terminate()
        first.wait()
        with Server(world.config, listen=first.address):
            got += stream.read_all().column("row").to_pylist()
    assert got == whole
    assert stream.stats.resumed == 1
    broken, last = stream.report["parts"]
    assert broken["ended"]
    assert broken["rows"] + last["rows"] == len(whole)


def test_stream_resumes_on_the_other_server(world: World, server: Server) -> None:
    with Server(world.config) as first, connect(first.address, server.address) as client:
        whole = rest_of(read(client))
        stream, other = read(client), read(client)
        got = [(next(stream), stream.cursor) for _ in range(3)]
        first.kill()
        assert [*got, *rest_of(stream)] == whole
        assert rest_of(other) == whole, "its ticket is of the first server's keys"
        assert rest_of(read(client)) == whole


def test_unknown_tickets_are_planned_again(tmp_path: Path) -> None:
    """Planned before the restart and begun after it, a stream reads the snapshot of its plan."""
    world = make(tmp_path / "lake")
    for query in ({}, {"lanes": 4, "shard": {"of": 2}}, {"endpoints": "splits"}):
        with Server(world.config) as first, connect(first.address) as client:
            planned = read(client, **query)
            extra = [{"row": 10**6 + i, "request_id": i, "label": 0} for i in range(50)]
            world.training.table.refresh()
            world.training.table.append(
                pa.Table.from_pylist(extra, schema_to_pyarrow(world.training.table.schema()))
            )
            first.kill()
            with Server(world.config, listen=first.address):
                rows = planned.read_all().column("row").to_pylist()
                assert len(rows) == planned.report["rows"] == planned.plan.rows
                assert read(client).read_all().num_rows == len(rows) + 50


def test_stream_of_a_changed_dataset_does_not_resume(world: World) -> None:
    staging = [{"table": "features.wide", "join": "inner"}]
    dataset = {"training": {"table": "ml.rows"}, "key": ["request_id"], "staging": staging}
    changed = world.made.config({"wide": dataset}, "changed.yaml")
    with Server(world.config) as first, connect(first.address) as client:
        stream, unread = read(client), read(client)
        next(stream)
        first.kill()
        with Server(changed, listen=first.address):
            with pytest.raises(penstock.Invalid, match="dataset") as caught:
                stream.read_all()
            assert caught.value.differs
            with pytest.raises(penstock.Expired, match="the dataset's configuration has changed"):
                next(unread)


# Every call that only reads, with its comparable result.
CALLS: dict[str, Callable[[penstock.Client, Path], Any]] = {
    "datasets": lambda client, _: [one.name for one in client.datasets()],
    "schema": lambda client, _: client.schema("wide"),
    "plan": lambda client, _: client.plan("wide").id,
    "count": lambda client, _: client.plan("wide", filter="row > 100", count="exact", lanes=1).rows,
    "read": lambda client, _: client.read("wide", columns=["row"]).read_all(),
    "head": lambda client, _: client.head("wide", 3, columns=["row"]),
    "explain": lambda client, _: client.explain("wide").partition("\n")[0],
    "manifest": lambda client, _: client.manifest("wide"),
    "splits": lambda client, _: [one.name for one in client.read_splits("wide")],
    "evaluate": lambda client, folder: client.evaluate(
        "wide", folder, lambda stream: stream.read_all(), columns=["row"]
    ).table(),
    "verify": lambda client, _: client.verify("wide")["findings"],
    "tables": lambda client, _: client.tables(),
    "log": lambda client, _: client.log("ml.rows"),
    "diff": lambda client, _: client.diff("ml.rows", only_files=True),
    "stats": lambda client, _: client.stats("ml.rows"),
}


def retries(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [m for record in caplog.records if "a call failed; retry" in (m := record.getMessage())]


# spec: trainer-48
def test_calls_wait_for_a_restarted_server(
    world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with Server(world.config) as first, ThreadPoolExecutor(len(CALLS)) as pool:
        with connect(first.address) as client:
            want = {name: call(client, tmp_path / name) for name, call in CALLS.items()}
        clients = {name: connect(first.address) for name in CALLS}
        for client in clients.values():
            client.status()
        first.kill()
        calls = {
            name: pool.submit(call, clients[name], tmp_path / f"{name} again") for name, call in CALLS.items()
        }
        while len(retries(caplog)) < 2 * len(CALLS):
            assert [call.result() for call in calls.values() if call.done()] == []
            threading.Event().wait(0.01)
        with Server(world.config, listen=first.address):
            assert {name: call.result(60) for name, call in calls.items()} == want
        for client in clients.values():
            client.close()


# spec: trainer-48
def test_calls_that_fail_at_once(world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with penstock.connect("127.0.0.1:1") as never:
        for name, call in CALLS.items():
            with pytest.raises(penstock.Unavailable):
                call(never, tmp_path / name)
    with (
        Server(world.config) as first,
        connect(first.address) as client,
        connect(first.address, reconnect=0) as impatient,
    ):
        client.datasets()
        impatient.datasets()
        first.kill()
        with pytest.raises(penstock.Unavailable):
            client.status()
        with pytest.raises(penstock.Unavailable):
            impatient.plan("wide")
    assert not retries(caplog)


def test_closing_the_client_ends_the_retries_of_its_calls(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(world.config) as first, ThreadPoolExecutor(2) as pool:
        client = connect(first.address)
        client.datasets()
        first.kill()
        failed = pool.submit(client.plan, "wide")
        while not retries(caplog):
            threading.Event().wait(0.01)
        client.close()
        assert isinstance(failed.exception(20), penstock.Unavailable | penstock.Invalid)


@pytest.mark.more
def test_many_streams_of_one_client(world: World, server: Server) -> None:
    with connect(server.address) as client:
        want = [row for batch in read(client) for row in batch.column("row").to_pylist()]
    with Server(world.config) as first, connect(first.address) as client:
        streams = [read(client) for _ in range(4)]
        got = [next(stream).column("row").to_pylist() for stream in streams]
        first.kill()
        with Server(world.config, listen=first.address):

            def finish(i: int) -> None:
                for batch in streams[i]:
                    got[i] += batch.column("row").to_pylist()

            threads = [threading.Thread(target=finish, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(100)
    assert got == [want] * 4
