"""Cursors as clients store them: in any form, and not edited."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

import lake
import pyarrow as pa
import pytest
from lake import Lake
from pyiceberg.types import LongType
from server import Server

import penstock

# The order of fields that the specification has, and those of the objects in a cursor.
FIELDS = [
    "v",
    "plan",
    "algorithm",
    "dataset",
    "filter",
    "sample",
    "since",
    "order",
    "shuffle",
    "shuffle_window",
    "shuffle_parts",
    "seed",
    "epoch",
    "lanes",
    "pin",
    "shard",
    "step",
    "rows",
    "requests",
    "uneven",
    "at",
    "counted",
]
INNER = [
    "hash",
    "by",
    "rate",
    "where",
    "training",
    "staging",
    "uuid",
    "snapshot",
    "schema",
    "mapping",
    "index",
    "of",
    "lane",
    "split",
    "window",
    "row",
    "rows",
    "shortest",
    "longest",
    "lanes",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Client]:
    made = Lake(tmp_path_factory.mktemp("cursors"))
    ids = [{"row": i, "request_id": i % 50} for i in range(1003)]
    made.write("ml.rows", {"row": LongType(), "request_id": LongType()}, ("request_id", 4), ids)
    made.write("features.scores", lake.SCORES, ("request_id", 8), lake.scores(random.Random(5), 50))
    scores = {
        "training": {"table": "ml.rows"},
        "key": ["request_id"],
        "staging": [{"table": "features.scores"}],
    }
    with Server(made.config({"scores": scores})) as server, penstock.connect(server.address) as client:
        yield client


def ordered(value: Any, names: list[str]) -> Any:
    """The same with the fields of objects in the order of the specification."""
    if isinstance(value, list):
        return [ordered(one, INNER) for one in value]
    if not isinstance(value, dict):
        return value
    at = {name: place for place, name in enumerate(names)}
    return {
        name: (
            {table: ordered(value[name][table], INNER) for table in sorted(value[name])}
            if name == "staging"
            else ordered(value[name], INNER)
        )
        for name in sorted(value, key=at.__getitem__)
    }


def checksum(cursor: dict[str, Any]) -> str:
    """The checksum by the specification alone, for cursors without unusual letters."""
    fields = {name: value for name, value in cursor.items() if name != "sum"}
    text = json.dumps(ordered(fields, FIELDS), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def begun(client: penstock.Client, **query: Any) -> tuple[dict[str, Any], pa.Table]:
    """A cursor, and the rows behind it."""
    stream = client.read("scores", batch_rows=100, **query)
    next(stream)
    cursor = copy.deepcopy(stream.cursor)
    assert isinstance(cursor, dict)
    return cursor, stream.read_all()


QUERIES: list[dict[str, Any]] = [
    {},
    {"filter": "row < 400 AND row <> 3"},
    {"order": "shuffled", "seed": -(2**63), "epoch": 3, "sample": {"rate": 0.5}},
    {"lanes": 2, "filter": "row <> 3", "count": "exact"},
]


@pytest.mark.parametrize("query", QUERIES)
# spec: cursor-2, cursor-26
def test_cursors_are_stored_in_any_form(client: penstock.Client, query: dict[str, Any]) -> None:
    cursor, rest = begun(client, **query)
    assert list(cursor)[-1] == "sum"
    assert cursor["sum"] == checksum(cursor)
    for stored in (
        json.dumps(cursor),
        json.dumps(cursor, sort_keys=True, indent=4),
        json.dumps(json.loads(json.dumps(cursor, sort_keys=True)), separators=(",", ":")),
        json.dumps(dict(reversed(list(cursor.items())))).encode(),
    ):
        again = client.read("scores", batch_rows=100, cursor=stored).read_all()
        assert again == rest


# spec: cursor-27
def test_edited_cursors_are_refused(client: penstock.Client) -> None:
    cursor, _ = begun(client, lanes=2, filter="row <> 3", count="exact")
    edits: list[dict[str, Any]] = [
        {"algorithm": 99},
        {"algorithm": 2},
        {"dataset": "0" * 32},
        {"filter": "row <> 4"},
        {"plan": "0" * 32},
        {"seed": 1},
        {"step": 2},
        {"rows": cursor["rows"] + 1},
        {"counted": {**cursor["counted"], "rows": cursor["counted"]["rows"] + 1}},
        {"sum": "0" * 16},
    ]
    for edit in edits:
        with pytest.raises(penstock.Invalid, match=r"edited|are impossible") as caught:
            client.read("scores", batch_rows=100, cursor={**cursor, **edit})
        assert [f.field.partition(".")[0] for f in caught.value.faults] == ["cursor"]
    for name in ("sum", "counted"):
        with pytest.raises(penstock.Invalid, match="the cursor was edited"):
            client.read("scores", cursor={k: v for k, v in cursor.items() if k != name})
    with pytest.raises(penstock.Invalid, match=r"cursor\.stpe: unknown field") as caught:
        client.read("scores", cursor={**cursor, "stpe": 3})
    assert len(caught.value.faults) == 1
    rounded = {**cursor, "pin": copy.deepcopy(cursor["pin"])}
    rounded["pin"]["training"]["snapshot"] = int(float(cursor["pin"]["training"]["snapshot"]))
    assert rounded != cursor, "the snapshot has more digits than a float"
    with pytest.raises(penstock.Invalid, match="the cursor was edited or damaged"):
        client.read("scores", cursor=rounded)


# spec: cursor-20
def test_error_names_a_cursors_other_algorithm(client: penstock.Client) -> None:
    cursor, _ = begun(client)
    for algorithm in (2, 99):
        other = {**cursor, "algorithm": algorithm}
        with pytest.raises(penstock.Invalid) as caught:
            client.read("scores", cursor={**other, "sum": checksum(other)})
        assert caught.value.differs == (f"algorithm ({algorithm}, not {cursor['algorithm']})",)
        assert f"plans by algorithm {algorithm}" in caught.value.remedy


@pytest.mark.parametrize("query", [{}, {"filter": "row >= 0"}])
# spec: cursor-6
def test_finished_cursor_has_the_number_of_rows(client: penstock.Client, query: dict[str, Any]) -> None:
    stream = client.read("scores", batch_rows=96, **query)
    rows = stream.read_all().num_rows
    assert rows % 96
    end = stream.cursor
    assert isinstance(end, dict)
    assert end["rows"] == rows
    assert end["step"] == -(-rows // 96)
    again = client.read("scores", batch_rows=7, cursor=end)
    assert again.read_all().num_rows == 0
    assert again.cursor == end
