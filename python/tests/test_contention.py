"""Processes of penstock stage that commit to one table at once, beside PyIceberg."""

from __future__ import annotations

import os
from pathlib import Path

import foreign_writer
import pytest
from lake import Lake
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField
from server import BINARY
from stage_runs import FOREIGN, StageRuns

_TABLE = "features.busy"
_SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", LongType()))
_SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "day"), PartitionField(1, 1001, BucketTransform(2), "bucket")
)
_LONG = "PENSTOCK_LONG" in os.environ


# spec: write-24, stage-33, stage-37
@pytest.mark.timeout(900)
def test_stages_beside_another_writer(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    table = lake.catalog.create_table(_TABLE, _SCHEMA, partition_spec=_SPEC)
    config = lake.config({}, writes={"namespaces": ["features"]})
    command = [str(BINARY), "stage", _TABLE, "--config", str(config)]
    stages = StageRuns(command, tmp_path, *((8, 20) if _LONG else (2, 5)))
    writer = foreign_writer.Writer(lake.catalog, _TABLE)
    stages.start()
    while stages.running():
        writer.step()
    stages.wait()
    assert stages.failures == []
    table = table.refresh()
    snapshots = foreign_writer.read(table)
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    assert rows == sorted(stages.rows() | writer.rows)
    assert any(row >= FOREIGN for row in rows)
    assert snapshots[-1]["sum"] == sum(rows)
    lake.catalog.engine.dispose()
