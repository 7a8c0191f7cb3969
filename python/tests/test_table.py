"""Streams handed to pyarrow, Polars, pandas and DuckDB as they are, against the rows that were written."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import lake
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lake import Lake, Row
from server import Server

import penstock

ROWS = 700
COLUMNS = ["row", "request_id", "label", "at", "last_items", "country"]


class Served:
    """A client, and the rows of the dataset "d" in any order."""

    def __init__(self, client: penstock.Client, rows: list[Row]) -> None:
        self.client = client
        self.rows = sorted(({name: row[name] for name in COLUMNS} for row in rows), key=lambda r: r["row"])

    def read(self, wire: Any = None, **fields: Any) -> penstock.Stream:
        return self.client.read("d", columns=COLUMNS, batch_rows=64, wire=wire, **fields)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Lake(tmp_path_factory.mktemp("tables"))
    rng = random.Random(3)
    events = made.write("ml.events", lake.EVENTS, ("request_id", 4), lake.events(rng, ROWS, 60))
    history = made.write("features.history", lake.HISTORY, ("req", 4), lake.history(rng, 60))
    # One of whose names is that of a column.
    named = made.write("features.label", lake.HISTORY, ("req", 4), lake.history(rng, 60))
    staging = [{"table": "features.history", "key": {"request_id": "req"}}]
    dataset = {"training": {"table": "ml.events"}, "key": ["request_id"]}
    clash = [{"table": "features.label", "key": {"request_id": "req"}}]
    config = made.config({"d": {**dataset, "staging": staging}, "clash": {**dataset, "staging": clash}})
    assert named.rows
    with Server(config) as server, penstock.connect(server.address) as client:
        yield Served(client, lake.join(events.rows, history.rows, ("request_id", "req")))


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["row"]))


def with_duckdb(stream: penstock.Stream) -> list[Row]:
    assert stream  # DuckDB finds it by its name
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql("FROM stream").to_arrow_table().to_pylist()


def polars_series(stream: penstock.Stream) -> pl.Series:
    """What Polars makes of any object with Arrow's stream: a column of structs."""
    series = pl.from_arrow(stream)
    assert isinstance(series, pl.Series)
    return series


TAKERS: dict[str, Callable[[penstock.Stream], list[Row]]] = {
    "pyarrow table": lambda stream: pa.table(stream).to_pylist(),
    "pyarrow reader": lambda stream: pa.RecordBatchReader.from_stream(stream).read_all().to_pylist(),
    "Polars frame": lambda stream: pl.DataFrame(stream).to_dicts(),
    "Polars from_arrow": lambda stream: polars_series(stream).struct.unnest().to_dicts(),
    "to_polars": lambda stream: stream.to_polars().to_dicts(),
    "DuckDB": with_duckdb,
}


@pytest.mark.parametrize("wire", [None, "plain", "indexed", "auto"])
@pytest.mark.parametrize("taker", TAKERS)
def test_libraries_accept_a_stream(served: Served, taker: str, wire: str | None) -> None:
    stream = served.read(wire)
    assert in_order(TAKERS[taker](stream)) == served.rows
    assert stream.report["rows"] == ROWS


@pytest.mark.parametrize("wire", [None, "plain", "indexed"])
def test_pandas_takes_a_stream(served: Served, wire: Any) -> None:
    for frame in (served.read(wire).to_pandas(), pd.DataFrame.from_arrow(served.read(wire))):
        frame = frame.sort_values("row")
        for name in ("row", "label", "country"):
            want = [None if row[name] is None else row[name] for row in served.rows]
            got = [None if pd.isna(value) else value for value in frame[name]]
            assert got == want
        lists = [None if x is None else list(x) for x in frame["last_items"]]
        assert [x for x, row in zip(lists, served.rows, strict=True) if row["last_items"] == [1, None]]
        assert [x is None for x in lists] == [row["last_items"] is None for row in served.rows]
    typed = served.read(wire).to_pandas(types_mapper=pd.ArrowDtype)
    assert str(typed.dtypes["label"]) == "int32[pyarrow]"


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_error_names_the_missing_extra(
    fake: penstock.Client, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    stream = fake.read("good")
    with pytest.raises(ImportError, match=rf"penstock\[{library}\]"):
        getattr(stream, f"to_{library}")()
    assert stream.read_all().num_rows == 1000, "nothing was taken from it"


def test_remaining_rows_are_converted(served: Served) -> None:
    stream = served.read()
    given = next(stream).num_rows
    assert pa.table(stream).num_rows == ROWS - given
    with pytest.raises(penstock.Invalid, match="read to its end"):
        pl.DataFrame(stream)
    with pytest.raises(penstock.Invalid, match="read to its end"):
        pa.table(stream)
    with pytest.raises(penstock.Invalid, match="read to its end"):
        stream.to_pandas()
    with pytest.raises(penstock.Invalid, match="read to its end"):
        stream.read_all()


def test_requested_schema_is_cast(served: Served) -> None:
    wanted = pa.schema([("row", pa.float64()), ("country", pa.large_utf8())])
    stream = served.client.read("d", columns=["row", "country"])
    table = pa.RecordBatchReader.from_stream(stream, wanted).read_all()
    assert table.schema.types == wanted.types
    assert sorted(table.column("row").to_pylist()) == [float(i) for i in range(ROWS)]


@pytest.mark.parametrize("taker", ["pyarrow table", "Polars frame", "DuckDB"])
def test_a_stream_that_breaks_is_never_a_short_table(fake: penstock.Client, taker: str) -> None:
    stream = fake.read("cut")
    with pytest.raises(Exception, match="without its report"):
        TAKERS[taker](stream)
    with pytest.raises(penstock.Corrupt):
        next(stream)


@pytest.mark.parametrize("wire", [None, "plain", "indexed"])
def test_a_limited_table(served: Served, wire: Any) -> None:
    stream = served.read(wire, limit=100)
    assert len(stream) == 2
    table = served.read(wire, limit=100).to_polars()
    whole = served.read("plain").read_all()
    assert table["row"].to_list() == whole.column("row").to_pylist()[:100]


def test_names_may_clash_if_no_wire_is_set(served: Served) -> None:
    """Where batches cannot be indexed they come plain, unless that was asked for."""
    for wire in ("indexed", "auto"):
        with pytest.raises(penstock.Invalid, match="wire"):
            served.client.read("clash", wire=wire)
    table = served.client.read("clash").read_all()
    assert table.column_names[-2:] == ["last_items", "country"]
    assert table == served.client.read("clash", wire="plain").read_all()
    assert served.client.plan("clash").schema == served.client.schema("clash") == table.schema
    assert served.client.manifest("clash")["query"]["wire"] == "plain"


def test_length_is_the_number_of_batches(served: Served) -> None:
    queries: list[dict[str, Any]] = [
        {},
        {"lanes": 4},
        {"lanes": 4, "shard": {"of": 2}},
        {"lanes": 4, "shard": (1, 2), "tail": "drop"},
        {"every": {"step": 1, "of": 3}},
        {"limit": 130},
        {"filter": "label = 1", "count": "exact"},
        {"endpoints": "splits"},
        {"order": "shuffled", "seed": 4},
    ]
    for query in queries:
        stream = served.read(**query)
        batches = len(stream)
        assert batches == sum(1 for _ in stream) == len(stream) == stream.report["batches"]
        if "limit" in query or "every" in query or batches < 4 or isinstance(stream.cursor, list):
            continue
        half = served.read(**query)
        for _ in range(2):
            next(half)
        if "endpoints" not in query and "tail" not in query:
            assert len(served.read(cursor=half.cursor)) == batches - 2
    unknown = served.read(filter="label = 1")
    assert unknown
    with pytest.raises(TypeError, match="count='exact'"):
        len(unknown)
    assert len(list(unknown)) > 1
    finished = served.read(cursor=unknown.cursor)
    assert finished
    assert list(finished) == []


def test_batches_of_requests(served: Served) -> None:
    query: dict[str, Any] = {"columns": COLUMNS, "batch_requests": 8, "order": "shuffled", "count": "exact"}
    stream = served.client.read("d", **query)
    assert (stream.plan.batch_rows, stream.plan.batch_requests) == (None, 8)
    assert repr(stream.plan).endswith("steps of 8 requests>")
    batches = list(stream)
    assert len(batches) == len(stream)
    assert in_order([row for batch in batches for row in batch.to_pylist()]) == served.rows
    grouped = served.client.read("d", wire="grouped", **query)
    assert sum(batch.num_rows for batch in grouped) == stream.report["requests"]
    assert len(grouped) == len(stream)
    assert (grouped.report["rows"], grouped.report["requests"]) == (ROWS, stream.report["requests"])


def test_repr_shows_the_position(served: Served, fake: penstock.Client) -> None:
    stream = served.read()
    assert repr(stream) == "<penstock.Stream of d: 0 of 700 rows in 0 of 11 batches, not begun>"
    next(stream)
    next(stream)
    assert repr(stream) == "<penstock.Stream of d: 128 of 700 rows in 2 of 11 batches, step 2, open>"
    stream.close()
    assert repr(stream).endswith("step 2, closed>")
    whole = served.read(filter="label = 1")
    rows = whole.read_all().num_rows
    batches = whole.report["batches"]
    assert repr(whole) == f"<penstock.Stream of d: {rows} rows in {batches} batches, step {batches}, ended>"
    broken = fake.read("cut")
    with pytest.raises(penstock.Corrupt):
        broken.read_all()
    assert repr(broken).endswith("failed: corrupt>")
    plan = served.client.plan("d", lanes=4, shard={"of": 2}, batch_rows=64, count="exact")
    assert repr(plan) == (
        f"<penstock.Plan {plan.id}: 700 rows in 5 splits, 4 lanes, 2 shards with 6 steps of 64 rows>"
    )
    one = served.client.plan("d", columns=["label"], limit=1)
    assert "1 row in " in repr(one)
    assert ", 1 lane, 1 shard with 1 step of " in repr(one)
    inline = served.client.read({"training": {"table": "ml.events"}})
    assert "of ml.events: " in repr(inline)
