"""What was written first, where PyIceberg wrote it: its file names are random."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField
from reading import ORDERS, UNKNOWN, Reader, RefusedError, ask_for_orders, check_order, misled, staged

pytestmark = pytest.mark.more  # worlds that PyIceberg writes are read in Go too

_LONGS = pa.schema([pa.field(name, pa.int64()) for name in ("k", "v", "tie")])
_SPEC = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "k_bucket"))
_SCHEMA = Schema(
    *[NestedField(i, name, LongType(), required=False) for i, name in enumerate(_LONGS.names, 1)]
)


class Lake:
    """A catalog with a training row, and a table of six appends of its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "warehouse").mkdir()
        self.catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        self.catalog.create_namespace("ml")
        train = self.catalog.create_table("ml.train", Schema(NestedField(1, "k", LongType(), required=False)))
        train.append(pa.table({"k": pa.array([1], pa.int64())}))

    def six(self, formats: list[int]) -> Table:
        """Appends one row for each format version, in files whose names say nothing of their order."""
        while True:
            table = self.catalog.create_table(
                "ml.six", _SCHEMA, partition_spec=_SPEC, properties={"format-version": str(formats[0])}
            )
            for i, version in enumerate(formats):
                if version != table.metadata.format_version:
                    with table.transaction() as change:
                        change.upgrade_table_version(2)
                table.append(pa.Table.from_pylist([{"k": 1, "v": i, "tie": i // 3}], _LONGS))
            if misled([added(table, i) for i in range(len(formats))]):
                return table
            self.catalog.drop_table("ml.six")

    def close(self) -> None:
        self.catalog.engine.dispose()


def added(table: Table, commit: int) -> str:
    """The file that a commit added."""
    snapshot = table.snapshots()[commit]
    entries = [e for m in snapshot.manifests(table.io) for e in m.fetch_manifest_entry(table.io)]
    return next(e.data_file.file_path for e in entries if e.snapshot_id == snapshot.snapshot_id)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.parametrize("formats", [[1] * 6, [1, 1, 1, 1, 2, 2], [1, 2, 2, 2, 2, 2], [2] * 6], ids=str)
def test_commits_order_rows(lake: Lake, formats: list[int]) -> None:
    lake.six(formats)
    lake.close()
    assert ask_for_orders(lake.folder) == {name: want for name, (_, want) in ORDERS.items()}


def test_all_goes_by_names_without_sequence_numbers(lake: Lake) -> None:
    table = lake.six([1] * 6)
    by_name = sorted(range(6), key=lambda i: added(table, i))
    lake.close()
    assert Reader(lake.folder, {"all": staged("all")}).values("all", "v") == by_name


@pytest.mark.parametrize(
    ("version", "expired", "refused"), [(1, 1, False), (1, 2, True), (1, 5, True), (2, 5, False)]
)
def test_expired_snapshots_leave_no_order(lake: Lake, version: int, expired: int, refused: bool) -> None:
    """One that expired was first, and it is unknown which of two was.

    PyIceberg lets the oldest snapshot that is left forget its parent.
    """
    table = lake.six([version] * 6)
    for snapshot in table.snapshots()[:expired]:
        table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    lake.close()
    for name, answer in ask_for_orders(lake.folder).items():
        if refused:
            check_order(name, answer, expired)
        else:
            assert answer == ORDERS[name][1], name
    assert sorted(Reader(lake.folder, {"all": staged("all")}).values("all", "v")) == list(range(6))


def test_a_pin_does_not_bring_an_order_back(lake: Lake) -> None:
    table = lake.six([1] * 6)
    reader = Reader(lake.folder, {"first": staged("first")})
    pins = {"training": pin(lake.catalog.load_table("ml.train")), "staging": {"six": pin(table)}}
    assert reader.values("first", "v", snapshots=pins) == [0]
    for snapshot in table.snapshots()[:3]:
        table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    lake.close()
    with pytest.raises(RefusedError, match=UNKNOWN):
        reader.rows("first", snapshots=pins)


def pin(table: Table) -> dict[str, object]:
    """The pin of a table as a query has it."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return {
        "uuid": str(table.metadata.table_uuid),
        "snapshot": snapshot.snapshot_id,
        "schema": snapshot.schema_id,
    }
