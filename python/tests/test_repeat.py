"""Streams of several epochs, against a plain read of each epoch."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lake
import pytest
from server import Server

import penstock
from penstock import Invalid

QUERY: Any = {
    "columns": ["row", "score"],
    "order": "shuffled",
    "seed": 3,
    "shuffle_window": 64,
    "shuffle_parts": 3,
    "lanes": 4,
    "batch_rows": 60,
    "filter": "row >= 20",
}
Steps = list[list[int]]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("repeated") / "lake", 1, 1000, 100)


@pytest.fixture(scope="module")
def client(config: Path) -> Iterator[penstock.Client]:
    with Server(config) as server, penstock.connect(server.address) as made:
        yield made


def read(stream: penstock.Stream, batches: int | None = None) -> Steps:
    found = []
    for batch in stream:
        found.append(batch.column("row").to_pylist())
        if len(found) == batches:
            break
    return found


def alone(client: penstock.Client, epochs: int, **fields: Any) -> Steps:
    """The batches of each epoch, one after the other."""
    out: Steps = []
    for epoch in range(epochs):
        with client.read("d", **{**QUERY, **fields}, epoch=epoch) as stream:
            out += read(stream)
    return out


# spec: mix-16
def test_a_stream_repeats_with_the_next_epochs(client: penstock.Client) -> None:
    expected = alone(client, 3)
    assert expected[0] != expected[17]
    with client.read("d", **QUERY, repeat=3) as stream:
        assert read(stream) == expected
        assert stream.report["rows"] == 3 * 980
        assert [one["rows"] for one in stream.report["epochs"]] == [980] * 3
        assert stream.report["partial"] is False
        tables = stream.report["staging"]
        assert tables == {
            name: {
                count: sum(one["staging"][name][count] for one in stream.report["epochs"])
                for count in tables[name]
            }
            for name in stream.report["epochs"][0]["staging"]
        }
        assert stream.stats.rows == 3 * 980
        assert stream.stats.batches == len(expected)
        assert isinstance(stream.cursor, dict)
        assert stream.cursor["epoch"] == 2
    with client.read("d", **QUERY, repeat=3, epoch=1) as stream:
        assert read(stream) == expected[len(expected) // 3 :]
    with client.read("d", **QUERY, repeat="forever") as stream:
        assert read(stream, 200) == alone(client, 12)[:200]
    with client.read("d", **QUERY, repeat=1) as stream:
        assert read(stream) == alone(client, 1)


# spec: mix-17
@pytest.mark.parametrize("fields", [QUERY, {"repeat": 3}])
def test_a_repeated_stream_resumes_at_any_batch(client: penstock.Client, fields: Any) -> None:
    expected = alone(client, 3)
    rng = random.Random(2)
    cursor, found = None, []
    while True:
        query = QUERY if cursor is None else {**fields, "batch_rows": 60}
        with client.read("d", **{**query, "repeat": 3, "cursor": cursor}) as stream:
            taken = read(stream, rng.randrange(1, 12))
            found += taken
            cursor = json.loads(json.dumps(stream.cursor))
        if not taken:
            break
    assert found == expected


# spec: mix-17
def test_a_cursor_at_the_end_of_an_epoch_continues_with_the_next(client: penstock.Client) -> None:
    expected = alone(client, 2)
    with client.read("d", **QUERY) as stream:
        first = read(stream)
    with client.read("d", **QUERY, cursor=stream.cursor, repeat=2) as stream:
        assert read(stream) == expected[len(first) :]
        assert next(stream, None) is None


# spec: mix-18
@pytest.mark.parametrize("of", [2, 3, 5])
def test_every_nth_step_is_counted_through_all_epochs(client: penstock.Client, of: int) -> None:
    expected = alone(client, 3)
    for own in range(of):
        with client.read("d", **QUERY, repeat=3, every=(own, of)) as stream:
            assert read(stream) == expected[own::of]
    with client.read("d", **QUERY) as stream:
        done = len(read(stream, 4))
    for own in range(of):
        with client.read("d", **QUERY, repeat=3, every=(own, of), cursor=stream.cursor) as rest:
            assert read(rest) == expected[done + own :: of]


# spec: mix-16
def test_shards_repeat_alike(client: penstock.Client) -> None:
    for rank in range(2):
        with client.read("d", **QUERY, tail="drop", shard=(rank, 2), repeat=2) as stream:
            assert read(stream) == alone(client, 2, tail="drop", shard=(rank, 2))


# spec: mix-16
def test_all_epochs_read_the_same_snapshots(tmp_path: Path) -> None:
    made = lake.Lake(tmp_path / "lake")
    rows = [{"row": i, "request_id": i // 6} for i in range(100)]
    columns: Any = {name: lake.EVENTS[name] for name in ("row", "request_id")}
    written = made.write("ml.rows", columns, ("request_id", 4), rows)
    dataset = {"training": {"table": "ml.rows"}, "key": ["request_id"], "staging": []}
    config = made.config({"d": dataset})
    with Server(config) as server:
        address = server.address
    with (
        Server(config, listen=address) as server,
        penstock.connect(address) as client,
        client.read("d", batch_rows=10, repeat=3) as stream,
    ):
        found = read(stream, 5)
        written.table.append(written.table.scan().to_arrow())
        server.kill()
        server.__enter__()
        found += read(stream)
        assert sorted(row for step in found for row in step) == sorted([*range(100)] * 3)


# spec: mix-19
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"repeat": 0}, "must be at least 1"),
        ({"repeat": "often"}, "'often' is not a whole number"),
        ({"repeat": 2, "limit": 10}, "cannot be combined with limit"),
        ({"repeat": 2, "epoch": 2}, "2 epochs are the epochs 0 to 1, without 2"),
        ({"repeat": 2, "shard": {"of": 2}}, "the query has several shards"),
    ],
)
def test_what_cannot_be_repeated_is_refused(client: penstock.Client, fields: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message) as error:
        client.read("d", **{**QUERY, **fields})
    assert error.value.faults[0].field == "repeat"


# spec: mix-19
def test_an_empty_epoch_cannot_be_repeated(client: penstock.Client) -> None:
    empty = {**QUERY, "filter": "row < 0"}
    with (
        client.read("d", **empty, repeat="forever") as stream,
        pytest.raises(Invalid, match="epoch 0 has no batch"),
    ):
        next(stream)
    with client.read("d", **QUERY, epoch=1) as stream:
        next(stream)
    with pytest.raises(Invalid, match="the cursor is from epoch 1, and 1 epochs end with epoch 0"):
        client.read("d", **QUERY, cursor=stream.cursor, repeat=1)
    with client.read("d", **QUERY, repeat=2) as stream:
        with pytest.raises(TypeError):
            len(stream)
        with pytest.raises(Invalid, match="a manifest is of one epoch"):
            stream.manifest()


# spec: order-32, order-33
def test_lanes_keep_their_rows_over_epochs(client: penstock.Client) -> None:
    def rows(epoch: int, **fields: Any) -> list[list[int]]:
        shards = [{**QUERY, **fields, "epoch": epoch, "shard": (i, 2), "batch_rows": 40} for i in range(2)]
        return [[row for step in read(client.read("d", **of)) for row in step] for of in shards]

    first, second = rows(0, algorithm=2), rows(1, algorithm=2)
    assert [sorted(a) for a in first] == [sorted(b) for b in second]
    assert first != second
    assert sorted(first[0] + first[1]) == list(range(20, 1000))
    assert [sorted(a) for a in rows(0)] != [sorted(b) for b in rows(1)]
    fields: Any = {**QUERY, "algorithm": 2}
    with client.read("d", **fields, repeat=2) as stream:
        assert read(stream) == alone(client, 2, algorithm=2)
        assert isinstance(stream.cursor, dict)
        assert stream.cursor["algorithm"] == 2
