"""Computed columns of the real server, beside the SQL of DuckDB and a staged twin."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import duckdb
import lake
import pyarrow as pa
import pytest
from lake import Lake, Row
from pyiceberg.types import DoubleType, LongType
from server import Server

import penstock

ROWS, REQUESTS = 2000, 150
COMPUTED = {
    "ratio": '"row" / nullif(label, 0)',
    "half": "score / 2",
    "known": "coalesce(country, 'none')",
    "chained": "ratio + coalesce(half, 0)",
    "month": "CAST(day AS timestamp)",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[penstock.Client, list[Row]]]:
    rng = random.Random(7)
    made = Lake(tmp_path_factory.mktemp("lake"))
    rows = {
        "events": lake.events(rng, ROWS, REQUESTS),
        "history": lake.history(rng, REQUESTS),
        "scores": lake.scores(rng, REQUESTS),
    }
    made.write("ml.events", lake.EVENTS, ("request_id", 8), rows["events"], files=2)
    made.write("features.history", lake.HISTORY, ("req", 12), rows["history"])
    made.write("features.scores", lake.SCORES, ("request_id", 8), rows["scores"])
    joined = lake.join(rows["events"], rows["history"], ("request_id", "req"))
    joined = lake.join(joined, rows["scores"], ("request_id", "request_id"))
    twin = {"row": LongType(), "twin": DoubleType()}
    ratios = [{"row": r["row"], "twin": r["row"] / r["label"] if r["label"] else None} for r in joined]
    made.write("features.twins", twin, ("row", 4), ratios)
    base: dict[str, Any] = {
        "training": {"table": "ml.events"},
        "key": ["request_id"],
        "staging": [
            {"table": "features.history", "key": {"request_id": "req"}},
            {"table": "features.scores"},
        ],
    }
    computed = [{"column": name, "expr": text} for name, text in COMPUTED.items()]
    datasets = {
        "d": {**base, "computed": computed},
        "twin": {**base, "staging": [*base["staging"], {"table": "features.twins", "key": ["row"]}]},
        "fails": {**base, "computed": [{"column": "bad", "expr": "row / label"}]},
    }
    with Server(made.config(datasets)) as server, penstock.connect(server.address) as client:
        yield client, joined


# spec: computed-1
def test_computed_columns_have_the_values_of_duckdb(served: tuple[penstock.Client, list[Row]]) -> None:
    client, joined = served
    types = {
        "row": pa.int64(),
        "label": pa.int32(),
        "day": pa.date32(),
        "country": pa.string(),
        "score": pa.float64(),
    }
    values = pa.table({name: pa.array([row[name] for row in joined], dt) for name, dt in types.items()})
    columns = ", ".join(f"{text} AS {name}" for name, text in COMPUTED.items())
    want = (
        duckdb.from_arrow(values)
        .query("source", f'SELECT "row", {columns} FROM source ORDER BY 1')
        .fetchall()
    )
    for batch_rows in (64, 1000):
        got = client.read("d", columns=["row", *COMPUTED], batch_rows=batch_rows).read_all().sort_by("row")
        assert [tuple(row.values()) for row in got.select(["row", *COMPUTED]).to_pylist()] == want
    own = client.read("d", columns=["row", {"column": "here", "expr": "ratio * 2"}], filter="ratio > 100")
    here = {row["row"]: row["here"] for row in own.read_all().to_pylist()}
    assert here == {row[0]: row[1] * 2 for row in want if row[1] is not None and row[1] > 100}


# spec: computed-8
def test_a_staged_twin_has_the_same_batches(served: tuple[penstock.Client, list[Row]]) -> None:
    client, _ = served
    for batch_rows in (1, 7, 500):
        limit = min(ROWS, batch_rows * 50)
        streams = [
            client.read("d", columns=["row", "ratio"], batch_rows=batch_rows, limit=limit),
            client.read("twin", columns=["row", "twin"], batch_rows=batch_rows, limit=limit),
        ]
        one, other = ([batch.rename_columns(["row", "value"]) for batch in stream] for stream in streams)
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert mine.schema == theirs.schema
            assert mine.equals(theirs)


# spec: computed-13
def test_a_row_without_a_value_ends_the_stream(served: tuple[penstock.Client, list[Row]]) -> None:
    client, _ = served
    with pytest.raises(
        penstock.Invalid, match=r'column "bad" of dataset fails: evaluate row / label: \d+ / 0'
    ) as failure:
        client.read("fails", columns=["row", "bad"]).read_all()
    assert "nullif(" in str(failure.value)
    assert client.read("fails", columns=["row", "bad"], filter="label = 1").read_all().num_rows > 0


def test_unknown_columns_of_expressions_are_named(served: tuple[penstock.Client, list[Row]]) -> None:
    client, _ = served
    with pytest.raises(
        penstock.Invalid, match=r'columns\[1\].expr: .*unknown column "lable" \(did you mean "label"'
    ):
        client.read("d", columns=["row", {"column": "x", "expr": "lable + 1"}])
