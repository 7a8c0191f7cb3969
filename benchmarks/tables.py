"""Makes the tables of the benchmark, the same for the same sizes.

T is what a recommender logs: training rows, about ten per request and adjacent,
and a staging table of features with one row per request. T-scattered holds the
same training rows in random order. All are Iceberg tables of format 2, bucketed
by 16 on the request id, Parquet with zstd, in a SQLite catalog; beside them lie
the server's configuration and, per data set, what the contenders are given
(`inputs.py`) with the sums of the right answer. Those sums are computed here
from the arrays that were drawn, not by any join. T is a data set twice: `t`
is its left join, `t_inner` its inner join.

One request in a hundred has no staging row, and as many staging rows belong to
no request, so that a left join differs from an inner one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from checks import STAGING_FACTOR, TRAINING_FACTOR, Integers, Summary
from expected import left_join
from inputs import Inputs, Source
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

KEY = "request_id"
DATASETS = ("t", "t_scattered")
INNER = "t_inner"
FINISHED = "finished.json"

_ROOT = Path(__file__).resolve().parent.parent

# Raised when the same sizes give other rows than before, so that tables made
# by an older generator are not taken for ours.
_GENERATION = 2

_COUNTRIES = 200
_ITEMS = 1_000_000
_USERS = 250_000
_INTEGER_RANGES = (24, 100, 5_000, 1_000_000, 1 << 40)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The inputs of all rows. Equal sizes result in equal tables."""

    rows: int = 4_000_000
    requests: int = 400_000
    history: int = 50
    buckets: int = 16
    missing: float = 0.01
    seed: int = 7


QUICK = Sizes(rows=40_000, requests=4_000)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """The rows before they are written, and the answers of their left join and of their inner join."""

    training: pa.Table
    staging: pa.Table
    expected: Summary
    inner: Summary


def ensure(folder: Path, sizes: Sizes) -> None:
    """Make the tables in `folder`, unless they exist with the same sizes."""
    made(
        folder,
        {"generation": _GENERATION, **dataclasses.asdict(sizes)},
        lambda: _write(folder, sizes),
    )


def made(folder: Path, contents: dict[str, Any], make: Callable[[], None]) -> None:
    """Make tables in `folder`, unless they exist there with the same contents.

    What the folder held of others is removed first. The marker is written last:
    an interrupted run starts over. Catalogs have absolute paths, so tables that
    were moved are made again, and those behind a link are used.
    """
    finished = folder / FINISHED
    if finished.exists():
        found = json.loads(finished.read_text())
        if (_ROOT / found.pop("folder")).resolve() == folder.resolve() and found == contents:
            return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make()
    finished.write_text(json.dumps({**contents, "folder": str(folder.resolve())}))


def inputs_path(folder: Path, dataset: str) -> Path:
    """Where `ensure` writes the contenders' input of a data set."""
    return folder / f"{dataset}.json"


def config_path(folder: Path) -> Path:
    """Where `ensure` writes the server's configuration."""
    return folder / "penstock.yaml"


_CATALOG = """\
catalogs:
  default:
    type: sql
    uri: "sqlite:///{folder}/catalog.db"
    warehouse: "file://{folder}/warehouse"
"""


def write_config(folder: Path, datasets: str = "") -> None:
    """Writes the server's configuration.

    Args:
        folder: has the catalog.
        datasets: the section `datasets`, as YAML.
    """
    config_path(folder).write_text(_CATALOG.format(folder=folder.resolve()) + datasets)


def open_catalog(folder: Path) -> SqlCatalog:
    """Opens the catalog of a folder."""
    home = folder.resolve()
    return SqlCatalog("default", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}/warehouse")


def draw(sizes: Sizes) -> Drawn:
    """Draw all rows of T, training rows of a request adjacent."""
    rng = np.random.default_rng(sizes.seed)
    absent = int(sizes.requests * sizes.missing)
    ids = spread(sizes.requests + absent, sizes.seed)
    # Every request has one row; the others are distributed at random, ten on average.
    counts = 1 + rng.multinomial(sizes.rows - sizes.requests, np.full(sizes.requests, 1 / sizes.requests))
    training = draw_training(rng, np.repeat(ids[: sizes.requests], counts))
    # The last requests have no staging row; the last staging rows no request.
    known = np.concatenate([ids[: sizes.requests - absent], ids[sizes.requests :]])
    repeats = np.concatenate([counts[: sizes.requests - absent], np.zeros(absent, np.int64)])
    items = np.add.reduceat(
        training[TRAINING_FACTOR].to_numpy(), np.concatenate([[0], np.cumsum(counts)[:-1]])
    )
    staging = draw_staging(rng, known, sizes.history)
    features = staging.drop_columns([KEY])
    expected = left_join(training, features, repeats)
    inner = left_join(training.slice(0, int(repeats.sum())), features, repeats)
    per_request = np.concatenate([items[: sizes.requests - absent], np.zeros(absent, np.int64)])
    expected.pairs = inner.pairs = int((per_request * staging[STAGING_FACTOR].to_numpy()).sum())
    # Features are in the order of their computation, not in the log's.
    return Drawn(training, staging.take(rng.permutation(len(known))), expected, inner)


def spread(count: int, seed: int) -> Integers:
    """Distinct ids all over int64: SplitMix64 is a bijection."""
    state = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
    state *= np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (state ^ (state >> np.uint64(31))).view(np.int64)


def draw_training(rng: np.random.Generator, requests: Integers) -> pa.Table:
    """Draw the columns of training rows with these requests."""
    rows = len(requests)
    columns: dict[str, Any] = {
        KEY: requests,
        TRAINING_FACTOR: rng.integers(1, _ITEMS, rows),
        "label": (rng.random(rows) < 0.04).astype(np.int32),
    }
    for index in range(10):
        columns[f"f{index}"] = rng.random(rows, dtype=np.float32)
    for index, limit in enumerate(_INTEGER_RANGES):
        columns[f"i{index}"] = rng.integers(0, limit, rows)
    return pa.table(columns)


def draw_staging(rng: np.random.Generator, requests: Integers, history: int) -> pa.Table:
    """Draw the features of these requests."""
    rows = len(requests)
    columns: dict[str, Any] = {KEY: requests, STAGING_FACTOR: rng.integers(1, _USERS, rows)}
    for index in range(8):
        columns[f"u{index}"] = rng.random(rows, dtype=np.float32)
    elements = rng.integers(1, _ITEMS, rows * history)
    offsets = np.arange(rows + 1, dtype=np.int32) * history
    columns["history"] = pa.ListArray.from_arrays(offsets, elements)
    names = pa.array([f"{first}{second}" for first in "ABCDEFGHIJKLMNOPQRST" for second in "ABCDEFGHIJ"])
    columns["country"] = names.take(pa.array(rng.integers(0, _COUNTRIES, rows)))
    return pa.table(columns)


def _write(folder: Path, sizes: Sizes) -> None:
    drawn = draw(sizes)
    order = np.random.default_rng(sizes.seed + 1).permutation(sizes.rows)
    catalog = open_catalog(folder)
    catalog.create_namespace("bench")
    staging = source(create(catalog, "staging", drawn.staging, sizes.buckets))
    for dataset in DATASETS:
        rows = drawn.training if dataset == "t" else drawn.training.take(order)
        training = source(create(catalog, dataset, rows, sizes.buckets))
        if dataset == "t":
            _must_be_adjacent(training)
            inner = Inputs(INNER, KEY, training, staging, drawn.inner, join="inner")
            inner.save(inputs_path(folder, INNER))
        Inputs(dataset, KEY, training, staging, drawn.expected).save(inputs_path(folder, dataset))
    catalog.close()
    write_config(folder, _DATASETS)


_DATASETS = """\
datasets:
  t:
    training:
      table: bench.t
    key: [request_id]
    staging:
      - table: bench.staging
  t_inner:
    training:
      table: bench.t
    key: [request_id]
    staging:
      - table: bench.staging
        join: inner
  t_scattered:
    training:
      table: bench.t_scattered
    key: [request_id]
    staging:
      - table: bench.staging
"""


def create(
    catalog: SqlCatalog, name: str, rows: pa.Table, buckets: int, properties: dict[str, str] | None = None
) -> Table:
    """Write the rows as a table of the namespace `bench`, bucketed on the request id."""
    schema = iceberg_schema(rows.schema)
    field = PartitionField(
        source_id=schema.find_field(KEY).field_id,
        field_id=1000,
        transform=BucketTransform(buckets),
        name=f"{KEY}_bucket",
    )
    table = catalog.create_table(
        f"bench.{name}",
        schema=schema,
        partition_spec=PartitionSpec(field),
        properties={"format-version": "2", "write.parquet.compression-codec": "zstd", **(properties or {})},
    )
    table.append(rows)
    return table


def iceberg_schema(schema: pa.Schema) -> Schema:
    """The schema of a table with the columns of an Arrow schema, all of them optional."""
    return Schema(
        *[
            NestedField(index + 1, field.name, _type(field.type, _ELEMENTS + index), required=False)
            for index, field in enumerate(schema)
        ]
    )


# Field ids of the elements of lists begin here.
_ELEMENTS = 10_000

_TYPES: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
}


def _type(kind: pa.DataType, element: int) -> IcebergType:
    if pa.types.is_list(kind):
        return ListType(element, _TYPES[kind.value_type], element_required=False)
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    return _TYPES[kind]


def source(table: Table) -> Source:
    """The files of the table's current snapshot, by path, and their sizes."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        raise ValueError(f"{table.name()} has no snapshot")
    planned = list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    files = sorted(scan.file.file_path.removeprefix("file://") for scan in planned)
    buckets: Counter[int] = Counter()
    row_group = 0
    for scan in planned:
        file = pq.ParquetFile(scan.file.file_path.removeprefix("file://"))
        for group in range(file.num_row_groups):
            size = file.read_row_group(group).nbytes
            buckets[scan.file.partition[0]] += size
            row_group = max(row_group, size)
    return Source(
        table=".".join(table.name()),
        snapshot=snapshot.snapshot_id,
        files=files,
        columns=[field.name for field in table.schema().fields],
        rows=sum(scan.file.record_count for scan in planned),
        bytes_on_disk=sum(scan.file.file_size_in_bytes for scan in planned),
        largest_row_group=row_group,
        largest_bucket=max(buckets.values()),
    )


def _must_be_adjacent(source: Source) -> None:
    """Fail unless the writer kept the rows of every request together."""
    for path in source.files:
        ids = pq.ParquetFile(path).read(columns=[KEY])[KEY].to_numpy()
        runs = 1 + int((ids[1:] != ids[:-1]).sum())
        if runs != len(np.unique(ids)):
            raise ValueError(f"{path}: the rows of a request are not adjacent")


def main() -> None:
    """Make the tables by hand: `python tables.py FOLDER [--quick]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    arguments = parser.parse_args()
    ensure(arguments.folder, QUICK if arguments.quick else Sizes())


if __name__ == "__main__":
    main()
