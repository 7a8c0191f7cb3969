"""Branches that programs publish, and changes that they undo."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from server import Server
from stage_house import TABLE, House, table

import penstock


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


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
