"""Changes of tables that a server makes without rows from the client."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from server import Server
from stage_house import TABLE, House

import penstock


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "country": ["CH"] * len(numbers)})


# spec: change-9
def test_tables_are_compacted(house: House, client: penstock.Client) -> None:
    for i in range(4):
        client.stage(TABLE, rows(i, 10 + i), key=["id"], buckets=1)
    before = house.rows()
    dry = client.compact(TABLE, dry_run=True)
    assert (dry.files, dry.rows, dry.snapshot) == (4, 8, 0)
    seen: list[penstock.ChangeProgress] = []
    done = client.compact(TABLE, min_files=2, progress=seen.append)
    assert (done.table, done.files, done.rows, done.files_written, done.commits) == (TABLE, 4, 8, 1, 1)
    assert {one.step for one in seen} == {"rewrite"}
    assert seen[-1].rows_written == 8
    assert house.rows() == before
    with pytest.raises(penstock.Invalid, match="min_files"):
        client.compact(TABLE, min_files=1)
    with pytest.raises(penstock.Unavailable):
        client.compact(TABLE, timeout=0.000001)


# spec: change-9
def test_tables_are_restored(house: House, client: penstock.Client) -> None:
    first = client.stage(TABLE, rows(1, 2), key=["id"], buckets=1)
    before = house.rows()
    client.stage(TABLE, rows(3))
    dry = client.restore(TABLE, first.snapshot, dry_run=True)
    assert (dry.copied, dry.rows, dry.snapshot) == (0, 0, 0) or dry.snapshot == 0
    done = client.restore(TABLE, first.snapshot)
    assert done.snapshot
    assert done.removed + done.unchanged >= 1
    assert house.rows() == before
    again = client.restore(TABLE, first.snapshot, token=done.token)
    assert again.existed
    assert again.snapshot == done.snapshot
    with pytest.raises(penstock.Expired, match="its snapshots are") as gone:
        client.restore(TABLE, 7, token=done.token + "-other")
    assert gone.value.token == done.token + "-other"


# spec: change-9
def test_orphan_files_are_removed(house: House, client: penstock.Client, tmp_path: Path) -> None:
    client.stage(TABLE, rows(1, 2), key=["id"], buckets=1)
    [data] = tmp_path.glob("warehouse/**/data")
    left = data / "penstock-0123456789abcdef-1.parquet"
    left.write_text("left")
    old = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=4)
    os.utime(left, (old.timestamp(), old.timestamp()))
    [found] = client.orphans(TABLE)
    assert (found.table, found.removed, found.bytes) == (TABLE, 0, 4)
    [file] = found.files
    assert file.location.endswith(left.name)
    assert (file.bytes, file.upload) == (4, "")
    assert abs(file.modified - old) < datetime.timedelta(seconds=2)
    assert left.exists()
    assert not client.orphans(TABLE, older_than="5d")[0].files
    seen: list[penstock.ChangeProgress] = []
    [found] = client.orphans(TABLE, remove=True, progress=seen.append)
    assert found.removed == 1
    assert [(one.step, one.table) for one in seen] == [
        ("search", TABLE),
        ("remove", TABLE),
        ("remove", TABLE),
    ]
    assert not left.exists()
    assert len(house.rows()) == 2


# spec: change-3, change-9
def test_many_orphan_files_are_one_result(house: House, client: penstock.Client, tmp_path: Path) -> None:
    client.stage(TABLE, rows(1, 2), key=["id"], buckets=1)
    [data] = tmp_path.glob("warehouse/**/data")
    names = {f"penstock-0123456789abcdef-{i}.parquet" for i in range(2300)}
    old = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=4)).timestamp()
    for name in names:
        (data / name).touch()
        os.utime(data / name, (old, old))
    [found] = client.orphans(TABLE, remove=True)
    assert found.removed == 2300
    assert {Path(file.location).name for file in found.files} == names
    assert len(house.rows()) == 2


# spec: change-9, promote-24
def test_columns_are_promoted_and_demoted(house: House) -> None:
    config = house.config.read_text().replace(
        "key: [id]}", "key: [id], staging: [{table: features.origin, prefix: origin_, name: origin}]}"
    )
    house.config.write_text(config)
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        client.stage(TABLE, rows(1, 2), key=["id"], buckets=1)
        client.stage("features.origin", rows(1), key=["id"], buckets=1)
        dry = client.promote("history", "origin", dry_run=True)
        assert (dry.table, dry.files, dry.rows, dry.commits) == (TABLE, 1, 2, 0)
        assert dry.seconds is not None
        assert dry.epochs is not None
        assert dry.readers == ()
        seen: list[penstock.ChangeProgress] = []
        done = client.promote("history", "origin", progress=seen.append)
        assert done.columns == ("origin_country",)
        assert {(one.dataset, one.failure) for one in done.readers} == {("history", "")}
        assert (done.files, done.rows, done.existed, done.seconds) == (1, 2, False, None)
        assert (seen[-1].table, seen[-1].step, seen[-1].rows_written) == (TABLE, "rewrite", 2)
        assert [row["origin_country"] for row in house.rows()] == ["CH", None]
        with client.read("history") as stream:
            assert stream.read_all().num_rows == 2
        assert list(stream.report["promoted"]) == ["origin"]
        assert stream.report["staging"]["origin"]["matched"] is None
        again = client.promote("history", "origin", earlier="continue")
        assert again.existed
        back = client.demote(TABLE, "origin_country")
        assert back.dropped == ("origin_country",)
        assert [one.dataset for one in back.readers] == ["history"]
        assert client.demote(TABLE, "origin_country", no_check=True).readers == ()
        assert not client.demote(TABLE, "origin_country").dropped
        with pytest.raises(penstock.NotFound):
            client.promote("nothing", "origin")


# spec: history-18, history-23
def test_snapshots_are_compared(client: penstock.Client) -> None:
    first = client.stage(TABLE, rows(1, 2), key=["id"], buckets=1)
    second = client.stage(TABLE, rows(3))
    seen: list[penstock.ChangeProgress] = []
    found = client.diff(TABLE, progress=seen.append)
    assert (found.table, found.before.snapshot, found.after.snapshot) == (
        TABLE,
        first.snapshot,
        second.snapshot,
    )
    assert (found.before.rows, found.after.rows, found.after.files) == (2, 3, 2)
    assert found.before.time is not None
    assert found.keys is not None
    assert (found.keys.columns, found.keys.added, found.keys.gone) == (("id",), 1, 0)
    assert found.keys.added_keys == ("3",)
    assert (found.files.added.files, found.files.removed.files) == (1, 0)
    assert found.files.same is not None
    assert found.files.same.rows == 2
    assert [one.added.rows for one in found.partitions.values()] == [1]
    assert found.columns == penstock.DiffColumns()
    assert {one.step for one in seen} <= {"read"}
    back = client.diff(TABLE, second.snapshot, str(first.snapshot))
    assert back.keys is not None
    assert back.keys.gone_keys == ("3",)
    whole = client.diff(TABLE, "none", "main", only_files=True)
    assert (whole.keys, whole.columns, whole.before.time, whole.before.snapshot) == (None, None, None, 0)
    with pytest.raises(penstock.NotFound, match="mian"):
        client.diff(TABLE, "mian")
    with pytest.raises(penstock.Unavailable):
        client.diff(TABLE, timeout=0.000001)


# spec: history-1, history-8
def test_changes_are_seen_and_taken_back(client: penstock.Client) -> None:
    first = client.stage(TABLE, rows(1, 2), key=["id"], buckets=1)
    second = client.stage(TABLE, rows(3))
    [described] = client.tables(TABLE.split(".")[0])
    assert (described.table, described.rows, described.snapshot) == (TABLE, 3, second.snapshot)
    assert described.partition == ("bucket[1](id)",)
    assert described.time is not None
    newest, oldest = client.log(TABLE)
    assert (newest.snapshot, newest.parent, newest.writer) == (
        second.snapshot,
        first.snapshot,
        "penstock stage",
    )
    assert (newest.token, newest.rows_added, newest.branches) == (second.token, 1, ("main",))
    assert oldest.undo == (0, second.snapshot)
    assert client.log(TABLE, limit=1) == (newest,)
    dry = client.undo(TABLE, dry_run=True)
    assert [one.snapshot for one in dry.undone] == [second.snapshot]
    assert len(client.log(TABLE)) == 2
    done = client.undo(TABLE)
    assert (done.snapshot, done.previous) == (first.snapshot, second.snapshot)
    assert [one.token for one in done.undone] == [second.token]
    assert [one.snapshot for one in client.log(TABLE)] == [first.snapshot]
    with pytest.raises(penstock.NotFound, match="does not exist"):
        client.log("hr.salaries", branch="main")
    with pytest.raises(penstock.Invalid, match="name of a table"):
        client.undo(done, dry_run=True)


# spec: history-8
def test_an_undo_that_is_repeated_undoes_one_change(
    client: penstock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [client.stage(TABLE, rows(n), key=["id"], buckets=1).snapshot for n in range(3)]
    call = client._servers.call
    monkeypatch.setattr(
        client._servers,
        "call",
        lambda act, **given: call(
            lambda flight, options: [act(flight, options) for _ in range(2)][1], **given
        ),
    )
    assert [one.snapshot for one in client.undo(TABLE).undone] == [made[2]]
    monkeypatch.undo()
    assert [one.snapshot for one in client.log(TABLE)] == [made[1], made[0]]
