"""Datasets to mix, and what plain reads of them give, for the tests of mixes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lake import Lake, Written
from pyiceberg.types import IntegerType, LongType, StringType

import penstock

ROWS = {"a": 9000, "b": 3000, "c": 1200}
LANES = 4
QUERY: Any = {"columns": ["row", "text"], "order": "shuffled", "seed": 3, "lanes": LANES}
Row = tuple[str, int]


def members(**weights: float) -> list[penstock.Member]:
    """Members of the datasets a, b and c; with other weights than 0.7, 0.2 and 0.1 if given."""
    shares = weights or {"a": 0.7, "b": 0.2, "c": 0.1}
    return [{"dataset": name, "weight": weight} for name, weight in shares.items()]


def configured(folder: Path) -> Path:
    """The configuration of the datasets a, b and c, and of one that does not fit to them."""
    return written(folder)[0]


def written(folder: Path) -> tuple[Path, dict[str, Written]]:
    """The configuration, and the tables of the datasets a, b and c."""
    made, tables = Lake(folder), {}
    datasets: dict[str, Any] = {}
    for name, rows in ROWS.items():
        columns = {"row": LongType(), "request_id": LongType(), "text": StringType()}
        content = [{"row": i, "request_id": i // 6, "text": f"{name}{i}"} for i in range(rows)]
        tables[name] = made.write(f"ml.{name}", columns, ("request_id", 8), content, files=2)
    other = {"row": IntegerType(), "request_id": LongType(), "text": StringType()}
    made.write("ml.other", other, ("request_id", 8), [{"row": 1, "request_id": 1, "text": "x"}])
    for name in (*ROWS, "other"):
        datasets[name] = {"training": {"table": f"ml.{name}"}, "key": ["request_id"], "staging": []}
    return made.config(datasets), tables


def rows(batches: Iterable[Any]) -> list[list[Row]]:
    """The rows of each step: the member's name and the row's number."""
    return [
        list(zip(batch.column("source").to_pylist(), batch.column("row").to_pylist(), strict=True))
        for batch in batches
    ]


def of(steps: Iterable[Sequence[Row]], member: str) -> list[int]:
    """The rows of one member, in order."""
    return [row for step in steps for source, row in step if source == member]


def plain(client: penstock.Client, name: str, batch: int, **fields: Any) -> list[int]:
    """The rows of a plain read of a dataset, with this many rows per step."""
    query = {**QUERY, "tail": "drop", "global_batch_rows": batch, **fields}
    with client.read(name, **query) as stream:
        return [row for found in stream for row in found.column("row").to_pylist()]


def resumed(client: penstock.Client, name: str, sizes: Sequence[tuple[int, int]]) -> list[int]:
    """The rows of plain reads of a dataset: of each pair, a number of batches with this many rows, one after another."""
    cursor, out = None, []
    for batches, size in sizes:
        with client.read(name, **QUERY, tail="drop", global_batch_rows=size, cursor=cursor) as stream:
            for _ in range(batches):
                out += next(stream).column("row").to_pylist()
            cursor = stream.cursor
    return out
