"""Random queries of the churn, and a digest of the rows of a stream in their order."""

from __future__ import annotations

import dataclasses
import random
import zlib
from typing import Any

import joins
import pyarrow as pa
from checks import terms
from inputs import Inputs

_SHUFFLES = ("rows", "requests", "splits")
_CATEGORY = {"country", "l_returnflag", "l_shipmode", "l_shipinstruct", "o_orderpriority"}
_FILTERS = {
    joins.T: ("label = 1", "f0 > 0.5", "item_id < 300000", "country IS NOT NULL AND f1 > 0.3"),
    joins.TPCH: ("l_quantity > 30", "l_shipmode = 'AIR'", "l_returnflag = 'R' AND o_custkey < 100000"),
}


@dataclasses.dataclass(frozen=True)
class Asked:
    """A dataset and the fields of a query, without `cache`."""

    dataset: str
    fields: dict[str, Any]


class Digest:
    """The rows of a stream in their order, and the sizes of its batches. Text and category are equal."""

    def __init__(self) -> None:
        self.rows = 0
        self._columns: dict[str, int] = {}
        self._sizes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next batch."""
        self.rows += batch.num_rows
        self._sizes = zlib.crc32(batch.num_rows.to_bytes(8), self._sizes)
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            nulls = values.is_null().to_numpy(zero_copy_only=False)
            before = zlib.crc32(nulls, self._columns.get(name, 0))
            self._columns[name] = zlib.crc32(terms(values).tobytes(), before)

    def values(self) -> tuple[Any, ...]:
        """What equal streams have in common."""
        return self.rows, self._sizes, tuple(sorted(self._columns.items()))


def drawn(count: int, seed: int, inputs: dict[str, Inputs]) -> list[Asked]:
    """Random queries over datasets, which the inputs describe."""
    rng = random.Random(seed)
    return [_draw(rng, rng.choice(list(inputs)), inputs) for _ in range(count)]


def _draw(rng: random.Random, dataset: str, inputs: dict[str, Inputs]) -> Asked:
    described = inputs[dataset]
    names = [*described.training.columns, *described.features]
    columns: list[Any] = rng.sample(names, rng.randint(2, 9))
    if rng.random() < 0.5:
        texts = sorted(_CATEGORY & set(names))
        columns = [name for name in columns if name not in texts]
        columns += [
            {"column": name, "as": "category"} for name in rng.sample(texts, rng.randint(1, len(texts)))
        ]
    lanes = rng.choice([1, 1, 2, 4, 8])
    fields: dict[str, Any] = {
        "columns": columns,
        "lanes": lanes,
        "batch_rows": rng.choice([1024, 4096, 8192]),
    }
    if lanes > 1 and rng.random() < 0.6:
        fields["shard"] = (rng.randrange(lanes), lanes)
    if rng.random() < 0.6:
        fields |= {"order": "shuffled", "seed": rng.randrange(3), "epoch": rng.randrange(3)}
        fields["shuffle"] = rng.choice(_SHUFFLES)
    if rng.random() < 0.25:
        fields["filter"] = rng.choice(_FILTERS.get(dataset, _FILTERS[joins.T]))
    if "shard" not in fields and rng.random() < 0.6:  # a limit is of a whole stream
        fields["limit"] = rng.randrange(100_000, 800_000)
    return Asked(dataset, fields)
