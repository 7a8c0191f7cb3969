"""Even steps and DataLoader workers, with pyarrow's Flight client alone, against joins by definition."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lake
import pyarrow.flight as flight
import pytest
from lake import Lake, Row
from server import Server

ROWS, LANES = 3000, 8
HISTORY = {"table": "features.history", "key": {"request_id": "req"}}


@dataclass(frozen=True)
class Shard:
    """What one ticket gave."""

    batches: list[list[int]]
    cursors: list[dict[str, Any]]
    report: dict[str, Any]


@dataclass(frozen=True)
class Served:
    """Two servers with the same keys, and the rows that each dataset has, by its name."""

    clients: list[flight.FlightClient]
    answers: dict[str, list[int]]


def kept(rows: list[Row], keep: Callable[[Row], bool] = lambda _: True) -> list[int]:
    return [row["row"] for row in rows if keep(row)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    rng, made = random.Random(14), Lake(tmp_path_factory.mktemp("steps"))
    events = made.write(
        "ml.events", lake.EVENTS, ("request_id", 16), lake.events(rng, ROWS, 300), files=2
    ).rows
    history = made.write("features.history", lake.HISTORY, ("req", 12), lake.history(rng, 300)).rows
    training: dict[str, Any] = {"table": "ml.events"}
    key = ["request_id"]
    datasets: dict[str, Any] = {
        "plain": {"training": training, "key": key},
        "left": {"training": training, "key": key, "staging": [HISTORY]},
        "inner": {"training": training, "key": key, "staging": [{**HISTORY, "join": "inner"}]},
        "anti": {"training": training, "key": key, "staging": [{**HISTORY, "join": "anti"}]},
        "distinct": {"training": {**training, "distinct": {"by": ["request_id", "label"]}}, "key": key},
    }
    joined = lake.join(events, history, ("request_id", "req"))
    matched = set(kept(lake.join(events, history, ("request_id", "req"), inner=True)))
    known = {tuple(row[k] for k in ("request_id", "label")): row for row in reversed(events)}
    answers = {
        "plain": kept(events),
        "inner": sorted(matched),
        "anti": kept(events, lambda row: row["row"] not in matched),
        "distinct": kept(list(known.values())),
        "left": kept(joined, lambda row: row["country"] == "de" or (row["label"] or 0) > 0),
    }
    keys = made.folder / "keys"
    keys.write_text("k1 MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n")
    keys.chmod(0o600)
    with two(made.config(datasets), keys) as clients:
        yield Served(clients, answers)


class two:  # noqa: N801 - it reads as a function
    """Two servers with one key file, as replicas have it."""

    def __init__(self, config: Path, keys: Path) -> None:
        self._servers = [Server(config, "--ticket-keys", str(keys)) for _ in range(2)]

    def __enter__(self) -> list[flight.FlightClient]:
        self._clients = [flight.FlightClient(f"grpc://{s.__enter__().address}") for s in self._servers]
        return self._clients

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        for server in self._servers:
            server.kill()


FILTERS = {"left": "country = 'de' OR label > 0"}


def asked(name: str, **fields: Any) -> dict[str, Any]:
    query = {"dataset": name, "lanes": LANES, "columns": ["row"], **fields}
    return query | ({"filter": FILTERS[name]} if name in FILTERS else {})


def found(client: flight.FlightClient, query: dict[str, Any]) -> flight.FlightInfo:
    return client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(query)))


def read(client: flight.FlightClient, ticket: flight.Ticket) -> Shard:
    shard = Shard([], [], {})
    for chunk in client.do_get(ticket):
        said = json.loads(chunk.app_metadata.to_pybytes())
        if chunk.data is None:
            shard.report.update(said["report"])
            continue
        shard.batches.append(chunk.data.column("row").to_pylist())
        shard.cursors.append(said)
    assert shard.report["rows"] == sum(map(len, shard.batches))
    return shard


def read_all(client: flight.FlightClient, query: dict[str, Any]) -> list[Shard]:
    return [read(client, endpoint.ticket) for endpoint in found(client, query).endpoints]


# spec: order-16, order-17, step-7, step-9
@pytest.mark.parametrize("name", ["plain", "left", "inner", "anti", "distinct"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_end_at_the_same_step(served: Served, name: str, ranks: int) -> None:
    client, other = served.clients
    query = asked(name, shard={"of": ranks}, batch_rows=96 // ranks, tail="drop")
    plan = found(client, query)
    said = json.loads(plan.app_metadata)
    assert said["rows"] == len(served.answers[name])
    shards = [read(other, endpoint.ticket) for endpoint in plan.endpoints]
    assert {len(s.batches) for s in shards} == {said["steps"]}
    assert said["steps"] > 0
    assert {len(batch) for s in shards for batch in s.batches} == {96 // ranks}
    for shard, endpoint in zip(shards, plan.endpoints, strict=True):
        told = {"v": 1, "rows": shard.report["rows"], "batches": shard.report["batches"]}
        assert json.loads(endpoint.app_metadata) == told
    rows = Counter(row for s in shards for batch in s.batches for row in batch)
    assert rows <= Counter(served.answers[name])
    assert plan.total_records == rows.total()
    left = sum(lane["rows"] for s in shards for lane in s.report["leftover"])
    assert rows.total() + left == len(served.answers[name])


# spec: step-5, step-7
def test_exact_counts_of_every_row(served: Served) -> None:
    client = served.clients[0]
    for name, answer in served.answers.items():
        query = asked(name, shard={"of": 2}, batch_rows=100)
        if name != "plain":
            estimated = found(client, query)
            assert estimated.total_records == -1
            assert json.loads(estimated.app_metadata)["rows_unknown"]
        plan = found(client, {**query, "count": "exact"})
        assert plan.total_records == len(answer)
        shards = [read(client, endpoint.ticket) for endpoint in plan.endpoints]
        assert Counter(row for s in shards for batch in s.batches for row in batch) == Counter(answer)
        assert json.loads(plan.app_metadata)["steps"] == max(len(s.batches) for s in shards)


# spec: step-1, step-2, step-3
@pytest.mark.parametrize("name", ["plain", "left", "inner"])
@pytest.mark.parametrize("tail", ["keep", "drop"])
def test_workers_take_turns_and_resume(served: Served, name: str, tail: str) -> None:
    client, other = served.clients
    query = asked(name, shard={"of": 2}, batch_rows=20, tail=tail)
    whole = read_all(client, query)
    for rank, shard in enumerate(whole):
        workers = [
            read_all(client, {**query, "shard": {"index": rank, "of": 2}, "every": {"step": w, "of": 2}})[0]
            for w in range(2)
        ]
        in_turn = itertools.zip_longest(*(w.batches for w in workers))
        assert [b for turn in in_turn for b in turn if b is not None] == shard.batches
        in_turn = itertools.zip_longest(*(w.cursors for w in workers))
        assert [c for turn in in_turn for c in turn if c is not None] == shard.cursors
        assert [w.report["cursor"] for w in workers] == [shard.report["cursor"]] * 2
    # A job of 2 ranks with 2 workers each stops after 7 batches of each rank, and resumes with 4
    # ranks of 3.
    cursors = [shard.cursors[6] for shard in whole]
    rows = Counter(row for shard in whole for batch in shard.batches[:7] for row in batch)
    for w in range(3):
        resumed = {**query, "shard": {"of": 4}, "batch_rows": 10, "cursor": cursors}
        rest = read_all(other, {**resumed, "every": {"step": w, "of": 3}})
        rows += Counter(row for shard in rest for batch in shard.batches for row in batch)
    assert rows == Counter(row for shard in whole for batch in shard.batches for row in batch)
    if tail == "keep":
        assert rows == Counter(served.answers[name])


# spec: step-8
def test_abandoned_calls_do_not_harm_the_server(served: Served) -> None:
    client = served.clients[0]
    query = asked("left", tail="drop", seed=99, order="shuffled")
    descriptor = flight.FlightDescriptor.for_command(json.dumps(query))
    for seconds in (0.0001, 0.001, 0.01):
        with contextlib.suppress(flight.FlightTimedOutError, flight.FlightCancelledError):
            client.get_flight_info(descriptor, flight.FlightCallOptions(timeout=seconds))
    assert json.loads(found(client, query).app_metadata)["rows"] == len(served.answers["left"])
