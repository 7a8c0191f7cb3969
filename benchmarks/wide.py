"""Makes `wide`, a table of many columns, the same for the same sizes.

200 training columns and 100 staging columns of all types that loaders see: identifiers, small and large
integers, floats of both widths, flags, dates, times, decimals, lists, texts that repeat (of 5, 200 and 20,000
values, which writers put into dictionaries) and texts that hardly do. Some columns have nulls. Rows of a
request are adjacent, about ten of them.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import expected
import numpy as np
import pyarrow as pa
import tables
from checks import STAGING_FACTOR, TRAINING_FACTOR, Integers
from inputs import Inputs

DATASET = "wide"

# Raised when the same sizes give other rows than before.
_GENERATION = 1

_NULLS = 0.03

Random = np.random.Generator


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The inputs of all rows. Equal sizes result in equal tables."""

    rows: int = 200_000
    requests: int = 20_000
    training: int = 200  # columns, with the key
    staging: int = 100  # likewise
    buckets: int = 8
    seed: int = 11


QUICK = Sizes(rows=8_000, requests=800, buckets=4)


def ensure(folder: Path, sizes: Sizes) -> None:
    """Make the tables in `folder`, unless they exist with the same sizes."""
    tables.made(
        folder, {"generation": _GENERATION, **dataclasses.asdict(sizes)}, lambda: _write(folder, sizes)
    )


def draw(sizes: Sizes) -> tuple[pa.Table, pa.Table]:
    """Draw the training and the staging table. Some requests lack features, and some features a request."""
    rng = np.random.default_rng(sizes.seed)
    absent = sizes.requests // 100
    ids = tables.spread(sizes.requests + absent, sizes.seed)
    requests = sizes.requests
    counts = 1 + rng.multinomial(sizes.rows - requests, np.full(requests, 1 / requests))
    training = _columns(rng, np.repeat(ids[:requests], counts), TRAINING_FACTOR, "t", sizes.training)
    known = np.concatenate([ids[: requests - absent], ids[requests:]])
    return training, _columns(rng, rng.permutation(known), STAGING_FACTOR, "s", sizes.staging)


def _columns(rng: Random, ids: Integers, factor: str, prefix: str, count: int) -> pa.Table:
    """The key, the column that is in `pairs`, and columns of all kinds in turn."""
    columns: dict[str, Any] = {tables.KEY: ids, factor: rng.integers(1, 1_000_000, len(ids))}
    for index in range(count - len(columns)):
        name, make = _KINDS[index % len(_KINDS)]
        columns[f"{prefix}{index:03}_{name}"] = make(rng, len(ids))
    return pa.table(columns)


def _with_nulls(rng: Random, values: Any, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind, mask=rng.random(len(values)) < _NULLS)


def _texts(distinct: int, nulls: bool) -> Callable[[Random, int], pa.Array]:
    values = pa.array([f"value {number:x} of {distinct}" for number in range(distinct)])

    def make(rng: Random, rows: int) -> pa.Array:
        # A few values are frequent, as in logs.
        codes = np.minimum(rng.zipf(1.3, rows), distinct) - 1
        return values.take(_with_nulls(rng, codes) if nulls else pa.array(codes))

    return make


def _unique_texts(rng: Random, rows: int) -> pa.Array:
    return pa.array([f"{number:016x}" for number in rng.integers(0, 1 << 62, rows).tolist()])


def _lists(rng: Random, rows: int) -> pa.Array:
    lengths = rng.integers(0, 9, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, rng.integers(1, 1_000_000, offsets[-1]))


def _days(rng: Random, rows: int) -> pa.Array:
    return pa.array(rng.integers(19_000, 20_000, rows).astype(np.int32)).cast(pa.date32())


def _times(rng: Random, rows: int) -> pa.Array:
    return pa.array(rng.integers(1_600_000_000_000_000, 1_700_000_000_000_000, rows), pa.timestamp("us"))


def _decimals(rng: Random, rows: int) -> pa.Array:
    # To shift the point of whole numbers, they are divided as decimals of one digit more.
    cents = _with_nulls(rng, rng.integers(0, 10_000_000, rows))
    return pa.Array.from_buffers(
        pa.decimal128(15, 2), rows, [cents.buffers()[0], cents.cast(pa.decimal128(19, 0)).buffers()[1]]
    )


_KINDS: tuple[tuple[str, Callable[[Random, int], Any]], ...] = (
    ("float", lambda rng, rows: rng.random(rows, dtype=np.float32)),
    ("small", lambda rng, rows: rng.integers(0, 24, rows)),
    ("text5", _texts(5, nulls=False)),
    ("float_null", lambda rng, rows: _with_nulls(rng, rng.random(rows, dtype=np.float32))),
    ("int", lambda rng, rows: rng.integers(0, 100_000, rows).astype(np.int32)),
    ("text200", _texts(200, nulls=True)),
    ("double", lambda rng, rows: rng.random(rows)),
    ("id", lambda rng, rows: rng.integers(0, 1 << 40, rows)),
    ("flag", lambda rng, rows: rng.random(rows) < 0.1),
    ("text20000", _texts(20_000, nulls=False)),
    ("day", _days),
    ("time", _times),
    ("decimal", _decimals),
    ("list", _lists),
    ("int_null", lambda rng, rows: _with_nulls(rng, rng.integers(0, 100, rows))),
    ("text", _unique_texts),
)


def _write(folder: Path, sizes: Sizes) -> None:
    training, staging = draw(sizes)
    catalog = tables.open_catalog(folder)
    catalog.create_namespace("bench")
    rows, features = (
        tables.source(tables.create(catalog, name, table, sizes.buckets))
        for name, table in ((DATASET, training), ("staging", staging))
    )
    catalog.close()
    answer = expected.of_tables(
        training, staging, (tables.KEY, tables.KEY), (TRAINING_FACTOR, STAGING_FACTOR)
    )
    Inputs(DATASET, tables.KEY, rows, features, answer).save(tables.inputs_path(folder, DATASET))
    tables.write_config(folder, _DATASETS)


_DATASETS = """\
datasets:
  wide:
    training:
      table: bench.wide
    key: [request_id]
    staging:
      - table: bench.staging
"""


def main() -> None:
    """Make the tables by hand: `python wide.py FOLDER [--quick]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows")
    arguments = parser.parse_args()
    ensure(arguments.folder, QUICK if arguments.quick else Sizes())


if __name__ == "__main__":
    main()
