"""Rows that programs send to tables."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from server import BINARY, Server

import penstock
from penstock.outgoing import Rows
from penstock.staging import new_token

TABLE = "features.history"


class House:
    """A catalog, and a server that writes to its namespace features."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        self.catalog.create_namespace("features")
        self.config = folder / "penstock.yaml"
        self.config.write_text(
            f"catalogs: {{default: {{type: sql, uri: 'sqlite:///{folder}/catalog.db',"
            f" warehouse: 'file://{folder}/warehouse', writes: {{namespaces: [features]}}}}}}\n"
            "datasets: {history: {training: {table: features.history}, key: [id]}}\n"
        )

    def rows(self) -> list[dict[str, Any]]:
        """All rows of main, read by another program."""
        found = self.catalog.load_table(TABLE).scan().to_arrow()
        return sorted(found.to_pylist(), key=lambda row: (row["id"], str(row.get("country"))))

    def snapshots(self) -> int:
        return len(self.catalog.load_table(TABLE).snapshots())


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


def table(start: int = 0, stop: int = 10) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, stop), pa.int64()),
            "country": pa.array(["CH", "DE"] * ((stop - start) // 2), pa.string()),
        }
    )


def batches(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    for one in tables:
        yield from one.to_batches()


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


def readers() -> dict[str, Callable[[], Any]]:
    """The same rows in every form."""
    rows = table()
    return {
        "table": lambda: rows,
        "batch": lambda: rows.to_batches()[0],
        "reader": lambda: rows.to_reader(),
        "dataset": lambda: ds.dataset(rows),
        "scanner": lambda: ds.dataset(rows).scanner(),
        "generator": lambda: batches(rows.slice(0, 4), rows.slice(4)),
        "tables": lambda: iter([rows.slice(0, 4), rows.slice(4)]),
        "function": lambda: lambda: batches(rows),
        "pandas": lambda: rows.to_pandas(),
        "pandas categories": lambda: rows.to_pandas().astype({"country": "category"}),
        "polars": lambda: pl.from_arrow(rows),
        "polars categories": lambda: pl.from_arrow(rows).with_columns(pl.col("country").cast(pl.Categorical)),
        "duckdb": lambda: duckdb.connect().from_arrow(rows),
        "dictionaries": lambda: rows.set_column(1, "country", rows["country"].dictionary_encode()),
        "empty batches of views": lambda: viewed(rows).to_reader(),
        "chunks": lambda: pa.concat_tables([rows.slice(0, 3), rows.slice(3)]),
    }


def viewed(rows: pa.Table) -> pa.Table:
    """The rows with texts as views, among batches that are slices without rows."""
    rows = rows.set_column(1, "country", rows["country"].cast(pa.string_view()))
    batch = rows.combine_chunks().to_batches()[0]
    return pa.Table.from_batches([batch.slice(3, 0), batch, batch.slice(2, 0)])


@pytest.mark.parametrize("form", readers())
def test_forms_of_rows(house: House, client: penstock.Client, form: str) -> None:
    """Anything that has Arrow batches can be sent.

    spec: stage-74
    """
    staged = client.stage(TABLE, readers()[form](), key=["id"], buckets=2)
    assert staged.rows == 10
    assert house.rows() == table().to_pylist()


def test_what_is_no_rows(client: penstock.Client) -> None:
    """Mistakes are refused before the server is asked.

    spec: stage-74
    """
    for data, says in {
        "rows": (1, "must be a pyarrow table"),
        "dict": ({"id": [1]}, "must be a pyarrow table"),
        "path": ("rows.parquet", "must be a pyarrow table"),
        "nothing": (iter([]), "has no batch"),
        "numbers": ([1, 2], "must be a pyarrow table"),
    }.values():
        with pytest.raises(penstock.Invalid, match=says) as failure:
            client.stage(TABLE, data)
        assert failure.value.token
    with pytest.raises(penstock.Invalid, match="is one name, not a list"):
        client.stage(TABLE, table(), key="id")
    with pytest.raises(penstock.Invalid, match="a batch has the schema"):
        client.stage(TABLE, iter([table(), pa.table({"id": ["x"]})]), key=["id"], buckets=2)


def test_large_batches_are_divided(house: House) -> None:
    """Batches beyond the limit of a message are sent in parts.

    spec: stage-75
    """
    long = "x" * 1000
    rows = pa.table({"id": pa.array(range(60_000), pa.int64()), "country": [long] * 60_000}).combine_chunks()
    assert rows.nbytes > 50 << 20
    seen: list[penstock.ChangeProgress] = []
    with Server(house.config, "--memory", "256MiB") as small, penstock.connect(small.address) as other:
        staged = other.stage(TABLE, rows, key=["id"], buckets=2, progress=seen.append)
        assert staged.rows == 60_000
        with pytest.raises(penstock.Invalid, match="a row has") as failure:
            other.stage(TABLE, pa.table({"id": [1], "country": ["x" * (3 << 20)]}))
        assert failure.value.token
    assert all(one.rows_read <= 60_000 for one in seen)
    assert house.snapshots() == 1


def test_replace_evolve_and_branches(house: House, client: penstock.Client) -> None:
    """The options are those of the command line.

    spec: stage-73, stage-76
    """
    days = [datetime.date(2026, 11, 25)] * 4 + [datetime.date(2026, 11, 26)] * 6
    rows = table().append_column("day", pa.array(days))
    client.stage(TABLE, rows, key=["id"], buckets=2, partition=["day"], sort=["country", "id desc"])
    staged = client.stage(TABLE, rows.slice(0, 2), mode="replace")
    assert staged.removed > 0
    assert [row["id"] for row in house.rows()] == [0, 1, 4, 5, 6, 7, 8, 9]
    with pytest.raises(penstock.Invalid, match='no column "extra"'):
        client.stage(TABLE, rows.append_column("extra", rows["id"]))
    candidate = client.stage(TABLE, rows.append_column("extra", rows["id"]), evolve=True, branch="candidate")
    assert (candidate.branch, candidate.added) == ("candidate", ("extra",))
    assert len(house.rows()) == 8
    seen = client.publish(TABLE, "candidate", dry_run=True)
    assert (seen.snapshot, seen.branch, len(house.rows())) == (candidate.snapshot, "candidate", 8)
    with pytest.raises(penstock.Conflict, match="main is at snapshot"):
        client.publish(TABLE, "candidate", seen=replace(seen, previous=0))
    published = client.publish(TABLE, "candidate", seen=seen)
    assert published == seen == client.publish(TABLE, "candidate", seen=seen)
    assert len(house.rows()) == 18
    back = client.undo(published)
    assert [one.dataset for one in back.readers] == [one.dataset for one in candidate.readers]
    assert (back.snapshot, back.previous) == (published.previous, published.snapshot)
    assert len(house.rows()) == 8
    last = client.stage(TABLE, rows.slice(0, 2))
    client.stage(TABLE, rows.slice(2, 2))
    with pytest.raises(penstock.Conflict):
        client.undo(last)
    kept = client.stage(TABLE, table(8, 12), only_keys_of="history")
    assert (kept.rows, kept.dropped) == (2, 2)


def test_first_changes_are_taken_back(house: House, client: penstock.Client) -> None:
    """The undo of the change that created the table drops the table, and that of a new branch the branch.

    spec: stage-70, stage-76, history-24
    """
    first = client.stage(TABLE, table(), key=["id"], buckets=2)
    with pytest.raises(penstock.Conflict, match="drops the table; it is read by history"):
        client.undo(first)
    assert len(house.rows()) == 10
    assert client.undo(TABLE, dry_run=True).dropped
    back = client.undo(first, drop=True)
    assert (back.snapshot, back.previous, back.branch, back.dropped) == (0, first.snapshot, "", True)
    assert Path(back.folder.removeprefix("file://")).is_dir()
    assert not house.catalog.table_exists(TABLE)
    with pytest.raises(penstock.Invalid, match="moved nothing"):
        client.undo(back)
    base = client.stage(TABLE, table(0, 4), key=["id"], buckets=4)
    begun = client.stage(TABLE, table(4, 6), branch="candidate")
    assert (begun.branched, begun.previous) == (True, base.snapshot)
    later = client.stage(TABLE, table(6, 8), branch="candidate")
    assert not later.branched
    with pytest.raises(penstock.Conflict, match=str(later.snapshot)):
        client.undo(begun)
    back = client.undo(later)
    assert (back.snapshot, back.previous, back.branch) == (begun.snapshot, later.snapshot, "candidate")
    assert client.undo(begun).snapshot == 0
    with pytest.raises(penstock.NotFound, match="candidate"):
        client.publish(TABLE, "candidate")
    assert [row["id"] for row in house.rows()] == [0, 1, 2, 3]
    empty = client.stage(TABLE, table(0, 2), dry_run=True)
    with pytest.raises(penstock.Invalid, match="moved nothing"):
        client.undo(empty)


def test_failures_in_the_middle_write_nothing(house: House, client: penstock.Client) -> None:
    """A generator that fails leaves the table as it is, and its exception is raised.

    spec: stage-77
    """
    client.stage(TABLE, table(), key=["id"], buckets=2)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(table(10, 20))
        raise ZeroDivisionError

    for progress in (None, lambda _: None):
        with pytest.raises(ZeroDivisionError):
            client.stage(TABLE, failing(), progress=progress)
    assert client.stage(TABLE, table(10, 12)).rows == 2
    assert house.snapshots() == 2


def test_stage_ends_at_its_next_batch_if_the_client_is_closed(house: House, client: penstock.Client) -> None:
    """Nothing is written then. Closing must not end the call meanwhile: pyarrow crashes if two threads use a writer."""
    client.stage(TABLE, table(), key=["id"], buckets=2)

    def closing() -> Iterator[pa.RecordBatch]:
        yield from batches(table(10, 20))
        thread = threading.Thread(target=client.close)
        thread.start()
        thread.join(60)
        yield from batches(table(20, 30))

    with pytest.raises(penstock.Invalid, match="the client was closed while it was sending rows"):
        client.stage(TABLE, closing())
    assert client._servers.current.disconnect_if_idle(), "the call has closed the connection that it used"
    assert house.snapshots() == 1
    assert house.rows() == table().to_pylist()


def test_plain_flight_needs_the_number_of_rows(house: House, client: penstock.Client) -> None:
    """A writer of pyarrow that is only closed, or lost, writes nothing.

    spec: stage-61
    """
    client.stage(TABLE, table(), key=["id"], buckets=2)
    plain = flight.connect(client.uri)
    descriptor = flight.FlightDescriptor.for_command(b'{"stage": {"table": "features.history"}}')
    writer, answers = plain.do_put(descriptor, table().schema)
    writer.write_table(table(10, 20))
    with pytest.raises(pa.ArrowInvalid, match="without the message"):
        writer.close()
    writer, answers = plain.do_put(descriptor, table().schema)
    assert answers.read() is not None
    writer.write_table(table(10, 20))
    del writer, answers
    assert house.snapshots() == 1
    writer, answers = plain.do_put(descriptor, table().schema)
    writer.write_table(table(10, 20))
    writer.write_metadata(b'{"rows": 10}')
    writer.done_writing()
    while answers.read() is not None:
        pass
    writer.close()
    plain.close()
    assert house.rows() == table(0, 20).to_pylist()


class Restarted:
    """Rows in whose middle the server is killed, and another one started in its place."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.server = Server(house.config)
        self.server.__enter__()
        self.address = self.server.address
        self.times = 0

    def __call__(self) -> Iterator[pa.RecordBatch]:
        yield from batches(table(10, 20))
        self.times += 1
        if self.times == 1:
            self.server.kill()
            self.server = Server(self.house.config, listen=self.address)
            self.server.__enter__()
        yield from batches(table(20, 30))


def test_calls_are_repeated_if_the_server_restarts(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Rows that can be read again are sent again, with the same token and a warning; of others, the error says how to continue.

    spec: stage-78
    """
    rows = Restarted(house)
    try:
        with penstock.connect(rows.address, reconnect=60) as client:
            client.stage(TABLE, table(), key=["id"], buckets=2)
            token = new_token()
            assert client.stage(TABLE, rows, token=token).token == token
            assert rows.times == 2
            assert "a call failed; retry 1 in " in caplog.text
            assert house.rows() == table(0, 30).to_pylist()
            rows.times = 0
            with pytest.raises(penstock.Unavailable, match="can be read once: call stage again") as failure:
                client.stage(TABLE, rows())
            assert failure.value.token in str(failure.value)
            assert house.snapshots() == 2
            assert client.stage(TABLE, table(10, 12), token=failure.value.token).rows == 2
    finally:
        rows.server.kill()


# spec: stage-78
@pytest.mark.usefixtures("in_order")
def test_calls_to_an_address_without_a_server_fail_at_once() -> None:
    with (
        penstock.connect(["127.0.0.1:1", "127.0.0.1:2"]) as client,
        pytest.raises(penstock.Unavailable, match=r"listens at grpc://127\.0\.0\.1:2$") as failure,
    ):
        client.stage(TABLE, table())
    assert failure.value.token


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


def test_datasets_of_local_files_are_read_a_little_ahead(tmp_path: Path) -> None:
    """While rows are sent, the next row groups of local files are in memory, and not a whole file."""
    rows, groups = 100_000, 20
    table = pa.table({"id": pa.array(range(rows), pa.int64())})
    for name in "abc":
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", table.schema) as writer:
            for _ in range(groups):
                writer.write_table(table, row_group_size=rows)
    before, most, sent = pa.total_allocated_bytes(), 0, 0
    for batch in Rows(ds.dataset(tmp_path)).batches():
        most = max(most, pa.total_allocated_bytes() - before)
        sent += batch.num_rows
    assert sent == 3 * groups * rows
    assert most < groups * table.nbytes


def test_a_branch_that_breaks_limits_is_not_published(house: House) -> None:
    """The error has the column and the kind, and main stays.

    spec: stats-90, stats-91
    """
    limits = "limits: {columns: {id: {max: 100}, country: {nulls: 0.9}}}"
    text = house.config.read_text()
    house.config.write_text(
        text.replace("{table: features.history}", "{table: features.history, " + limits + "}")
    )
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        client.stage(TABLE, table(), key=["id"], buckets=2)
        rows = table()
        client.stage(
            TABLE,
            rows.set_column(0, "id", pa.array([1000 + i for i in range(len(rows))])),
            branch="candidate",
        )
        before = house.rows()
        with pytest.raises(penstock.Invalid, match="entry training, column id: the greatest number is 10"):
            client.publish(TABLE, "candidate")
        assert house.rows() == before
        report = client.verify("history")
        assert report.clean
        moved = client.publish(TABLE, "candidate", no_check=True)
        assert moved.snapshot != moved.previous
        broken = [found.limit for found in client.verify("history").findings if found.kind == "limits"]
        assert [(one.column, one.measure, one.limit, one.bound) for one in broken if one] == [
            ("id", "max", 100.0, True)
        ]
