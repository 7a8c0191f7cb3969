"""Batches of whole requests, read with plain pyarrow and compared with what was written."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight
import pytest
from lake import Lake, Row
from pyiceberg.types import DoubleType, ListType, LongType, StringType
from server import Server

REQUESTS = 300
VISITS = {"request_id": LongType(), "item": LongType(), "user": StringType(), "score": DoubleType()}
HISTORY = {"request_id": LongType(), "pins": ListType(element_id=900, element_type=LongType())}
ITEMS = {"item": LongType(), "price": LongType()}


@dataclass(frozen=True)
class Lakeside:
    """A server, and what each request that it serves has."""

    address: str
    items: dict[int, list[int]]
    pins: dict[int, list[int] | None]


@pytest.fixture(scope="module")
def lakeside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakeside]:
    rng = random.Random(15)
    items: dict[int, list[int]] = {}
    rows: list[Row] = []
    for request in range(REQUESTS):
        items[request] = [1000 * request + i for i in range(rng.randrange(1, 9))]
        rows += [
            {"request_id": request, "item": item, "user": f"u{request % 7}", "score": item / 4}
            for item in items[request]
        ]
    pins: dict[int, list[int] | None] = {
        request: rng.choice([None, [], [1, 2, request]]) for request in range(0, REQUESTS, 2)
    }
    made = Lake(tmp_path_factory.mktemp("batch_requests"))
    made.write("ml.visits", VISITS, ("request_id", 8), rows)
    made.write(
        "features.history",
        HISTORY,
        ("request_id", 4),
        [{"request_id": r, "pins": p} for r, p in pins.items()],
    )
    made.write(
        "features.items",
        ITEMS,
        ("item", 2),
        [{"item": row["item"], "price": 2 * row["item"]} for row in rows],
    )
    datasets: dict[str, Any] = {
        "visits": {
            "training": {"table": "ml.visits", "request_level": ["user"]},
            "key": ["request_id"],
            "staging": [
                {"table": "features.history"},
                {"table": "features.items", "key": ["item"], "max_amplification": 1000},
            ],
        },
        "by_score": {"training": {"table": "ml.visits"}, "key": ["score"]},
    }
    with Server(made.config(datasets)) as server:
        yield Lakeside(server.address, items, pins)


@dataclass(frozen=True)
class Given:
    summary: dict[str, Any]
    batches: list[pa.RecordBatch]
    cursors: list[dict[str, Any]]
    report: dict[str, Any]


def read(lakeside: Lakeside, **query: Any) -> list[Given]:
    """Reads the shards of a query as any Flight client does."""
    with pyarrow.flight.connect(f"grpc://{lakeside.address}") as client:
        text = json.dumps({"dataset": "visits", **query})
        planned = client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(text))
        shards = []
        for endpoint in planned.endpoints:
            given = Given(json.loads(planned.app_metadata), [], [], {})
            reader = client.do_get(endpoint.ticket)
            while True:
                try:
                    chunk = reader.read_chunk()
                except StopIteration:
                    break
                said = json.loads(chunk.app_metadata.to_pybytes())
                if chunk.data is None:
                    given.report.update(said["report"])
                    continue
                chunk.data.validate(full=True)
                assert chunk.data.schema.equals(planned.schema)
                given.batches.append(chunk.data)
                given.cursors.append(said)
            shards.append(given)
        return shards


def requests(batch: pa.RecordBatch) -> list[tuple[int, list[int]]]:
    """The requests of a plain batch, with their items."""
    rows = zip(batch.column("request_id").to_pylist(), batch.column("item").to_pylist(), strict=True)
    return [(key, [item for _, item in of]) for key, of in itertools.groupby(rows, lambda row: row[0])]


SHUFFLED = {"order": "shuffled", "seed": 5, "shuffle_window": 64}


# spec: request-1, request-5
@pytest.mark.parametrize("order", [{}, SHUFFLED])
def test_steps_are_of_equal_requests(lakeside: Lakeside, order: dict[str, Any]) -> None:
    steps: dict[int, list[list[int]]] = {}
    for of in (1, 2, 4):
        shards = read(lakeside, lanes=4, shard={"of": of}, batch_requests=12 // of, tail="drop", **order)
        assert len({len(shard.batches) for shard in shards}) == 1
        steps[of] = []
        for step in range(len(shards[0].batches)):
            all_lanes: list[int] = []
            for shard in shards:
                given = requests(shard.batches[step])
                assert len(given) == 12 // of
                assert all(items == lakeside.items[key] for key, items in given)
                all_lanes += [key for key, _ in given]
            steps[of].append(sorted(all_lanes))
        assert shards[0].summary["batch_requests"] == 12 // of
        assert shards[0].summary["steps"] == len(steps[of])
    assert steps[1] == steps[2] == steps[4]
    assert len(steps[1]) > 10


# spec: request-6
def test_any_number_of_shards_resumes(lakeside: Lakeside) -> None:
    whole = read(lakeside, lanes=4, shard={"of": 2}, batch_requests=6, **SHUFFLED)
    cursors = [shard.cursors[7] for shard in whole]
    assert all("rows" not in cursor and cursor["requests"] == 8 * 3 for cursor in cursors)
    seen = {key for shard in whole for batch in shard.batches[:8] for key, _ in requests(batch)}
    rest = read(lakeside, cursor=cursors, shard={"of": 4}, batch_requests=1)
    after = [key for shard in rest for batch in shard.batches for key, _ in requests(batch)]
    assert len(after) == len(set(after))
    assert seen.isdisjoint(after)
    assert seen | set(after) == set(lakeside.items)
    with pytest.raises(pa.ArrowInvalid, match="set the number of requests in a batch"):
        read(lakeside, cursor=cursors)


# spec: wire-34, wire-35, wire-36
def test_grouped_batch_has_one_row_per_request(lakeside: Lakeside) -> None:
    (given,) = read(lakeside, batch_requests=7, wire="grouped", **SHUFFLED)
    schema = given.batches[0].schema
    assert schema.field("user").type == pa.string()
    assert schema.field("pins").type.value_type == pa.int64()
    for name in ("item", "score", "price"):
        assert pa.types.is_list(schema.field(name).type)
        assert not schema.field(name).nullable
    seen = set()
    for batch in given.batches:
        for row in batch.to_pylist():
            request = row["request_id"]
            seen.add(request)
            assert row["item"] == lakeside.items[request]
            assert row["score"] == [item / 4 for item in row["item"]]
            assert row["price"] == [2 * item for item in row["item"]]
            assert row["user"] == f"u{request % 7}"
            assert row["pins"] == lakeside.pins.get(request)
    assert seen == set(lakeside.items)
    assert given.report["requests"] == REQUESTS
    assert given.report["rows"] == sum(map(len, lakeside.items.values()))
    assert [batch.num_rows for batch in given.batches[:-1]] == [7] * (len(given.batches) - 1)


# spec: request-10
@pytest.mark.parametrize("fields", [{"batch_requests": 4}, {"order": "shuffled"}])
def test_float_keys_cannot_identify_requests(lakeside: Lakeside, fields: dict[str, Any]) -> None:
    text = json.dumps({"dataset": "by_score", **fields})
    with (
        pyarrow.flight.connect(f"grpc://{lakeside.address}") as client,
        pytest.raises(
            pa.ArrowInvalid,
            match=r"column ml\.visits\.score of type float64; choose another key for the dataset, or",
        ),
    ):
        client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(text))
    whole = read(lakeside, dataset="by_score", order="shuffled", shuffle="rows")
    assert whole[0].report["rows"] == sum(map(len, lakeside.items.values()))
