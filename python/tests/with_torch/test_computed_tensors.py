"""Computed columns as tensors, beside the same values in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pytest
import torch
from lake import Lake, Row
from server import Server
from torch.utils.data import DataLoader

import penstock
from penstock.torch import Batch, Converter, Deduplicated, IterableDataset, Jagged, bucket

ROWS, REQUESTS = 600, 90
COMPUTED = {
    "weight": "CAST(price AS double) / 1000",
    "clicked": "coalesce(label, 0) = 1",
    "code": "hash(country, 1000)",
    "level": "bucketize(score, [0.25, 0.5, 0.75])",
    "place": "lookup(country, ['de', 'jp'], 2)",
    "recent": "last(last_items, 2)",
    "hour": "hour(at)",
}
NULLS: Any = {
    "row": "error",
    "weight": "error",
    "clicked": "error",
    "hour": "error",
    "code": -1,
    "level": "mask",
    "place": -1,
    "recent": "empty",
    "recent[]": -7,
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[penstock.Client, str, list[Row]]]:
    folder: Path = tmp_path_factory.mktemp("computed")
    rng = random.Random(8)
    made = Lake(folder)
    events = lake.events(rng, ROWS, REQUESTS)
    history, scores = lake.history(rng, REQUESTS), lake.scores(rng, REQUESTS)
    made.write("ml.events", lake.EVENTS, ("request_id", 8), events, files=2)
    made.write("features.history", lake.HISTORY, ("req", 12), history)
    made.write("features.scores", lake.SCORES, ("request_id", 4), scores)
    dataset = {
        "training": {"table": "ml.events"},
        "key": ["request_id"],
        "staging": [
            {"table": "features.history", "key": {"request_id": "req"}},
            {"table": "features.scores"},
        ],
        "computed": [{"column": name, "expr": text} for name, text in COMPUTED.items()],
    }
    rows = lake.join(lake.join(events, history, ("request_id", "req")), scores, ("request_id", "request_id"))
    with Server(made.config({"d": dataset})) as server, penstock.connect(server.address) as client:
        yield client, server.address, rows


def expected(row: Row) -> dict[str, Any]:
    country, score = row["country"], row["score"]
    return {
        "row": row["row"],
        "weight": float(row["price"]) / 1000,
        "clicked": row["label"] == 1,
        "code": -1 if country is None else bucket(pa.array([country]), 1000).tolist()[0],
        "level": 0 if score is None else sum(bound < score for bound in (0.25, 0.5, 0.75)),
        "level_mask": score is not None,
        "place": -1 if country is None else {"de": 0, "jp": 1}.get(country, 2),
        "recent": [-7 if one is None else one for one in (row["last_items"] or [])[-2:]],
        "hour": row["at"].hour,
    }


def rows_of(batch: Batch) -> list[dict[str, Any]]:
    columns = {
        name: [row.tolist() for row in found] if isinstance(found, Jagged) else found.tolist()
        for name, found in batch.items()
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


# spec: computed-1, computed-7, computed-8, tensor-12
@pytest.mark.parametrize("wire", ["plain", "indexed"])
def test_computed_columns_are_tensors(served: tuple[penstock.Client, str, list[Row]], wire: Any) -> None:
    client, _, rows = served
    found: list[dict[str, Any]] = []
    with client.read("d", columns=["row", *COMPUTED], wire=wire, batch_rows=70, lanes=2) as stream:
        convert = Converter(stream.schema, nulls=NULLS)
        for batch in stream:
            made = convert(batch)
            levels = [name for name, value in made.items() if isinstance(value, Deduplicated)]
            assert levels == (["history", "scores"] if wire == "indexed" else [])
            found += rows_of(made.expand())
    for row in found:
        row["level"] *= row["level_mask"]
    assert sorted(found, key=lambda row: row["row"]) == [expected(row) for row in rows]


# spec: computed-10
@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_pack_computed_columns(served: tuple[penstock.Client, str, list[Row]], workers: int) -> None:
    _, address, rows = served
    dense: Any = {"x": {"columns": ["weight", {"column": "twice", "expr": "score * 2"}], "fill": -1}}
    ds = IterableDataset(
        address, "d", columns=["row", "level"], dense=dense, batch_rows=70, nulls={"row": "error", "level": 9}
    )
    seen = 0
    for batch in DataLoader(ds, batch_size=None, num_workers=workers):
        for at, x, level in zip(batch["row"].tolist(), batch["x"], batch["level"].tolist(), strict=True):
            want = expected(rows[at])
            score = -1.0 if rows[at]["score"] is None else rows[at]["score"] * 2
            torch.testing.assert_close(x, torch.tensor([want["weight"], score], dtype=x.dtype))
            assert level == (want["level"] if want["level_mask"] else 9)
            seen += 1
    assert seen == ROWS
