"""Streams while another process commits to their tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from committer import Committer
from lake import Lake
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BinaryType, IcebergType, LongType, NestedField, StringType
from server import Server

import penstock

# In 16 buckets, and so files; of 60 MB the last are opened late, as that is more than
# server and transport hold for a reader that waits.
ROWS, NARROW, WIDE, BUCKETS = 5000, 2048, 12288, 16
TABLES = ("ml.rows", "features.scores")


@dataclass
class Lively:
    """A served lake that another process can commit to."""

    lake: Lake
    client: penstock.Client
    committer: Committer

    def commit(self, *commits: tuple[str, str] | tuple[str, str, list[int]]) -> None:
        self.committer.commit(*commits)

    def snapshots(self, table: str) -> list[int]:
        return [s.snapshot_id for s in self.lake.catalog.load_table(table).snapshots()]

    def files(self, table: str) -> set[Path]:
        return set(
            Path(self.lake.catalog.load_table(table).location().removeprefix("file://")).rglob("*.parquet")
        )


def make(lake: Lake, name: str, wide: IcebergType, rows: dict[str, Any]) -> None:
    """Makes a table of two commits, the second of which adds 100 rows."""
    columns = {
        "row": LongType(),
        "request_id": LongType(),
        "number": LongType(),
        "note": StringType(),
        "wide": wide,
    }
    fields = [NestedField(i, n, t, required=False) for i, (n, t) in enumerate(columns.items(), 1)]
    spec = PartitionSpec(PartitionField(2, 1000, BucketTransform(BUCKETS), "bucket"))
    table = lake.catalog.create_table(name, Schema(*fields), partition_spec=spec)
    whole = pa.table(rows, schema_to_pyarrow(table.schema()))
    table.append(whole.slice(100))
    table.append(whole.slice(0, 100))


@pytest.fixture
def lively(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lively]:
    made = Lake(tmp_path / "lake")
    ids = list(range(ROWS))
    training = {
        "row": ids,
        "request_id": [i // 5 for i in ids],
        "number": [i % 7 for i in ids],
        "note": [f"n{i}" for i in ids],
        "wide": [os.urandom(request.param) for _ in ids],
    }
    make(made, "ml.rows", BinaryType(), training)
    keys = list(range(ROWS // 5))
    staging = {
        "row": keys,
        "request_id": keys,
        "number": [i * i for i in keys],
        "note": [f"s{i}" for i in keys],
        "wide": [f"w{i}" for i in keys],
    }
    make(made, "features.scores", StringType(), staging)
    entry = {"table": "features.scores", "prefix": "s_"}
    dataset = {"training": {"table": "ml.rows"}, "key": ["request_id"], "staging": [entry]}
    folder = made.folder
    with (
        Committer(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse") as other,
        Server(made.config({"rows": dataset})) as server,
        penstock.connect(server.address, lookahead=1 << 16) as client,
    ):
        yield Lively(made, client, other)
    made.catalog.engine.dispose()


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for b in batches for row in b.to_pylist()]


# spec: pin-1
@pytest.mark.parametrize("lively", [NARROW], indirect=True)
def test_streams_are_unaffected_by_commits(lively: Lively) -> None:
    client = lively.client
    asked: dict[str, Any] = {"lanes": 4, "batch_rows": 64}
    planned = client.plan("rows", **asked)
    pins = planned.pin
    pinned = {TABLES[0]: pins["training"]["snapshot"], TABLES[1]: pins["staging"]["scores"]["snapshot"]}
    want = [client.read("rows", **asked, shard=(i, 2)).read_all().to_pylist() for i in range(2)]
    assert len(want[0]) + len(want[1]) == ROWS
    old = [s for t in TABLES for s in lively.snapshots(t) if s != pinned[t]]
    assert len(old) == 2
    streams = [client.read("rows", **asked, shard=(i, 2)) for i in range(2)]
    got: list[list[pa.RecordBatch]] = [[next(s)] for s in streams]
    cursors = [[s.cursor] for s in streams]
    for what in ("append", "overwrite", "evolve", "delete", "divide", "compact", "append", "expire"):
        if what == "expire":
            before = [lively.files(t) for t in TABLES]
            lively.commit(*[(t, what, [s for s in lively.snapshots(t) if s in old]) for t in TABLES])
            assert [lively.files(t) for t in TABLES] == before, "the snapshots that are left have them all"
        else:
            lively.commit(*[(t, what) for t in TABLES])
        for s, batches, after in zip(streams, got, cursors, strict=True):
            batches.extend(next(s) for _ in range(3))
            after.append(s.cursor)
    for i, s in enumerate(streams):
        got[i].extend(s)
        assert rows_of(got[i]) == want[i], "as before"
        for cursor, read in zip(cursors[i], range(1, 40, 3), strict=False):
            rest = client.read("rows", cursor=cursor, batch_rows=64).read_all().to_pylist()
            assert rest == want[i][64 * read :], "the rest"
    now = (
        client.read({"training": {"table": TABLES[0]}}, columns=["row"]).read_all().column("row").to_pylist()
    )
    assert sorted(now) != list(range(ROWS)), "a new plan reads the current rows"
    assert client.plan("rows", snapshots=pins, **asked).id == planned.id


# spec: pin-2
@pytest.mark.parametrize("lively", [WIDE], indirect=True)
@pytest.mark.parametrize("table", [TABLES[0], pytest.param(TABLES[1], marks=pytest.mark.more)])
def test_snapshot_that_expires_during_a_stream_is_expired(lively: Lively, table: str) -> None:
    client = lively.client
    pins = client.plan("rows").pin
    pinned = (pins["training"] if table == TABLES[0] else pins["staging"]["scores"])["snapshot"]
    streams = [client.read("rows", lanes=2, batch_rows=64, shard=(i, 2)) for i in range(2)]
    given = [next(s).num_rows for s in streams]
    late = client.read("rows")
    lively.commit((table, "compact"))
    before = lively.files(table)
    lively.commit((table, "expire", lively.snapshots(table)[:-1]))
    assert lively.files(table) < before
    for i, s in enumerate(streams):
        with pytest.raises(penstock.Expired) as caught:
            for batch in s:
                given[i] += batch.num_rows
        assert f"snapshot {pinned} of table {table} no longer exists" in str(caught.value)
        assert caught.value.table == table
    assert 0 < sum(given) < ROWS
    with pytest.raises(penstock.Expired, match=f"snapshot {pinned} of table {table}"):
        late.read_all()
    with pytest.raises(penstock.Expired, match=f"snapshot {pinned} of table {table}"):
        client.read("rows", cursor=streams[0].cursor)
    assert client.read("rows", columns=["row", "s_number"]).read_all().num_rows == ROWS


# spec: pin-3
@pytest.mark.parametrize("lively", [WIDE], indirect=True)
def test_a_missing_file_of_a_pinned_snapshot_is_corrupt(lively: Lively) -> None:
    stream = lively.client.read("rows", batch_rows=64)
    next(stream)
    for path in lively.files(TABLES[0]):
        path.unlink()
    with pytest.raises(penstock.Corrupt, match="is missing"):
        stream.read_all()
