"""Changes of a server's config file while streams are open, and staging entries that queries add."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake import EVENTS, HISTORY, SCORES, Lake, Row, events, history, join, scores
from pyiceberg.types import ListType, LongType
from server import Server

import penstock

STREAMS = 8
RUN: dict[str, Any] = {
    "order": "shuffled",
    "seed": 3,
    "lanes": STREAMS,
    "batch_rows": 64,
    "shuffle_window": 512,
}
NEW: dict[str, Any] = {"table": "features.history", "key": {"request_id": "req"}}


class Tables:
    """A lake with a dataset d, a feature that is not in it, and the rows of d with and without the feature."""

    def __init__(self, folder: Path) -> None:
        rng = random.Random(5)
        self.lake = Lake(folder)
        made, scored = events(rng, 8000, 900), scores(rng, 900)
        features = history(rng, 900)
        self.lake.write("ml.events", EVENTS, ("request_id", 8), made, files=2)
        self.lake.write("features.scores", SCORES, ("request_id", 8), scored)
        self.lake.write("features.history", HISTORY, ("req", 4), features)
        old = join(made, scored, ("request_id", "request_id"))
        self.old = {row["row"]: row for row in old}
        self.new = {row["row"]: row for row in join(old, features, ("request_id", "req"))}
        self.config = self.put()

    def put(self, *more: dict[str, Any]) -> Path:
        """Writes the configuration, with more staging entries."""
        return self.lake.config(
            {
                name: {
                    "training": {"table": "ml.events"},
                    "key": ["request_id"],
                    "staging": [{"table": table}, *more],
                }
                for name, table in {"d": "features.scores", "wide": "features.wide"}.items()
            }
        )

    def write_wide(self) -> None:
        """Writes the staging table of the dataset wide, whose streams are far more than a transport holds."""
        rows = [{"request_id": r, "wide": list(range(r, r + 400))} for r in range(900)]
        columns = {"request_id": LongType(), "wide": ListType(900, LongType(), element_required=False)}
        self.lake.write("features.wide", columns, ("request_id", 8), rows)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path / "lake")


def reload(server: Server, tables: Tables, *more: dict[str, Any]) -> None:
    """Changes the dataset of a running server, and waits until it serves it."""
    tables.put(*more)
    server.reload()
    deadline = time.monotonic() + 60
    with penstock.connect(server.address) as client:
        while not serves(client, "country", bool(more)):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def serves(client: penstock.Client, column: str, expected: bool) -> bool:
    """Whether the dataset has a column, or has none, as expected; not while it changes during the call."""
    try:
        return (column in client.schema("d").names) == expected
    except penstock.Unavailable as changes:
        if "has changed during the call" not in str(changes):
            raise
        return False


def rows_of(batches: list[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def check(rows: list[Row], want: dict[int, Row]) -> None:
    """Checks every column of rows."""
    for row in rows:
        assert row == want[row["row"]]


def streams(client: penstock.Client, **fields: Any) -> list[penstock.Stream]:
    return [client.read("d", shard=(i, STREAMS), **RUN, **fields) for i in range(STREAMS)]


def whole(client: penstock.Client, **fields: Any) -> list[list[Row]]:
    """The rows of an unbroken run, by shard."""
    return [rows_of(list(stream)) for stream in streams(client, **fields)]


# spec: ticket-17, cursor-30, pin-14
def test_entry_reloaded_under_eight_streams(tables: Tables) -> None:
    with (
        Server(tables.config, "--memory", "256MiB") as server,
        penstock.connect(server.address, lookahead=1 << 16) as client,
    ):
        unbroken = whole(client)
        assert sorted(row["row"] for rows in unbroken for row in rows) == sorted(tables.old)
        running = streams(client)
        taken = [list(itertools.islice(stream, 3)) for stream in running]
        cursors = [stream.cursor for stream in running]
        reload(server, tables, NEW)

        # None ends, and none changes.
        rests: list[list[pa.RecordBatch]] = [[] for _ in running]

        def read(i: int) -> None:
            rests[i] = list(running[i])

        readers = [threading.Thread(target=read, args=(i,)) for i in range(STREAMS)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        for i, stream in enumerate(running):
            assert rows_of(taken[i] + rests[i]) == unbroken[i]
            assert stream.stats.resumed == 0
            assert "country" not in stream.schema.names

        # Each resumes if it was killed after it, with the feature from there on.
        for i, cursor in enumerate(cursors):
            with client.read("d", cursor=cursor, batch_rows=64) as resumed:
                rows = rows_of(list(resumed))
            after = unbroken[i][sum(batch.num_rows for batch in taken[i]) :]
            assert [{name: row[name] for name in after[0]} for row in rows] == after
            check(rows, tables.new)
            assert {"scores", "history"} == set(resumed.cursor["pin"]["staging"])  # type: ignore[call-overload, index]
        check([row for rows in whole(client) for row in rows], tables.new)


# spec: ticket-17, cursor-30
@pytest.mark.parametrize("wire", [None, "plain", "indexed"])
def test_streams_whose_server_is_killed_after_a_reload_keep_their_columns(tables: Tables, wire: Any) -> None:
    tables.write_wide()
    with Server(tables.config) as server:
        client = penstock.connect(server.address, lookahead=1 << 16)
        unbroken = client.read("wide", **RUN, wire=wire).read_all()
        begun, waiting = client.read("wide", **RUN, wire=wire), client.read("wide", **RUN, wire=wire)
        taken = list(itertools.islice(begun, 3))
        reload(server, tables, NEW)
        address = server.address
    with client, Server(tables.config, listen=address):
        assert pa.Table.from_batches(taken + list(begun)).equals(unbroken)
        assert begun.stats.resumed >= 1
        assert waiting.read_all().equals(unbroken)
        assert "country" in penstock.expand(next(client.read("wide", **RUN, wire=wire))).schema.names


# spec: ticket-17
def test_epochs_of_one_stream_keep_their_columns(tables: Tables) -> None:
    with Server(tables.config) as server, penstock.connect(server.address) as client:
        first = [rows_of(list(client.read("d", shard=(0, 8), epoch=e, **RUN))) for e in range(2)]
        with client.read("d", shard=(0, 8), **RUN, repeat=2) as stream:
            taken = [next(stream)]
            reload(server, tables, NEW)
            assert rows_of(taken + list(stream)) == first[0] + first[1]


# spec: resolve-91, cursor-31
def test_query_adds_an_entry(tables: Tables) -> None:
    with Server(tables.config) as server, penstock.connect(server.address) as client:
        old = whole(client)
        new = whole(client, with_=[NEW])
        check([row for rows in new for row in rows], tables.new)
        assert [[{name: row[name] for name in old[0][0]} for row in rows] for rows in new] == old

        stream = client.read("d", shard=(2, STREAMS), **RUN)
        taken = list(itertools.islice(stream, 2))
        with client.read("d", cursor=stream.cursor, batch_rows=64, with_=[NEW]) as resumed:
            assert rows_of(list(resumed)) == new[2][sum(batch.num_rows for batch in taken) :]
        stream.close()

        assert client.plan("d", with_=[NEW]).schema.names == client.schema("d", with_=[NEW]).names
        assert "features.history" in client.explain("d", with_=[NEW])
        assert " for its columns" in client.explain("d", with_=[NEW], columns=["row", "country"])
        other = {"table": "features.scores", "prefix": "trial_"}
        with pytest.raises(penstock.Invalid, match=r"with\[0\].name.* differs in prefix; leave this one out"):
            client.read("d", with_=[other])


# spec: resolve-116
def test_query_adds_an_entry_that_the_dataset_got_meanwhile(tables: Tables) -> None:
    with Server(tables.config) as server, penstock.connect(server.address) as client:
        want = whole(client, with_=[NEW])
        stream = client.read("d", shard=(2, STREAMS), **RUN, with_=[NEW])
        taken = list(itertools.islice(stream, 2))
        reload(server, tables, NEW)
        assert whole(client, with_=[NEW]) == want
        for again in ([NEW], None):
            with client.read("d", cursor=stream.cursor, batch_rows=64, with_=again) as resumed:
                assert rows_of(taken + list(resumed)) == want[2]
        stream.close()


# spec: resolve-91
def test_manifest_has_added_entries(tables: Tables) -> None:
    with Server(tables.config) as server, penstock.connect(server.address) as client:
        kept = client.manifest("d", with_=[NEW], columns=["row", "country"])
        want = rows_of(list(client.replay(kept)))
        reload(server, tables, NEW)  # the dataset has the entry itself then
        assert rows_of(list(client.replay(kept))) == want
        assert {row["row"]: row["country"] for row in want} == {
            key: row["country"] for key, row in tables.new.items()
        }


@pytest.mark.parametrize("entries", ["features.history", {"table": "features.history"}, 7])
def test_with_must_be_a_list(entries: Any) -> None:
    with penstock.connect("127.0.0.1:1") as client, pytest.raises(penstock.Invalid, match="must be a list"):
        client.plan("d", with_=entries)


@pytest.fixture
def mixed(tables: Tables) -> Iterator[penstock.Client]:
    with Server(tables.config) as server, penstock.connect(server.address) as client:
        yield client


def test_member_of_a_mix_adds_an_entry(mixed: penstock.Client) -> None:
    members: list[penstock.Member] = [
        {"dataset": "d", "weight": 1, "with_": [NEW], "columns": ["row", "country"]}
    ]
    with penstock.mix(members, client=mixed, batch_rows=64) as mix:
        assert next(mix).schema.names[:2] == ["row", "country"]
