"""The first rows, of a dataset and of an open stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lake
import pytest
from server import Server

import penstock


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Client]:
    config = lake.scored(tmp_path_factory.mktemp("head"), 6, 500, 50)
    with Server(config) as server, penstock.connect(server.address) as client:
        yield client


def test_head_of_a_dataset_is_the_first_rows(client: penstock.Client) -> None:
    every = client.read("d").read_all()
    assert client.head("d") == every.slice(0, 5)
    assert client.head("d", 7, columns=every.schema.names[:1]) == every.select([0]).slice(0, 7)
    assert client.head("d", 10_000) == every
    assert client.head("d", 3, limit=2) == every.slice(0, 2)
    shards: list[Any] = [(1, 2), {"of": 2}]
    for shard in shards:
        parts = client.read("d", shard=shard).read_all()
        assert client.head("d", 300, shard=shard).to_pydict() == parts.slice(0, 300).to_pydict()
    with pytest.raises(penstock.Invalid, match="rows: must be at least 1"):
        client.head("d", 0)


def test_head_of_a_stream_does_not_move_it(client: penstock.Client) -> None:
    every = client.read("d").read_all()
    with client.read("d", batch_rows=64, limit=200) as stream:
        assert stream.head() == every.slice(0, 5)
        assert stream.stats.rows == 0
        first = next(stream)
        assert stream.head(70).to_pydict() == every.slice(64, 70).to_pydict()
        assert stream.head(1000).to_pydict() == every.slice(64, 136).to_pydict()
        rest = stream.read_all()
        assert first.num_rows + rest.num_rows == 200
        assert rest == every.slice(64, 136)
        assert stream.head() == every.slice(0, 0)
        assert stream.report["rows"] == 200


def test_head_of_a_shuffled_stream_has_its_next_rows(client: penstock.Client) -> None:
    with client.read("d", order="shuffled", seed=3, epoch=2, batch_rows=50, shard=(1, 2)) as stream:
        next(stream)
        next(stream)
        ahead = stream.head(60)
        assert ahead.num_rows == 60
        assert ahead.to_pydict() == stream.read_all().slice(0, 60).to_pydict()


def test_head_of_repeated_epochs_is_of_the_current_one(client: penstock.Client) -> None:
    with client.read("d", order="shuffled", seed=3, batch_rows=250, repeat=2) as stream:
        for _ in range(3):
            next(stream)
        assert stream.head(3).to_pydict() == next(stream).slice(0, 3).to_pydict()


def test_head_of_a_split_is_refused(client: penstock.Client) -> None:
    split = next(iter(client.read_splits("d")))
    with split.read() as stream, pytest.raises(penstock.Invalid, match="of a split cannot be read alone"):
        stream.head()
