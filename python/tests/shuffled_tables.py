"""Random tables whose rows are read shuffled: their files, and the rows of each as other readers read them."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from lake import Lake
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

_COLUMNS = {
    "row": LongType(),
    "request_id": LongType(),
    "day": LongType(),
    "item": LongType(),
    "s": StringType(),
}
_ARROW = pa.schema(
    [(name, pa.string() if name == "s" else pa.int64()) for name in _COLUMNS],
)
# A filter that no statistics can decide, so that it drops rows and no splits.
FILTER = "s LIKE '%y'"

Key = tuple[int, int | None, int | None, int | None]
"""A partition: spec, day, bucket, number of buckets."""


@dataclass(frozen=True)
class Layout:
    """How a table is divided."""

    buckets: int | None
    days: int  # 0: no partitions by day
    more_buckets: int | None  # of the files of later commits
    rows: int
    commits: int
    row_group: int
    deletes: bool


PLAIN = Layout(8, 0, None, 1600, 2, 64, deletes=False)
"""Buckets without deletes, whose rows show where parts begin."""


@dataclass(frozen=True)
class Row:
    """A row as it was written."""

    row: int
    request: int | None
    day: int
    item: int
    text: str


@dataclass
class World:
    """A table and what it has: the stored rows of each partition, and which of them are deleted."""

    layout: Layout
    config: Path
    rows: dict[int, Row]
    stored: dict[Key, list[int]]
    deleted: set[int]
    joined: set[int]  # requests with a staging row


def draw_layout(rng: random.Random) -> Layout:
    """A layout of at most 64 splits: explain lists no more."""
    buckets = rng.choice([None, *range(1, 17)])
    evolves = buckets is not None and rng.random() < 0.2
    more = rng.choice([b for b in (1, 2, 3, 4, 8) if b != buckets]) if evolves else None
    most = 64 // (1 + (buckets or 0) + (more + 1 if more else 0))
    days = rng.choice([0, rng.randrange(1, 1 + min(20, most))])
    return Layout(
        buckets=buckets,
        days=days,
        more_buckets=more,
        rows=int(200 * 8 ** rng.random()),
        commits=rng.randrange(1, 4) + evolves,
        row_group=rng.choice([7, 64, 1000]),
        deletes=rng.random() < 0.4,
    )


def make(folder: Path, seed: int, *, plain: bool) -> World:
    """Writes random rows, in a random layout or a plain one."""
    rng = random.Random(seed)
    layout = PLAIN if plain else draw_layout(rng)
    rows = _draw_rows(rng, layout)
    lake = Lake(folder)
    table = _create(lake, layout)
    for commit in range(layout.commits):
        if commit == layout.commits - 1 and layout.more_buckets is not None:
            with table.update_spec() as change:
                change.remove_field("request_id_bucket")
                change.add_field("request_id", BucketTransform(layout.more_buckets), "later_bucket")
        part = rows[commit * len(rows) // layout.commits : (commit + 1) * len(rows) // layout.commits]
        values = [(r.row, r.request, r.day, r.item, r.text) for r in part]
        table.append(
            pa.table(
                [pa.array(c, t) for c, t in zip(zip(*values, strict=True), _ARROW.types, strict=True)], _ARROW
            )
        )
    files = _files(table)
    deleted = delete_some(rng, table) if layout.deletes else set()
    requests = sorted({r.request for r in rows if r.request is not None})
    joined = {r for r in requests if rng.random() < 0.6} | {requests[0]}
    staging = [{"req": r, "score": 7 * r} for r in sorted(joined)]
    lake.write(
        "features.scores", {"req": LongType(), "score": LongType()}, ("req", rng.choice([1, 4, 5])), staging
    )
    training = {"table": "ml.rows"}
    distinct = {"by": ["request_id", "item", *(["day"] if layout.days else [])], "keep": "first"}
    scores = {"table": "features.scores", "key": {"request_id": "req"}, "max_amplification": 1000}
    datasets: dict[str, Any] = {
        "rows": {"training": training, "key": ["request_id"], "staging": []},
        "inner": {"training": training, "key": ["request_id"], "staging": [{**scores, "join": "inner"}]},
        "distinct": {"training": {**training, "distinct": distinct}, "key": ["request_id"], "staging": []},
    }
    stored: dict[Key, list[int]] = {}
    for key, _, file in files:
        stored.setdefault(key, []).extend(_numbers(file))
    return World(layout, lake.config(datasets), {r.row: r for r in rows}, stored, deleted, joined)


def _draw_rows(rng: random.Random, layout: Layout) -> list[Row]:
    """Rows of requests, most of them adjacent, some in several places, some without a key."""
    rows: list[Row] = []
    mean, scattered = rng.choice([1, 3, 20]), rng.choice([0.0, 0.2])
    request = 0
    while len(rows) < layout.rows:
        request += 1
        key = rng.randrange(request) if rng.random() < scattered else request
        day = (
            len(rows) * layout.days // layout.rows
            if rng.random() < 0.8
            else rng.randrange(max(1, layout.days))
        )
        for _ in range(1 + int(rng.expovariate(1 / mean))):
            text = f"{rng.randrange(10)}{'y' if rng.random() < 0.6 else 'n'}"
            rows.append(Row(len(rows), key if rng.random() < 0.97 else None, day, rng.randrange(4), text))
    return rows


def _create(lake: Lake, layout: Layout) -> Table:
    schema = Schema(*[NestedField(i, n, t, required=False) for i, (n, t) in enumerate(_COLUMNS.items(), 1)])
    fields = []
    if layout.buckets is not None:
        fields.append(PartitionField(2, 1000, BucketTransform(layout.buckets), "request_id_bucket"))
    if layout.days:
        fields.append(PartitionField(3, 1001, IdentityTransform(), "day"))
    return lake.catalog.create_table(
        "ml.rows",
        schema,
        partition_spec=PartitionSpec(*fields),
        properties={
            "format-version": "2",
            "write.parquet.row-group-limit": str(layout.row_group),
            "write.parquet.page-row-limit": "16",
        },
    )


def _files(table: Table) -> list[tuple[Key, DataFile, Path]]:
    """The data files with their partitions, by the commit that added them and location."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = []
    for manifest in snapshot.manifests(table.io):
        if manifest.content == ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            spec = table.specs()[manifest.partition_spec_id]
            day, bucket, of = None, None, None
            for at, field in enumerate(spec.fields):
                if isinstance(field.transform, BucketTransform):
                    bucket, of = entry.data_file.partition[at], field.transform.num_buckets
                elif isinstance(field.transform, IdentityTransform):
                    day = entry.data_file.partition[at]
            path = entry.data_file.file_path
            found.append((entry.sequence_number, path, (spec.spec_id, day, bucket, of), entry.data_file))
    found.sort(key=lambda one: one[:2])
    return [(key, file, Path(path.removeprefix("file://"))) for _, path, key, file in found]


def _numbers(file: Path, column: str = "row") -> list[int]:
    return pq.read_table(file, columns=[column])[column].to_pylist()


class _DeleteManifest(ManifestWriterV2):
    """A manifest of delete files, which PyIceberg does not write by itself."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AddDeletes(_FastAppendFiles):
    """Appends delete files."""

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriterV2:
        return _DeleteManifest(
            spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )


def delete_some(rng: random.Random, table: Table, numbers: str = "row") -> set[int]:
    """Deletes some rows of some files by position, and returns the numbers in one of their columns."""
    deleted: set[int] = set()
    chosen: list[tuple[DataFile, list[int]]] = []
    latest = table.spec().spec_id
    for key, file, path in _files(table):
        if key[0] != latest or rng.random() < 0.4:
            continue
        rows = _numbers(path, numbers)
        share = rng.choice([0.05, 0.5, 0.95])
        places = [p for p in range(len(rows)) if rng.random() < share]
        if places:
            deleted |= {rows[p] for p in places}
            chosen.append((file, places))
    delete_places(table, chosen)
    return deleted


def delete_places(table: Table, chosen: list[tuple[DataFile, list[int]]]) -> None:
    """Deletes the rows at some places of data files of the current partition spec."""
    with table.transaction() as change:
        adding = _AddDeletes(operation=Operation.APPEND, transaction=change, io=table.io)
        for file, places in chosen:
            adding.append_data_file(_position_deletes(table.io, file, places))
        if adding._added_data_files:
            adding.commit()


def _position_deletes(io: FileIO, of: DataFile, places: list[int]) -> DataFile:
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
        ]
    )
    location = f"{of.file_path.rpartition('/')[0]}/deletes-{uuid.uuid4()}.parquet"
    with io.new_output(location).create() as out:
        pq.write_table(pa.table([[of.file_path] * len(places), places], schema), out)
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=of.partition,
        record_count=len(places),
        file_size_in_bytes=len(io.new_input(location)),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        spec_id=of.spec_id,
    )
