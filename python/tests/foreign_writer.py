"""PyIceberg beside penstock: python foreign_writer.py write|read CATALOG TABLE; CATALOG is JSON.

write appends and deletes rows of its own until its input ends, and prints the numbers of those that are left.
read checks each snapshot, and prints the count and the sum of its rows' numbers.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from stage_runs import DAYS, FOREIGN, changed


def connect(settings: dict[str, str]) -> Catalog:
    """A catalog by its settings."""
    return load_catalog("default", **settings)


class Writer:
    """Appends rows, and deletes some of them, which rewrites files.

    Attributes:
        rows: that are left.
    """

    def __init__(self, catalog: Catalog, name: str) -> None:
        self._catalog, self._name = catalog, name
        self._rng, self._next = random.Random(1), FOREIGN
        self.rows: set[int] = set()

    def step(self) -> None:
        """Makes a change, unless others commit first."""
        table = self._catalog.load_table(self._name)
        try:
            if self.rows and self._rng.random() < 0.4:
                gone = {n for n in self.rows if n % 3 == self._next % 3}
                table.delete(
                    f"id >= {FOREIGN} and id < {2 * FOREIGN} and id in ({', '.join(map(str, gone | {-1}))})"
                )
                self.rows -= gone
            else:
                ids = list(range(self._next, self._next + 5))
                days = [i % DAYS for i in ids]
                table.append(pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.int64())}))
                self.rows |= set(ids)
            self._next += 5
        except (CommitFailedException, ValidationException):
            """Others were first, and the table is as before."""


def read(table: Table) -> list[dict[str, int]]:
    """Checks the rows of each snapshot of main, from the first to the last."""
    files: dict[str, list[int]] = {}
    rows: dict[int, set[int]] = {}
    out = []
    for snapshot in lineage(table):
        assert snapshot.summary is not None
        token = snapshot.summary.additional_properties.get("penstock.token")
        if token is not None:
            changed(rows, token)
        there = _numbers(table, snapshot, files)
        ours = [n for n in there if n < FOREIGN]
        want = set().union(*rows.values()) if rows else set()
        assert sorted(ours) == sorted(want), f"snapshot {snapshot.snapshot_id}, {snapshot.summary.operation}"
        assert len(set(there)) == len(there), f"snapshot {snapshot.snapshot_id}"
        out.append({"snapshot": snapshot.snapshot_id, "count": len(there), "sum": sum(there)})
    tokens = [
        s.summary.additional_properties.get("penstock.token")
        for s in table.snapshots()
        if s.summary is not None
    ]
    made = [token for token in tokens if token is not None]
    assert len(made) == len(set(made)), "a token has two snapshots"
    return out


def lineage(table: Table) -> list[Snapshot]:
    """The snapshots of main, from the first to the last."""
    out = []
    at = table.current_snapshot()
    while at is not None:
        out.append(at)
        at = table.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
    return out[::-1]


def _numbers(table: Table, snapshot: Snapshot, files: dict[str, list[int]]) -> list[int]:
    """The rows of a snapshot; a file without deletes is read once for all of them."""
    scans = list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    if any(scan.delete_files for scan in scans):
        read = table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=("id",)).to_arrow()
        return [int(n) for n in read["id"].to_pylist()]
    out = []
    for scan in scans:
        path = scan.file.file_path
        if path not in files:
            with table.io.new_input(path).open() as source:
                files[path] = pa.parquet.read_table(pa.BufferReader(source.read()), columns=["id"])[
                    "id"
                ].to_pylist()
        out += files[path]
    return out


def _main(what: str, settings: dict[str, Any], name: str) -> None:
    catalog = connect(settings)
    if what == "read":
        answer: Any = read(catalog.load_table(name))
    else:
        ended = threading.Event()

        def wait() -> None:
            sys.stdin.read()
            ended.set()

        threading.Thread(target=wait, daemon=True).start()
        writer = Writer(catalog, name)
        while not ended.is_set():
            writer.step()
        answer = sorted(writer.rows)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    _main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
