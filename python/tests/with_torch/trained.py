"""A served dataset, and what a plain read of each rank gives of it, for the tests of IterableDataset."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lake
from lake import Lake
from pyiceberg.types import ListType, LongType
from server import Server

import penstock
from penstock.torch import Batch, IterableDataset

ROWS, LANES = 1200, 4
QUERY: Any = {
    "columns": ["row", "label", "score"],
    "order": "shuffled",
    "seed": 3,
    "lanes": LANES,
    "global_batch_rows": 120,
}
RULES: Any = {"nulls": {"row": "error", "label": -1}}
WIDE = ListType(element_id=901, element_type=LongType(), element_required=False)
Steps = list[list[int]]


@dataclass(frozen=True)
class Served:
    """A server's address, and the lake that it serves."""

    address: str
    lake: Lake

    def dataset(self, **options: Any) -> IterableDataset[Any]:
        """The dataset of the tests, as one rank reads it."""
        return IterableDataset(self.address, "d", **{**QUERY, **RULES, **options})

    def steps(self, rank: int = 0, world: int = 1, epoch: int = 0, **fields: Any) -> Steps:
        """The rows of each step of a rank, as a plain read gives them."""
        query = {**QUERY, **({"tail": "drop"} if world > 1 else {}), **fields}
        with (
            penstock.connect(self.address) as client,
            client.read("d", shard=(rank, world), epoch=epoch, **query) as stream,
        ):
            return [batch.column("row").to_pylist() for batch in stream]


def rows(batches: Iterable[Batch]) -> Steps:
    """The rows of each batch."""
    return [batch["row"].tolist() for batch in batches]


@contextmanager
def served(folder: Path, *flags: str, wide: int = 0) -> Iterator[Served]:
    """Serves a dataset of 1200 rows in 8 buckets, joined with one staging table.

    Each row has a list "wide" of random numbers; if they are many, no connection can buffer a
    stream of them.
    """
    rng = random.Random(16)
    made = Lake(folder)
    events = [
        {**row, "wide": [rng.getrandbits(62) for _ in range(wide)]} for row in lake.events(rng, ROWS, 120)
    ]
    made.write("ml.events", {**lake.EVENTS, "wide": WIDE}, ("request_id", 8), events, files=2)
    made.write("features.scores", lake.SCORES, ("request_id", 4), lake.scores(rng, 120))
    dataset: dict[str, Any] = {
        "training": {"table": "ml.events"},
        "key": ["request_id"],
        "staging": [{"table": "features.scores"}],
    }
    with Server(made.config({"d": dataset, "e": dataset}), *flags) as server:
        yield Served(server.address, made)
