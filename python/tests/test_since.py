"""What was appended since a snapshot, of tables that PyIceberg wrote, against their rows snapshot by snapshot."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake import Lake
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from server import Server

import penstock

COLUMNS = {"row": LongType(), "part": LongType()}
HISTORIES, STEPS = 4, 12


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("since"))


@pytest.fixture(scope="module")
def client(lake: Lake) -> Iterator[penstock.Client]:
    with Server(lake.config({})) as server, penstock.connect(server.address) as client:
        yield client


@dataclass(frozen=True)
class Past:
    """A snapshot, told by its files and their rows."""

    id: int
    parent: int | None
    operation: str
    files: dict[str, list[int]]


class History:
    """A table to which things happen by chance."""

    def __init__(self, table: Table, seed: int) -> None:
        self.table = table
        self.past: dict[int, Past] = {}
        self._random = random.Random(seed)
        self._parts = count()
        self._files: dict[str, list[int]] = {}

    def step(self) -> None:
        branch = "audit" if "audit" in self.table.refs() and self._random.random() < 0.3 else "main"
        head = self.table.snapshot_by_name(branch)
        known = sorted(self._names(head.snapshot_id), key=self._rows_of) if head is not None else []
        what = self._random.choice(["append"] * 5 + ["drop", "drop", "trim", "overwrite", "branch", "back"])
        if what == "append" or len(known) < 3:
            self._append(branch)
        elif what == "drop":  # whole files, old ones rather than new ones
            self.table.delete(f"part = {self._part(known[self._random.randrange(2)])}", branch=branch)
        elif what == "trim":  # a file is rewritten without a row
            self.table.delete(f"row = {self._rows_of(known[0])[0]}", branch=branch)
        elif what == "overwrite":
            part = self._part(known[0])
            self.table.overwrite(self._some(), overwrite_filter=f"part = {part}", branch=branch)
        elif what == "branch" and head is not None and branch == "main":
            if "audit" in self.table.refs():
                self.table.manage_snapshots().remove_branch("audit").commit()
            self.table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
        elif what == "back" and head is not None and head.parent_snapshot_id and branch == "main":
            self.table.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()
        for s in self.table.snapshots():
            if s.snapshot_id not in self.past:
                rows = {f: self._rows_of(f) for f in self._names(s.snapshot_id)}
                operation = s.summary.operation.value if s.summary is not None else ""
                self.past[s.snapshot_id] = Past(s.snapshot_id, s.parent_snapshot_id, operation, rows)

    def _names(self, snapshot: int) -> list[str]:
        return [t.file.file_path for t in self.table.scan(snapshot_id=snapshot).plan_files()]

    def _rows_of(self, file: str) -> list[int]:
        if file not in self._files:
            self._files[file] = pq.read_table(file.removeprefix("file://")).column("row").to_pylist()
        return self._files[file]

    def _part(self, file: str) -> int:
        return int(pq.read_table(file.removeprefix("file://")).column("part")[0].as_py())

    def _some(self) -> pa.Table:
        part = next(self._parts)
        rows = {"row": [10 * part + i for i in range(3)], "part": [part] * 3}
        return pa.table(rows, schema_to_pyarrow(self.table.schema()))

    def _append(self, branch: str) -> None:
        self.table.append(self._some(), branch=branch)

    def after(self, since: int, head: int) -> list[Past] | None:
        """The snapshots from since to head, oldest first; None if they do not lead there."""
        chain: list[Past] = []
        at: int | None = head
        while at != since:
            if at is None:
                return None
            chain.append(self.past[at])
            at = self.past[at].parent
        return chain[::-1]

    def appended(self, chain: list[Past]) -> tuple[list[int], list[int]]:
        """The rows that came in by appends alone, and the snapshots that forbid to say so."""
        fresh: set[int] = set()
        offenders = []
        for s in chain:
            before = self.past[s.parent].files if s.parent is not None else {}
            gained = [r for f in s.files.keys() - before.keys() for r in s.files[f]]
            lost = [r for f in before.keys() - s.files.keys() for r in before[f]]
            if (gained and s.operation != "append") or not fresh.isdisjoint(lost):
                offenders.append(s.id)
            if s.operation == "append":
                fresh.update(gained)
        return sorted(fresh), offenders


# spec: since-1, since-2, since-3, since-5, since-6
def test_since_returns_the_appended_rows(lake: Lake, client: penstock.Client) -> None:
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    schema = Schema(*[NestedField(i, n, t, required=False) for i, (n, t) in enumerate(COLUMNS.items(), 1)])
    outcomes: Counter[str] = Counter()
    for seed in range(HISTORIES):
        properties = {"format-version": str(1 + seed % 2), **(merging if seed > 1 else {})}
        table = lake.catalog.create_table(f"ml.h{seed}", schema, properties=properties)
        history = History(table, seed)
        while len(history.past) < STEPS or "audit" not in table.refs():
            history.step()
        for ref, head in table.refs().items():
            dataset = {"training": {"table": f"ml.h{seed}", "ref": ref}}
            for since in history.past:
                outcomes[compare(client, history, dataset, since, head.snapshot_id)] += 1
    assert outcomes.keys() == {"rows", "none", "refused", "is not an ancestor"}, outcomes
    lake.catalog.engine.dispose()


def compare(client: penstock.Client, history: History, dataset: dict[str, Any], since: int, head: int) -> str:
    chain = history.after(since, head)
    if chain is None:
        with pytest.raises(penstock.Invalid, match=f"snapshot {since} is not an ancestor of snapshot {head}"):
            client.read(dataset, since=str(since))
        return "is not an ancestor"
    rows, offenders = history.appended(chain)
    if offenders:
        with pytest.raises(penstock.Invalid) as caught:
            client.read(dataset, since=since)
        told = re.match(r".*since: snapshot (\d+) of table \S+ \((\w+)\)", str(caught.value))
        assert told is not None, caught.value
        named = int(told[1])
        assert named in offenders
        assert told[2] == history.past[named].operation
        rest = history.after(named, head)
        assert rest is not None
        assert not history.appended(rest)[1], "since what is named, nothing is amiss"
        return "refused"
    stream = client.read(dataset, since=since)
    assert sorted(stream.read_all().column("row").to_pylist()) == rows
    assert stream.report["cursor"]["since"] == since
    assert client.plan(dataset, since=since).since == since
    return "rows" if rows else "none"


# spec: since-4
def test_a_snapshot_that_is_gone_is_named(lake: Lake, client: penstock.Client) -> None:
    rows = [{"row": i, "part": i} for i in range(8)]
    table = lake.write("ml.expiring", COLUMNS, None, rows, files=4).table
    first, second, third, fourth = [s.snapshot_id for s in table.snapshots()]
    dataset = {"training": {"table": "ml.expiring"}}
    table.maintenance.expire_snapshots().by_ids([second]).commit()
    # PyIceberg lets the third snapshot forget that it came from the second.
    for since, text in (
        (first, f"the parent of snapshot {third} of table ml.expiring has expired"),
        (second, f"snapshot {second} of table ml.expiring no longer exists"),
    ):
        with pytest.raises(penstock.Expired, match=text) as caught:
            client.read(dataset, since=since)
        assert caught.value.table == "ml.expiring"
    for since, want in ((third, [6, 7]), (fourth, [])):
        assert client.read(dataset, since=since).read_all().column("row").to_pylist() == want
    lake.catalog.engine.dispose()


# spec: since-8, since-9
def test_since_is_part_of_plan_cursor_and_ticket(lake: Lake, client: penstock.Client) -> None:
    rows = [{"row": i, "part": i} for i in range(600)]
    table = lake.write("ml.going", COLUMNS, ("row", 4), rows, files=3).table
    first, second, third = [s.snapshot_id for s in table.snapshots()]
    dataset = {"training": {"table": "ml.going"}}
    assert client.plan(dataset).since is None
    plan = client.plan(dataset, since=first, lanes=2)
    assert (plan.since, plan.rows, plan.rows_left) == (first, 400, 400)
    assert plan.id != client.plan(dataset, since=second, lanes=2).id
    assert f"since {first}: rows that were appended after it" in client.explain(
        dataset, splits=True, since=first
    )
    stream = client.read(dataset, since=first, lanes=2, batch_rows=50)
    batches = list(stream)
    whole = [r for b in batches for r in b.column("row").to_pylist()]
    assert sorted(whole) == list(range(200, 600))
    half = client.read(dataset, since=first, lanes=2, batch_rows=50)
    read = [next(half).num_rows for _ in range(3)]
    table.append(pa.table({"row": [9000], "part": [0]}, schema_to_pyarrow(table.schema())))
    again: list[dict[str, Any]] = [{}, {"since": first}]
    for named in again:
        rest = client.read(dataset, cursor=half.cursor, batch_rows=50, **named)
        assert rest.read_all().column("row").to_pylist() == whole[sum(read) :]
    with pytest.raises(penstock.Invalid, match=f"since: {second}, but the cursor has {first}"):
        client.read(dataset, cursor=half.cursor, since=second)
    kept = client.manifest(dataset, since=first)["query"]
    assert kept["since"] == first
    assert client.read(dataset, since=third).read_all().column("row").to_pylist() == [9000]
    assert [r for b in half for r in b.column("row").to_pylist()] == whole[sum(read) :], (
        "its ticket says it too"
    )
    lake.catalog.engine.dispose()
