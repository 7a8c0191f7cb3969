"""Snapshots that streams read are kept by tags, which PyIceberg sees, and which its expiry respects."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pytest
from lake import Lake
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.types import LongType
from server import Server

import penstock

DAY = 24 * 60 * 60 * 1000
COLUMNS = {"row": LongType(), "request_id": LongType()}


def rows_of(count: int) -> list[dict[str, int]]:
    return [{"row": i, "request_id": i % 7} for i in range(count)]


def append(table: Table, row: int) -> None:
    table.append(pa.Table.from_pylist([{"row": row, "request_id": 0}], schema_to_pyarrow(table.schema())))


def config(lake: Lake) -> Path:
    """A configuration whose catalog has pin_tags."""
    path = lake.config({"rows": {"training": {"table": "ml.rows"}}})
    text = json.loads(path.read_text())
    text["catalogs"]["default"]["pin_tags"] = {"keep": "7d"}
    path.write_text(json.dumps(text))
    return path


def expire(table: Table) -> None:
    """Expires every snapshot that nothing protects."""
    later = datetime.datetime.now() + datetime.timedelta(hours=1)
    table.maintenance.expire_snapshots().older_than(later).commit()
    table.refresh()


# spec: pin-5, pin-6, pin-8
def test_expiry_keeps_the_snapshots_of_a_run(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    written = lake.write("ml.rows", COLUMNS, ("request_id", 4), rows_of(100), files=3)
    pinned, table = written.snapshot, written.table
    before = {s.snapshot_id for s in table.snapshots()}
    with Server(config(lake)) as server, penstock.connect(server.address) as client:
        with client.read("rows", batch_rows=8) as stream:
            taken = [next(stream)]
            # Others continue: they commit after the tag, and expire all that they can.
            table.refresh()
            append(table, 1000)
            append(table, 1001)
            expire(table)
            kept = {s.snapshot_id for s in table.snapshots()}
            current = table.current_snapshot()
            assert current is not None
            assert kept == {pinned, current.snapshot_id}
            assert len(before) == 3
            taken += list(stream)
        assert sorted(r for b in taken for r in b.column("row").to_pylist()) == list(range(100))

        ref = table.refs()[f"penstock-{pinned}"]
        snapshot = table.snapshot_by_id(pinned)
        assert snapshot is not None
        assert ref.snapshot_ref_type == SnapshotRefType.TAG
        assert ref.snapshot_id == pinned
        assert ref.max_ref_age_ms is not None
        assert 7 * DAY <= ref.max_ref_age_ms < 8 * DAY
        assert sorted(table.scan(snapshot_id=pinned).to_arrow().column("row").to_pylist()) == list(range(100))
        assert len(table.scan().to_arrow()) == 102

        # The pin can still be read; without the tag it would have expired.
        again = client.read("rows", snapshots={"training": {"snapshot": pinned}})
        assert again.read_all().num_rows == 100
        table.manage_snapshots().remove_tag(f"penstock-{pinned}").commit()
        expire(table)
        with pytest.raises(penstock.NotFound):
            client.read("rows", snapshots={"training": {"snapshot": pinned}})
    lake.catalog.engine.dispose()
