"""Streams of the real server as tensors, plain and indexed, beside a join in plain Python."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import lake
import pytest
import torch
from lake import Lake, Row
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, StringType
from server import Server
from torch.utils.data import DataLoader

import penstock
from penstock import fields
from penstock.torch import Batch, Converter, Deduplicated, IterableDataset, Jagged

ROWS, REQUESTS = 1200, 120
COUNTRIES = ["de", "jp", ""]
TAGS = ["a", "b", "zürich"]
RULES: Any = {
    "nulls": {
        "row": "error",
        "request_id": -1,
        "label": "mask",
        "day": "error",
        "at": "error",
        "user": 0,
        "tags": "empty",
        "tags[]": {"fill": "a"},
        "last_items": "mask",
        "last_items[]": -7,
        "country": {"fill": ""},
    },
    "hash": {"tags": 1000},
    "vocab": {"country": COUNTRIES},
    "decimals": {"price": "unscaled"},
}
RULES["nulls"]["price"] = "error"
Wire = Literal["plain", "indexed", "auto"]
WIRES: tuple[Wire, ...] = ("plain", "indexed", "auto")


@dataclass(frozen=True)
class Lakeside:
    """A client of a server, and the rows of its dataset."""

    client: penstock.Client
    address: str
    rows: list[Row]


def written(folder: Path) -> tuple[Path, list[Row]]:
    """Writes the tables of the dataset "d". Returns their config, and the rows of the dataset."""
    rng = random.Random(15)
    made = Lake(folder)
    events = lake.events(rng, ROWS, REQUESTS)
    for row in events:
        row["user"] = None if row["request_id"] is None else row["request_id"] * 10**12
    history, scores = lake.history(rng, REQUESTS), lake.scores(rng, REQUESTS)
    made.write("ml.events", {**lake.EVENTS, "user": LongType()}, ("request_id", 8), events, files=2)
    made.write("features.history", lake.HISTORY, ("req", 12), history)
    made.write("features.scores", lake.SCORES, ("request_id", 4), scores)
    dataset = {
        "training": {"table": "ml.events", "request_level": ["user"]},
        "key": ["request_id"],
        "staging": [
            {"table": "features.history", "key": {"request_id": "req"}},
            {"table": "features.scores"},
        ],
    }
    rows = lake.join(lake.join(events, history, ("request_id", "req")), scores, ("request_id", "request_id"))
    return made.config({"d": dataset}), rows


@pytest.fixture(scope="module")
def lakeside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakeside]:
    config, rows = written(tmp_path_factory.mktemp("tensors"))
    with Server(config) as server, penstock.connect(server.address) as client:
        yield Lakeside(client, server.address, rows)


def number(row: Row) -> dict[str, Any]:
    """The expected values of a row in the tensors."""
    tag = BucketTransform(1000).transform(StringType())
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return {
        "row": row["row"],
        "request_id": -1 if row["request_id"] is None else row["request_id"],
        "label": row["label"] or 0,
        "label_mask": row["label"] is not None,
        "price": int(row["price"] * 100),
        "day": (row["day"] - epoch.date()).days,
        "at": (row["at"] - epoch) // datetime.timedelta(microseconds=1),
        "tags": [tag("a" if one is None else one) for one in row["tags"] or []],
        "user": row["user"] or 0,
        "last_items": [-7 if one is None else one for one in row["last_items"] or []],
        "last_items_mask": row["last_items"] is not None,
        "country": COUNTRIES.index(row["country"] or ""),
        "score": row["score"],
    }


def rows_of(batch: Batch) -> list[dict[str, Any]]:
    columns = {
        name: [row.tolist() for row in found] if isinstance(found, Jagged) else found.tolist()
        for name, found in batch.items()
    }
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for row in rows:
        row["score"] = None if row["score"] != row["score"] else row["score"]
    return rows


# spec: tensor-12
@pytest.mark.parametrize("wire", WIRES)
def test_tensors_of_a_stream_are_the_rows_of_the_join(lakeside: Lakeside, wire: Wire) -> None:
    found: list[dict[str, Any]] = []
    with lakeside.client.read("d", wire=wire, batch_rows=160, lanes=2) as stream:
        convert = Converter(stream.schema, **RULES)
        for batch in stream:
            made = convert(batch, cursor=stream.cursor)
            assert made.cursor == stream.cursor
            levels = [name for name, value in made.items() if isinstance(value, Deduplicated)]
            assert levels == (["request", "history", "scores"] if wire == "indexed" else [])
            found += rows_of(made.expand())
    expected = [number(row) for row in lakeside.rows]
    assert len(found) == ROWS
    assert sorted(found, key=lambda row: row["row"]) == expected


# spec: wire-48, tensor-11
@pytest.mark.parametrize("workers", [0, 2])
def test_tensors_of_categories_are_those_of_their_texts(lakeside: Lakeside, workers: int) -> None:
    rules: Any = {"nulls": {"row": "error", "country": {"fill": ""}}, "vocab": {"country": COUNTRIES}}

    def read(country: str | fields.Column) -> list[dict[str, Any]]:
        ds = IterableDataset(
            lakeside.address, "d", columns=["row", country], batch_rows=160, lanes=2, **rules
        )
        return [
            {name: column.tolist() for name, column in batch.items()}
            for batch in DataLoader(ds, batch_size=None, num_workers=workers)
        ]

    texts = read("country")
    assert len(texts) > 5
    assert read({"column": "country", "as": "category"}) == texts
    ds = IterableDataset(
        lakeside.address, "d", columns=[{"column": "country", "as": "category"}], nulls="error"
    )
    with pytest.raises(penstock.Invalid, match="other codes in each batch"):
        next(iter(ds))


def test_plain_converter_accepts_indexed_batches(lakeside: Lakeside) -> None:
    query: Any = {"batch_rows": 160, "lanes": 2}
    convert = Converter(lakeside.client.schema("d", **query), **RULES)
    found: list[dict[str, Any]] = []
    with lakeside.client.read("d", wire="indexed", **query) as stream:
        for batch in stream:
            made = convert(batch)
            assert list(made) == list(convert.columns)
            found += rows_of(made)
    assert sorted(found, key=lambda row: row["row"]) == [number(row) for row in lakeside.rows]


def test_dense_columns_are_views_on_either_wire(lakeside: Lakeside) -> None:
    query: Any = {
        "columns": ["row", "score"],
        "dense": {"x": {"columns": ["price", "label"], "fill": -1}, "s": {"columns": ["score"], "fill": 0}},
        "batch_rows": 100,
    }
    expected = {row["row"]: row for row in lakeside.rows}
    for wire in WIRES:
        with lakeside.client.read("d", wire=wire, **query) as stream:
            convert = Converter(stream.schema, nulls={"row": "error"})
            assert (convert.columns["x"].width, convert.columns["s"].width) == (2, 1)
            seen = 0
            for batch in stream:
                made = convert(batch)
                assert made["x"].data_ptr() == batch.column("x").values.buffers()[1].address
                made = made.expand()
                assert made["x"].shape == (made.rows, 2)
                for at, x, s in zip(*(made[name].tolist() for name in ("row", "x", "s")), strict=True):
                    row = expected[at]
                    label = -1 if row["label"] is None else row["label"]
                    assert x == torch.tensor([float(row["price"]), label]).tolist()
                    assert s == [torch.tensor(row["score"] or 0.0).item()]
                seen += made.rows
            assert seen == ROWS


def test_columns_that_may_be_null_are_named_when_the_stream_is_opened(lakeside: Lakeside) -> None:
    with (
        lakeside.client.read("d", columns=["row", "label", "score", "user", "last_items"]) as stream,
        pytest.raises(penstock.Invalid, match="'row', 'label', 'user', 'last_items': may be null"),
    ):
        Converter(stream.schema)


def test_each_history_goes_into_torchrec_once(lakeside: Lakeside) -> None:
    with lakeside.client.read("d", wire="indexed", batch_rows=160) as stream:
        convert = Converter(stream.schema, **RULES)
        for batch in stream:
            made = convert(batch)
            found = made.to_kjt(["last_items", "row"])
            distinct = len(batch.column("history").dictionary)
            assert found.stride_per_key_per_rank() == [[distinct], [made.rows]]
            lists = batch.column("history").dictionary.field("last_items").to_pylist()
            expected = [-7 if one is None else one for row in lists for one in row or []]
            assert found["last_items"].values().tolist() == expected
            assert found.inverse_indices()[1][0].tolist() == batch.column("history").indices.to_pylist()
