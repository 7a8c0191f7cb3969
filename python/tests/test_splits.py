"""Splits, limits and steps, read with pyarrow alone, against rows that were written."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from lake import Lake, Row
from pyiceberg.io.pyarrow import schema_to_pyarrow
from server import Server

import penstock

pytestmark = pytest.mark.usefixtures("in_order")

ROWS = 2400
FILTER = "label = 1 OR label IS NULL"
COLUMNS = ["row", "label", "country"]


@dataclass(frozen=True)
class World:
    """A configuration, the rows of its join by `row`, and its training table."""

    config: Path
    rows: dict[int, Row]
    table: Any


def make(folder: Path) -> World:
    made = Lake(folder)
    rng = random.Random(14)
    events = made.write("ml.events", lake.EVENTS, ("request_id", 16), lake.events(rng, ROWS, 300), files=2)
    history = made.write("features.history", lake.HISTORY, ("req", 12), lake.history(rng, 300))
    joined = lake.join(events.rows, history.rows, ("request_id", "req"))
    rows = {r["row"]: {name: r[name] for name in COLUMNS} for r in joined}
    staging = [{"table": "features.history", "key": {"request_id": "req"}}]
    dataset = {"training": {"table": "ml.events"}, "key": ["request_id"], "staging": staging}
    return World(made.config({"d": dataset}), rows, events.table)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Server(make(Path(tmp_path_factory.mktemp("splits"))).config) as server:
        yield server.address


def plan(address: str, **fields: Any) -> flight.FlightInfo:
    query = {"dataset": "d", "columns": COLUMNS, **fields}
    with flight.FlightClient(f"grpc://{address}") as client:
        return client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(query)))


def read(address: str, endpoint: flight.FlightEndpoint) -> tuple[list[pa.RecordBatch], list[Any]]:
    """Reads an endpoint: its batches, and the cursors after them."""
    batches, cursors, report = [], [], None
    with flight.FlightClient(f"grpc://{address}") as client:
        for chunk in client.do_get(endpoint.ticket):
            said = json.loads(chunk.app_metadata.to_pybytes())
            if chunk.data is None:
                report = said["report"]
                continue
            batches.append(chunk.data)
            cursors.append(said)
    assert report is not None
    assert report["rows"] == sum(b.num_rows for b in batches)
    return batches, cursors


def rows_of(batches: list[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def all_rows(address: str, **fields: Any) -> list[Row]:
    return [row for e in plan(address, **fields).endpoints for row in rows_of(read(address, e)[0])]


def evaluate(address: str, query: dict[str, Any], folder: Path, stop: int | None = None) -> list[str]:
    """Runs the job, to its end or until it is killed in the middle of an endpoint, and returns what it said."""
    command = [sys.executable, str(Path(__file__).with_name("evaluation_job.py")), address, json.dumps(query)]
    command += [str(folder), *([] if stop is None else [str(stop)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        said = []
        for line in job.stdout:
            said.append(line.strip())
            if line.startswith("in the middle"):
                job.kill()
        status = job.wait(60)
    assert status == 0 or said[-1] == "in the middle"
    return said


# spec: endpoint-1, endpoint-3, endpoint-6
@pytest.mark.parametrize(
    "fields", [{}, {"order": "shuffled", "shuffle": "splits", "seed": 9, "filter": FILTER}]
)
def test_a_job_that_is_killed_has_every_row_once(fields: dict[str, Any], tmp_path: Path) -> None:
    world = make(tmp_path / "lake")
    query = {"dataset": "d", "columns": COLUMNS, "batch_rows": 40, **fields}
    with Server(world.config) as server:
        first = evaluate(server.address, query, tmp_path, stop=12)
        assert first[-1] == "in the middle"
        server.kill()
    # Rows that are committed meanwhile are not of this run.
    extra = [{**dict.fromkeys(lake.EVENTS), "row": 10**6 + i, "request_id": i} for i in range(50)]
    world.table.refresh()
    world.table.append(pa.Table.from_pylist(extra, schema_to_pyarrow(world.table.schema())))
    with Server(world.config) as server:  # another server, whose keys are others
        second = evaluate(server.address, query, tmp_path, stop=9)
        third = evaluate(server.address, query, tmp_path)
    read_once = [line for line in first + second + third if line.startswith("read ")]
    assert min(len(first), len(second), len(third)) >= 2, "each run read some splits"
    assert len({line.split(" of ")[1] for line in read_once}) == len(read_once), "no split was read twice"
    rows = [row for part in tmp_path.glob("*.rows") for row in json.loads(part.read_text())]
    kept = {k: r for k, r in world.rows.items() if "filter" not in fields or r["label"] != 0}
    assert sorted(rows, key=lambda r: int(r["row"])) == [kept[k] for k in sorted(kept)]


# spec: endpoint-3, endpoint-7
def test_splits_and_their_cursors(address: str) -> None:
    fields: dict[str, Any] = {"order": "shuffled", "shuffle": "splits", "seed": 4, "batch_rows": 30}
    whole = all_rows(address, **fields)
    found = plan(address, endpoints="splits", **fields)
    assert found.ordered
    assert len(found.endpoints) == json.loads(found.app_metadata)["splits"] > 10
    parts = [read(address, e) for e in found.endpoints]
    assert [row for batches, _ in parts for row in rows_of(batches)] == whole
    names = [json.loads(e.app_metadata)["splits"] for e in found.endpoints]
    before = 0
    for i, (batches, cursors) in enumerate(parts):
        cursor, given = cursors[0], before + batches[0].num_rows
        assert all_rows(address, cursor=cursor) == whole[given:]
        rest = plan(address, cursor=cursor, endpoints="splits")
        left = [json.loads(e.app_metadata) for e in rest.endpoints]
        if len(batches) > 1:
            assert [p["splits"] for p in left] == names[i:]
            assert left[0]["at"] == cursor["at"][0]
        assert rest.total_records == len(whole) - given
        assert [r for e in rest.endpoints for r in rows_of(read(address, e)[0])] == whole[given:]
        before += sum(b.num_rows for b in batches)
    with penstock.connect(address) as client, client.read("d", endpoints="splits", **fields) as stream:
        ours = [next(stream).num_rows for _ in range(7)]
        rest = client.read("d", cursor=stream.cursor).read_all()
        assert rest.column("row").to_pylist() == [r["row"] for r in whole[sum(ours) :]]


# spec: endpoint-1
def test_pickled_splits_have_rows_of_all_types(address: str) -> None:
    """A split that was pickled reads tensors, whose elements are never null, and codes of texts."""
    fields: dict[str, Any] = {
        "columns": ["row", {"column": "country", "as": "category"}],
        "dense": {"x": {"columns": ["label", "row"], "fill": 0.5}},
    }
    with penstock.connect(address) as client:
        for split in client.read_splits("d", **fields)[:2]:
            copy: penstock.Split = pickle.loads(pickle.dumps(split))
            assert copy.read().read_all().equals(split.read().read_all(), check_metadata=True)
        for one in client.datasets():
            assert pickle.loads(pickle.dumps(one)) == one


# spec: endpoint-2, endpoint-11, endpoint-16, cursor-13
def test_fields_that_cannot_be_combined(address: str) -> None:
    endpoint = plan(address, order="shuffled", shuffle="splits", seed=4, batch_rows=30).endpoints[0]
    cursor = read(address, endpoint)[1][0]
    wrong: dict[str, dict[str, Any]] = {
        "endpoints: splits requires one shard": {"endpoints": "splits", "shard": {"of": 2}},
        "endpoints: splits requires a plan with one lane": {"endpoints": "splits", "lanes": 2},
        "endpoints: splits returns every row": {"endpoints": "splits", "tail": "drop"},
        "limit: the number of rows in the splits before": {"endpoints": "splits", "limit": 5},
        "limit: it counts the rows of one shard": {"limit": 5, "shard": {"of": 2}},
        "limit: it can end within a step": {"limit": 5, "tail": "drop"},
        "such as 8 or 12": {"global_batch_rows": 10, "lanes": 4},
        "cannot be combined with batch_rows": {"global_batch_rows": 8, "batch_rows": 8},
        "seed: 0, but the cursor has 4; leave seed out": {"cursor": cursor, "seed": 0},
        "order: stored, but the cursor has shuffled": {"cursor": cursor, "order": "stored"},
        "leave filter out": {"cursor": cursor, "filter": FILTER},
    }
    for text, fields in wrong.items():
        with pytest.raises(pa.ArrowInvalid, match=text):
            plan(address, **fields)


# spec: endpoint-10, endpoint-12, endpoint-14
@pytest.mark.parametrize("fields", [{}, {"lanes": 4}, {"lanes": 4, "filter": FILTER, "order": "shuffled"}])
def test_limits_of_a_query(address: str, fields: dict[str, Any]) -> None:
    uncut, _ = read(address, plan(address, batch_rows=40, **fields).endpoints[0])
    whole = rows_of(uncut)
    for n in (1, 39, 40, 55, 400, len(whole), len(whole) + 7):
        found = plan(address, batch_rows=40, limit=n, **fields)
        batches, cursors = read(address, found.endpoints[0])
        given = min(n, len(whole))
        assert rows_of(batches) == whole[:given]
        assert batches[:-1] == uncut[: len(batches) - 1]
        assert found.total_records == (-1 if "filter" in fields else given)
        rest = all_rows(address, batch_rows=40, cursor=cursors[-1])
        key = [r["row"] for r in whole[given:]]
        assert sorted(r["row"] for r in rest) == sorted(key)
        if fields.get("lanes", 1) == 1 or n % 40 == 0:
            assert [r["row"] for r in rest] == key
        several = all_rows(address, cursor=cursors[-1], shard={"of": fields.get("lanes", 1)})
        assert sorted(r["row"] for r in several) == sorted(key)


# spec: endpoint-15, endpoint-17
def test_steps_keep_their_size(address: str) -> None:
    fields = {"lanes": 4, "order": "shuffled", "seed": 2, "global_batch_rows": 120}

    def steps(found: flight.FlightInfo) -> tuple[list[list[int]], list[list[Any]]]:
        shards = [read(address, e) for e in found.endpoints]
        count = max(len(b) for b, _ in shards)
        rows = [sorted(r["row"] for b, _ in shards for r in rows_of(b[i : i + 1])) for i in range(count)]
        return rows, [[c[min(i, len(c) - 1)] for _, c in shards] for i in range(count)]

    want, _ = steps(plan(address, shard={"of": 1}, **fields))
    for of in (1, 2, 4):
        found = plan(address, shard={"of": of}, **fields)
        assert json.loads(found.app_metadata)["batch_rows"] == 120 // of
        got, cursors = steps(found)
        assert got == want
        for then in (1, 2, 4):
            rest, _ = steps(plan(address, shard={"of": then}, cursor=cursors[2], global_batch_rows=120))
            assert rest == want[3:]
