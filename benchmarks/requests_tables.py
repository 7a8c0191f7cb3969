"""Makes the tables of `requests`: T's training rows with 2 KB of columns that are constant within a request.

`t10` has ten rows per request on average, `t50` fifty, adjacent as logs write them.
Both are bucketed as T is, and have as many rows as make 0.8 GB of values.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import tables

_GENERATION = 1
_HISTORY = 240  # elements of 8 bytes
_FLOATS = 16
_ROWS = 400_000
_QUICK = 40_000

# The columns of a request, as the server's configuration names them.
LEVEL = ["user_id", *(f"u{index}" for index in range(_FLOATS)), "country", "history"]


def ensure(folder: Path, rows: int) -> None:
    """Make the tables in `folder`, unless they exist with the same number of rows."""
    tables.made(folder, {"generation": _GENERATION, "rows": rows}, lambda: _write(folder, rows))


def _write(folder: Path, rows: int) -> None:
    catalog = tables.open_catalog(folder)
    catalog.create_namespace("bench")
    datasets = "datasets:\n"
    for share in (10, 50):
        tables.create(catalog, f"t{share}", _draw(rows, share), 16)
        training = f"{{table: bench.t{share}, request_level: [{', '.join(LEVEL)}]}}"
        datasets += f"  t{share}: {{training: {training}, key: [{tables.KEY}]}}\n"
    catalog.close()
    tables.write_config(folder, datasets)


def _draw(rows: int, share: int) -> pa.Table:
    """Rows of requests with a given average number of rows each."""
    rng = np.random.default_rng(dataclasses.asdict(tables.Sizes())["seed"] + share)
    requests = rows // share
    ids = tables.spread(requests, 7)
    counts = 1 + rng.multinomial(rows - requests, np.full(requests, 1 / requests))
    training = tables.draw_training(rng, np.repeat(ids, counts))
    at = pa.array(np.repeat(np.arange(requests), counts))
    level = pa.table(
        {
            "user_id": rng.integers(1, 250_000, requests),
            **{f"u{index}": rng.random(requests, dtype=np.float32) for index in range(_FLOATS)},
            "country": pa.array([f"{number % 26:02d}" for number in rng.integers(0, 200, requests)]),
            "history": pa.ListArray.from_arrays(
                np.arange(requests + 1, dtype=np.int32) * _HISTORY,
                rng.integers(1, 1_000_000, requests * _HISTORY),
            ),
        }
    ).take(at)
    for name in LEVEL:
        training = training.append_column(name, level[name])
    return training


def main() -> None:
    """Make the tables: `python requests_tables.py FOLDER [--quick]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    arguments = parser.parse_args()
    ensure(arguments.folder, _QUICK if arguments.quick else _ROWS)


if __name__ == "__main__":
    main()
