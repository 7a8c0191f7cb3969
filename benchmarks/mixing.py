"""How well does `order: shuffled` mix rows, compared with independent draws?

Reads tables of 300,000 rows over 20 days, in requests of 5 rows, through a server: in 16 buckets of the request id, in
partitions of days or hours, in both, and in none, ordered by time, and without partitions by a label and by user; with 1 and 8
lanes, in windows of the default and of 2,048 rows, in batches of 1,024, for several epochs. For each it prints

- the standard deviation of the mean day of batches, over that of batches of rows drawn independently, and of
  batches of whole requests drawn independently;
- chi-square per degree of freedom of the days of rows and the twentieth of the epoch in which they come, over
  that of whole requests (`shuffle: requests`) or rows (`shuffle: rows`) in random order;
- how often two rows of different requests that shared a batch share one in the next epoch, over chance.

Exit code 1: a limit is exceeded, or an epoch does not have all rows.

    PYTHONPATH=python/src .venv/bench/bin/python benchmarks/mixing.py [--epochs 4]
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tables
from jobs import ROOT, Server
from lanes import BATCH, BUCKETS, DAYS, REQUEST, ROWS, WINDOW, again
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField
from running import exit_status

import penstock

FOLDER = ROOT / ".bench" / "mixing"
COLUMNS = ("row", "request_id", "day", "hour")
DEFAULT_WINDOW = 131_072

Rows = npt.NDArray[np.int64]
Shuffle = Literal["requests", "rows"]
# The rows of a unit that keeps together, by what is shuffled.
UNITS: tuple[tuple[Shuffle, int], ...] = (("requests", REQUEST), ("rows", 1))


@dataclasses.dataclass(frozen=True)
class Case:
    """A way to read, with its limits: of the day's deviation, and of pairs again."""

    table: str
    lanes: int
    window: int = WINDOW
    deviation: float | None = None
    again: float | None = None


CASES = (
    Case("plain", 1, deviation=2.0),
    Case("plain", 8, deviation=1.5, again=3.0),
    Case("by_day", 1),
    Case("by_day", 8, deviation=3.0),
    Case("days", 1),
    Case("days", 8, deviation=3.0),
    *(
        Case(table, lanes, window=DEFAULT_WINDOW, deviation=1.5 if lanes > 1 else 1.75)
        for table in ("plain", "by_day", "days", "hours", "appends", "none", "by_user")
        for lanes in (1, 8)
    ),
    # One of the eight parts of a lane has all rows of the rare label, of all days.
    Case("by_label", 1, window=DEFAULT_WINDOW, deviation=3.0),
    Case("by_label", 8, window=DEFAULT_WINDOW, deviation=1.5),
)


def ensure() -> Path:
    """Make the tables, unless they exist, and return the server's configuration."""
    config = FOLDER / "penstock.yaml"
    if config.exists():
        return config
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "warehouse").mkdir(parents=True)
    uri, warehouse = f"sqlite:///{FOLDER}/catalog.db", f"file://{FOLDER}/warehouse"
    catalog = SqlCatalog("default", uri=uri, warehouse=warehouse)
    catalog.create_namespace("bench")
    schema = Schema(*[NestedField(i, name, LongType(), required=False) for i, name in enumerate(COLUMNS, 1)])
    row = np.arange(ROWS)
    ids = tables.spread(ROWS // REQUEST, 3)[row // REQUEST]
    rows = pa.table(
        {"row": row, "request_id": ids, "day": row * DAYS // ROWS, "hour": row * DAYS * 24 // ROWS}
    )
    bucket = PartitionField(2, 1000, BucketTransform(BUCKETS), "request_id_bucket")
    day = PartitionField(3, 1001, IdentityTransform(), "day")
    hour = PartitionField(4, 1002, IdentityTransform(), "hour")
    request = row // REQUEST
    by_label, by_user = np.lexsort((row, request % 29 == 0)), np.lexsort((row, request * 7919 % 20_011))
    for name, fields, order, appends in (
        ("plain", [bucket], row, 1),
        ("by_day", [bucket, day], row, 1),
        ("days", [day], row, 1),
        ("hours", [hour], row, 1),
        ("appends", [day], row, 10),
        ("none", [], row, 1),
        ("by_label", [], by_label, 1),
        ("by_user", [], by_user, 1),
    ):
        table = catalog.create_table(f"bench.{name}", schema, partition_spec=PartitionSpec(*fields))
        for part in np.array_split(order, appends):
            table.append(rows.take(part))
    catalog.close()
    datasets = "".join(
        f"  {name}:\n    training: {{table: bench.{name}}}\n    key: [request_id]\n    staging: []\n"
        for name in sorted({case.table for case in CASES})
    )
    config.write_text(
        f'catalogs:\n  default: {{type: sql, uri: "{uri}", warehouse: "{warehouse}"}}\ndatasets:\n{datasets}'
    )
    return config


def read(client: penstock.Client, case: Case, shuffle: Shuffle, epoch: int) -> list[Rows]:
    """The rows of each batch of an epoch, by number."""
    stream = client.read(
        case.table,
        columns=["row"],
        order="shuffled",
        shuffle=shuffle,
        shuffle_window=case.window,
        seed=5,
        epoch=epoch,
        lanes=case.lanes,
        batch_rows=BATCH,
    )
    batches = [batch["row"].to_numpy() for batch in stream]
    if not np.array_equal(np.sort(np.concatenate(batches)), np.arange(ROWS)):
        raise RuntimeError(f"epoch {epoch} of {case} does not have every row once")
    return batches


@dataclasses.dataclass(frozen=True)
class Mixing:
    """How well epochs are mixed."""

    of_rows: float  # deviation of the day, over that of independent rows
    of_requests: float
    chi_square: float
    again: float


def mixing(epochs: list[list[Rows]], unit: int) -> Mixing:
    """The figures of some epochs of a table whose rows are drawn in units of `unit` rows."""
    full = [np.stack([batch for batch in batches if len(batch) == BATCH]) for batches in epochs]
    means = np.concatenate([(batches * (DAYS / ROWS)).mean(axis=1) for batches in full])
    single = math.sqrt(float(((means - DAYS / 2) ** 2).mean())) / (DAYS / math.sqrt(12 * BATCH))
    counts = [_where(np.concatenate(batches)) for batches in epochs]
    expected = ROWS / DAYS / DAYS
    squares = np.mean([((c - expected) ** 2 / expected).sum() / (DAYS - 1) ** 2 for c in counts])
    return Mixing(
        of_rows=single,
        of_requests=single / math.sqrt(REQUEST),
        chi_square=float(squares) / unit,
        again=float(np.mean([again(one, other) for one, other in itertools.pairwise(full)])),
    )


def _where(rows: Rows) -> Rows:
    """How many rows of each day come in each twentieth of an epoch."""
    place = np.arange(ROWS) * DAYS // ROWS
    return np.bincount(rows * DAYS // ROWS * DAYS + place, minlength=DAYS * DAYS).reshape(DAYS, DAYS)


def main() -> int:
    """Read all cases, and print figures and limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=4, help="read for each case, at least 2")
    epochs = max(2, parser.parse_args().epochs)
    missed = []
    print(
        "| table | lanes | window | shuffle | day, of rows | day, of requests | limit | chi-square | pairs again | limit |"
    )
    print("|---|---:|---:|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder, Server(ensure(), folder) as server:
        client = penstock.connect(server.address)
        for case, (shuffle, unit) in itertools.product(CASES, UNITS):
            m = mixing([read(client, case, shuffle, epoch) for epoch in range(epochs)], unit)
            print(
                f"| {case.table} | {case.lanes} | {case.window} | {shuffle} | {m.of_rows:.2f} | {m.of_requests:.2f} | {case.deviation or ''} "
                f"| {m.chi_square:.2f} | {m.again:.2f} | {case.again or ''} |",
                flush=True,
            )
            # A batch of whole requests cannot be mixed better than requests that are drawn independently.
            deviation = m.of_rows if shuffle == "rows" else m.of_requests
            for what, value, limit in (("day", deviation, case.deviation), ("pairs", m.again, case.again)):
                if limit is not None and value > limit:
                    missed.append(
                        f"{case.table}, {case.lanes} lanes, {shuffle}: {what} {value:.2f}, above {limit}"
                    )
    return exit_status(missed)


if __name__ == "__main__":
    sys.exit(main())
