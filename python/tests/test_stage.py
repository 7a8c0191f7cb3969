"""Rows that programs send to tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from server import BINARY, Server
from stage_house import TABLE, House, batches, table
from test_stage_forms import readers

import penstock
from penstock.staging import new_token


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


def test_rows_are_written_once(house: House, client: penstock.Client) -> None:
    """A repeated token returns the snapshot of the first call.

    spec: stage-73
    """
    first = client.stage(TABLE, table(), key=["id"], buckets=4)
    assert (first.rows, first.created, first.partition) == (10, True, ("bucket[4](id)",))
    again = client.stage(TABLE, table(), token=first.token)
    assert again == penstock.Staged(TABLE, "main", first.token, first.snapshot, existed=True)
    more = client.stage(TABLE, table(10, 20))
    assert (more.previous, more.created) == (first.snapshot, False)
    assert house.rows() == table(0, 20).to_pylist()
    assert client.stage(TABLE, table(20, 30), dry_run=True).snapshot == 0
    assert client.stage(TABLE, table(0, 0)).rows == 0
    assert house.snapshots() == 2
    with client.read("history", columns=["id"]) as stream:
        assert sum(batch.num_rows for batch in stream) == 20


def test_the_result_says_how_datasets_read_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stage reports match rates, and logs those that are suspicious and datasets that it has broken.

    spec: stage-156, stage-158, stage-160
    """
    house = House(tmp_path)
    homefeed = "{training: {table: features.shown}, key: [id], staging: [{table: features.history, name: h}]}"
    text = house.config.read_text().replace("datasets: {", f"datasets: {{homefeed: {homefeed}, ")
    house.config.write_text(text)
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        shown = pa.table({"id": pa.array(range(200), pa.int64())})
        assert client.stage("features.shown", shown, key=["id"], buckets=4, no_check=True).readers == ()
        first = client.stage(TABLE, table(500, 510), key=["id"], buckets=4)
        joined, alone = first.readers
        assert (alone.dataset, alone.entry, alone.match_rate, alone.failure) == ("history", "", None, "")
        assert (joined.dataset, joined.entry, joined.rows, joined.match_rate) == ("homefeed", "h", 200, 0.0)
        assert joined.warning in caplog.text
        assert client.stage(TABLE, table(0, 150)).readers[0].match_rate == 0.75
        tried = client.stage(TABLE, table(150, 200), branch="trial").readers[0]
        assert (tried.branch, tried.match_rate, joined.branch) == ("trial", 1.0, "")
        broken = client.stage(TABLE, table(0, 2), allow_duplicates=True)
        assert broken.readers[0].failure
        assert broken.readers[0].kind == "invalid"
        assert "dataset homefeed can no longer be read: " in caplog.text


def test_the_same_rows_are_written_once(house: House, client: penstock.Client) -> None:
    """Rows in any form are found; `again` and a token write them.

    spec: stage-143, stage-144, stage-148
    """
    first = client.stage(TABLE, table(), key=["id"], buckets=4)
    written = penstock.Staged(TABLE, "main", first.token, first.snapshot, existed=True)
    for form, data in readers().items():
        assert client.stage(TABLE, data()) == written, form
    client.stage(TABLE, table(10, 20))
    assert client.stage(TABLE, table()) == written
    assert client.stage(TABLE, table(), again=False, token=new_token()) == written
    assert house.rows() == table(0, 20).to_pylist()
    assert client.stage(TABLE, table(), again=True).rows == 10
    assert client.stage(TABLE, table(), token=new_token()).rows == 10
    assert len(house.rows()) == 40
    last = client.stage(TABLE, table(30, 40))
    client.undo(last)
    assert client.stage(TABLE, table(30, 40)).rows == 10


def test_calls_at_once(house: House, client: penstock.Client) -> None:
    """More calls than a server has places for all end well, and each is one snapshot.

    spec: stage-66
    """
    client.stage(TABLE, table(), key=["id"], buckets=2)
    failures: list[BaseException] = []

    def one(i: int) -> None:
        try:
            client.stage(TABLE, lambda: batches(table(100 * i, 100 * i + 10)))
        except BaseException as e:  # all are looked at below
            failures.append(e)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(1, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert house.snapshots() == 13
    assert len(house.rows()) == 130


def test_private_servers_write(house: House) -> None:
    """A private server writes where its config file allows it.

    spec: stage-69
    """
    with penstock.open(house.config, program=BINARY) as client:
        client.stage(TABLE, table(), key=["id"], buckets=2)
        with pytest.raises(penstock.Forbidden, match="may not be changed"):
            client.stage("other.history", table(), key=["id"], buckets=2)
    assert house.rows() == table().to_pylist()


# spec: catalog-37
def test_a_private_server_creates_the_catalog_with_the_first_table(tmp_path: Path) -> None:
    config, file = tmp_path / "penstock.yaml", tmp_path / "catalog.db"
    config.write_text(
        "catalogs: {default: {type: sql, uri: 'sqlite:///catalog.db', warehouse: warehouse, writes: {namespaces: [features]}}}\n"
        "datasets: {history: {training: {table: features.history}, key: [id]}}\n"
    )
    with pytest.raises(AssertionError, match="there is no file"), Server(config):
        pass
    with penstock.open(config, program=BINARY) as client:
        with pytest.raises(penstock.NotFound, match=r"there is no file .*catalog\.db"):
            client.read("history").read_all()
        with pytest.raises(penstock.NotFound):
            client.log(TABLE)
        assert not file.exists()
        assert client.stage(TABLE, table(), key=["id"], buckets=4).created
        assert client.read("history").read_all().num_rows == 10
    catalog = SqlCatalog("default", uri=f"sqlite:///{file}", warehouse=f"file://{tmp_path}/warehouse")
    assert catalog.load_table(TABLE).scan().to_arrow().num_rows == 10
    catalog.create_table("features.other", pa.schema([("id", pa.int64())]))
