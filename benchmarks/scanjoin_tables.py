"""Makes the tables of `scanjoin`: T with three staging tables of 16, 12 and 8 buckets.

The training table and the first staging table are T's own. The other two hold
features of the same requests, as other jobs would have written them: numbers
alone, and numbers with a short list. Each misses one request in a hundred, each
another one.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tables
from checks import Integers

_GENERATION = 1
_RECENT = 10  # elements of the list


def ensure(folder: Path, sizes: tables.Sizes) -> None:
    """Make the tables in `folder`, unless they exist with the same sizes."""
    contents = {"generation": _GENERATION, **dataclasses.asdict(sizes)}
    tables.made(folder, contents, lambda: _write(folder, sizes))


def _write(folder: Path, sizes: tables.Sizes) -> None:
    drawn = tables.draw(sizes)
    rng = np.random.default_rng(sizes.seed + 2)
    requests = np.unique(drawn.training[tables.KEY].to_numpy())
    catalog = tables.open_catalog(folder)
    catalog.create_namespace("bench")
    tables.create(catalog, "t", drawn.training, 16)
    tables.create(catalog, "history", drawn.staging, 16)
    tables.create(catalog, "context", _context(rng, _most(rng, requests, sizes)), 12)
    tables.create(catalog, "recent", _recent(rng, _most(rng, requests, sizes)), 8)
    catalog.close()


def _most(rng: np.random.Generator, requests: Integers, sizes: tables.Sizes) -> Integers:
    """The requests in a different order, without one in a hundred."""
    shuffled = rng.permutation(requests)
    return shuffled[int(len(shuffled) * sizes.missing) :]


def _context(rng: np.random.Generator, requests: Integers) -> pa.Table:
    rows = len(requests)
    columns: dict[str, Any] = {tables.KEY: requests}
    for index in range(8):
        columns[f"c{index}"] = rng.random(rows, dtype=np.float32)
    for index, limit in enumerate((24, 7, 5_000)):
        columns[f"n{index}"] = rng.integers(0, limit, rows)
    return pa.table(columns)


def _recent(rng: np.random.Generator, requests: Integers) -> pa.Table:
    rows = len(requests)
    columns: dict[str, Any] = {tables.KEY: requests}
    for index in range(6):
        columns[f"r{index}"] = rng.random(rows, dtype=np.float32)
    columns["spent"] = rng.integers(0, 100_000, rows)
    offsets = np.arange(rows + 1, dtype=np.int32) * _RECENT
    columns["items"] = pa.ListArray.from_arrays(offsets, rng.integers(1, 1_000_000, rows * _RECENT))
    return pa.table(columns)


def main() -> None:
    """Make the tables: `python scanjoin_tables.py FOLDER [--quick]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    arguments = parser.parse_args()
    ensure(arguments.folder, tables.QUICK if arguments.quick else tables.Sizes())


if __name__ == "__main__":
    main()
