"""Columns of a request, dense columns and `wire: auto`, read with plain pyarrow and compared with what was written."""

from __future__ import annotations

import decimal
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight
import pytest
from lake import Lake, Row
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    StringType,
)
from server import Server

import penstock

ROWS = 1500
VISITS = {
    "row": LongType(),
    "request_id": LongType(),
    "user": StringType(),
    "history": ListType(element_id=900, element_type=LongType(), element_required=False),
    "clicks": IntegerType(),
    "price": DecimalType(9, 2),
    "score": FloatType(),
    "weight": DoubleType(),
    "bought": BooleanType(),
    "order_id": LongType(),
}
REQUEST = ["user", "history", "weight"]


def visits(rng: random.Random) -> list[Row]:
    """Rows of a hundred requests and some without one; a request's first row says what all of it say."""
    rows: list[Row] = []
    first: dict[int, Row] = {}
    for i in range(ROWS):
        request = None if i % 41 == 0 else rng.randrange(100)
        row: Row = {
            "row": i,
            "request_id": request,
            "user": rng.choice([None, "", f"user {i}"]),
            "history": rng.choice([None, [], [1, None, i], list(range(20))]),
            "clicks": rng.choice([None, 0, i, -(2**31)]),
            "price": rng.choice([None, decimal.Decimal("1.25"), decimal.Decimal("-9999999.99")]),
            "score": rng.choice([float("nan"), 0.1, -0.0]),
            "weight": rng.choice([0.1, float("nan"), float("inf")]),
            "bought": rng.choice([True, False]),
            "order_id": 2**53 + i,
        }
        if request is not None:
            row.update({name: first.setdefault(request, row)[name] for name in REQUEST})
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Lakeside:
    """A server, and what it serves."""

    address: str
    rows: dict[int, Row]


@pytest.fixture(scope="module")
def lakeside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakeside]:
    made = Lake(tmp_path_factory.mktemp("requests"))
    written = made.write("ml.visits", VISITS, ("request_id", 4), visits(random.Random(14)), files=3)
    training = {"table": "ml.visits", "request_level": REQUEST}
    wrong = {"table": "ml.visits", "request_level": ["user", "clicks"]}
    datasets: dict[str, Any] = {
        "visits": {"training": training, "key": ["request_id"]},
        "wrong": {"training": wrong, "key": ["request_id"]},
    }
    with Server(made.config(datasets)) as server:
        yield Lakeside(server.address, {row["row"]: row for row in written.rows})


@dataclass(frozen=True)
class Given:
    planned: pa.Schema
    schema: pa.Schema
    batches: list[pa.RecordBatch]
    report: dict[str, Any]


def read(address: str, **query: Any) -> Given:
    """Reads a query of one shard as any Flight client does."""
    with pyarrow.flight.connect(f"grpc://{address}") as client:
        planned = client.get_flight_info(
            pyarrow.flight.FlightDescriptor.for_command(json.dumps({"dataset": "visits", **query}))
        )
        reader = client.do_get(planned.endpoints[0].ticket)
        batches, last = [], b""
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                break
            if chunk.data is None:
                last = chunk.app_metadata.to_pybytes()
            else:
                chunk.data.validate(full=True)
                batches.append(chunk.data)
        return Given(planned.schema, reader.schema, batches, json.loads(last)["report"])


def same(got: Any, want: Any) -> bool:
    """Whether two values are the same, NaN being itself."""
    return bool(got == want or (got != got and want != want))


@pytest.mark.parametrize("batch_rows", [7, 400, 8192])
@pytest.mark.parametrize("order", ["stored", "shuffled"])
def test_request_is_sent_once_per_batch(lakeside: Lakeside, batch_rows: int, order: str) -> None:
    got = read(lakeside.address, wire="indexed", batch_rows=batch_rows, order=order)
    assert got.planned.equals(got.schema)
    assert got.schema.names == [name for name in VISITS if name not in REQUEST] + ["request"]
    field = got.schema.field("request")
    assert not field.nullable
    assert [inside.name for inside in field.type.value_type] == REQUEST
    seen, sent = set(), 0
    for batch in got.batches:
        level = batch.column("request")
        at = level.indices.to_numpy(zero_copy_only=True)
        values = level.dictionary.to_pylist()
        rows = batch.column("row").to_pylist()
        requests = batch.column("request_id").to_pylist()
        for row, index in zip(rows, at, strict=True):
            want = lakeside.rows[row]
            assert all(same(values[index][name], want[name]) for name in REQUEST)
        known = {request for request in requests if request is not None}
        assert len(values) == len(known) + requests.count(None)
        sent += len(values)
        seen.update(rows)
    assert len(seen) == ROWS
    assert got.report["request"] == {"sent": sent, "ratio": pytest.approx(ROWS / sent)}


def test_expanded_stream_equals_the_plain_stream(lakeside: Lakeside) -> None:
    plain = read(lakeside.address, batch_rows=300)
    assert "request" not in plain.report
    for wire in ("indexed", "auto"):
        got = read(lakeside.address, wire=wire, batch_rows=300)
        for batch, want in zip(got.batches, plain.batches, strict=True):
            expanded = penstock.expand(batch).select(want.schema.names)
            assert expanded.schema.equals(want.schema)
            assert repr(expanded.to_pylist()) == repr(want.to_pylist())  # in which NaN is NaN


def test_error_names_a_request_level_column_that_varies(lakeside: Lakeside) -> None:
    for wire in ("indexed", "auto"):
        with pytest.raises(
            pa.ArrowInvalid, match=r"column clicks of table ml\.visits is declared request_level"
        ):
            read(lakeside.address, dataset="wrong", wire=wire)
    assert len(read(lakeside.address, dataset="wrong").batches) == 1
    read(lakeside.address, dataset="wrong", wire="indexed", columns=["row", "user"])


def test_auto_shows_indexed_columns_in_schema_and_report(lakeside: Lakeside) -> None:
    plain = read(lakeside.address)
    small = read(lakeside.address, wire="auto", batch_rows=1)
    large = read(lakeside.address, wire="auto", batch_rows=1000)
    assert small.planned.equals(plain.schema)
    assert large.planned.equals(plain.schema)
    assert small.schema.equals(plain.schema)
    assert "indexed" not in small.report
    assert "request" in large.schema.names
    assert large.report["indexed"] == ["request"]
    assert large.report["request"]["ratio"] > 1
    again = read(lakeside.address, wire="auto", batch_rows=1000)
    assert again.schema.equals(large.schema)


PACKED = ["clicks", "price", "score", "bought", "order_id", "weight"]


@pytest.mark.parametrize("wire", ["plain", "indexed"])
def test_dense_is_a_view_of_rows(lakeside: Lakeside, wire: str) -> None:
    got = read(
        lakeside.address,
        wire=wire,
        batch_rows=500,
        dense={"x": {"columns": PACKED, "fill": -1.5}},
        columns=["row"],
    )
    assert got.schema.field("x").type == pa.list_(
        pa.field("element", pa.float32(), nullable=False), len(PACKED)
    )
    rows = 0
    for batch in got.batches:
        column = batch.column("x")
        assert column.null_count == 0
        tensor = np.from_dlpack(column.values).reshape(-1, len(PACKED))
        start = column.values.buffers()[1].address + 4 * column.values.offset
        assert tensor.__array_interface__["data"][0] == start, "nothing was copied"
        assert tensor.shape == (len(batch), len(PACKED))
        written = [lakeside.rows[row] for row in batch.column("row").to_pylist()]
        for i, name in enumerate(PACKED):
            values = [-1.5 if row[name] is None else float(row[name]) for row in written]
            np.testing.assert_array_equal(tensor[:, i], np.array(values, np.float64).astype(np.float32))
        rows += len(batch)
    assert rows == ROWS


def test_a_null_without_a_fill_is_named(lakeside: Lakeside) -> None:
    with pytest.raises(pa.ArrowInvalid, match="column clicks has a null, and no fill is given for it"):
        read(lakeside.address, dense={"x": ["bought", "clicks"]})
    with pytest.raises(pa.ArrowInvalid, match='column "user" is utf8: dense packs integers'):
        read(lakeside.address, dense={"x": ["user"]})


@pytest.mark.parametrize("batch_rows", [1, 500])
@pytest.mark.parametrize("wire", [None, "auto"])
def test_package_converts_auto_to_plain(lakeside: Lakeside, batch_rows: int, wire: Any) -> None:
    """It also does if the query sets no wire."""
    query: dict[str, Any] = {
        "batch_rows": batch_rows,
        "filter": "row < 900",
        "columns": ["user", "row", "history"],
        "dense": {"x": {"columns": ["weight", "weight"], "fill": 0}, "y": {"columns": ["clicks"], "fill": 0}},
    }
    with penstock.connect(lakeside.address) as client:
        want, got = client.read("visits", wire="plain", **query), client.read("visits", wire=wire, **query)
        assert got.schema.equals(want.schema)
        for batch, plain in zip(got, want, strict=True):
            batch.validate(full=True)
            assert batch.schema.equals(want.schema)
            assert repr(batch.to_pylist()) == repr(plain.to_pylist())
            assert got.cursor == want.cursor
        assert ("indexed" in got.report) == (batch_rows > 1)
