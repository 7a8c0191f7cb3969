"""What the real server streams with `wire="indexed"`: expanded, it is the plain stream, batch for batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import lake
import pyarrow as pa
import pytest
from lake import Lake
from server import Server

import penstock

ROWS = 2000


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Client]:
    rng = random.Random(6)
    made = Lake(tmp_path_factory.mktemp("indexed"))
    made.write("ml.events", lake.EVENTS, ("request_id", 8), lake.events(rng, ROWS, 200), files=2)
    made.write("features.history", lake.HISTORY, ("req", 12), lake.history(rng, 200))
    scores = lake.scores(rng, 200)
    made.write("features.scores", lake.SCORES, ("request_id", 8), scores)
    again = [{**row, "score": -row["score"]} for row in scores]
    made.write("features.twice", lake.SCORES, ("request_id", 4), [*scores, *again])
    made.write("ml.views", lake.VIEWS, ("session", 12), lake.views(rng, 1000, 150))
    made.write("features.texts", lake.TEXTS, ("session", 16), lake.texts(rng, 150))
    items = {"table": "features.history", "key": {"request_id": "req"}}
    history = {**items, "matched_as": "known"}
    default = {"default": {"country": "??"}}
    staging: dict[str, list[dict[str, Any]]] = {
        "left": [history, {"table": "features.scores"}],
        "inner": [{**items, "join": "inner"}, {"table": "features.scores", "prefix": "s_"}],
        "default": [{**history, "missing": default, "name": "users"}],
        "all": [{"table": "features.twice", "duplicates": "all"}, history],
        "semi": [{"table": "features.scores", "join": "semi"}, history],
    }
    datasets: dict[str, Any] = {
        name: {"training": {"table": "ml.events"}, "key": ["request_id"], "staging": entries}
        for name, entries in staging.items()
    }
    datasets["text"] = {
        "training": {"table": "ml.views"},
        "key": ["session"],
        "staging": [{"table": "features.texts"}],
    }
    datasets["alone"] = {"training": {"table": "ml.events"}}
    with Server(made.config(datasets)) as server, penstock.connect(server.address) as client:
        yield client


Given = list[tuple[pa.RecordBatch, Any]]


def given(stream: penstock.Stream) -> Given:
    """All batches of a stream, each with the cursor after it."""
    return [(batch, stream.cursor) for batch in stream]


def levels(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_dictionary(field.type)]


def assert_expands_to(indexed: Given, plain: Given) -> None:
    assert [cursor for _, cursor in indexed] == [cursor for _, cursor in plain]
    for (batch, _), (want, _) in zip(indexed, plain, strict=True):
        got = penstock.expand(batch)
        got.validate(full=True)
        assert got.equals(want)
        assert got.schema.equals(want.schema, check_metadata=True)


SHAPED: list[Any] = [
    {"column": "last_items", "name": "recent", "last": 2},
    "row",
    {"column": "score", "as": "float32"},
    "known",
]


@pytest.mark.parametrize(
    ("dataset", "query", "expected"),
    [
        ("left", {}, ["history", "scores"]),
        ("left", {"columns": ["score", "row"]}, ["scores"]),
        ("left", {"columns": ["row", "known"]}, ["history"]),
        ("left", {"columns": ["label", "row"]}, []),
        ("left", {"columns": ["country", "score"]}, ["history", "scores"]),
        ("left", {"columns": SHAPED}, ["history", "scores"]),
        ("left", {"filter": "label = 1 AND country = 'de'"}, ["history", "scores"]),
        ("left", {"filter": "row < 0"}, ["history", "scores"]),
        ("left", {"order": "shuffled", "seed": 5, "lanes": 4, "shard": (1, 2)}, ["history", "scores"]),
        ("left", {"lanes": 4, "tail": "drop"}, ["history", "scores"]),
        ("left", {"batch_rows": 8192}, ["history", "scores"]),
        ("left", {"batch_rows": 1, "filter": "row < 40"}, ["history", "scores"]),
        ("inner", {}, ["history", "scores"]),
        ("default", {}, ["users"]),
        ("all", {}, ["twice", "history"]),
        ("semi", {"lanes": 2}, ["history"]),
        ("text", {"lanes": 3}, ["texts"]),
        ("alone", {}, []),
    ],
)
def test_expanded_stream_equals_the_plain_stream(
    client: penstock.Client, dataset: str, query: dict[str, Any], expected: list[str]
) -> None:
    query = {"batch_rows": 240, **query}
    plain, indexed = (
        client.read(dataset, wire="plain", **query),
        client.read(dataset, wire="indexed", **query),
    )
    want, got = given(plain), given(indexed)
    assert_expands_to(got, want)
    assert levels(indexed.schema) == expected
    assert client.schema(dataset, wire="indexed", **query) == indexed.schema
    for name in expected:
        assert not indexed.schema.field(name).nullable
        sent = sum(len(batch.column(name).dictionary) for batch, _ in got)
        assert indexed.report["staging"][name].get("sent", 0) == sent
        assert sent < indexed.report["rows"] or query["batch_rows"] == 1 or not got


@pytest.mark.parametrize("dataset", ["left", "default", "text"])
def test_each_wire_form_resumes_from_a_cursor_of_the_other(client: penstock.Client, dataset: str) -> None:
    query: dict[str, Any] = {"lanes": 4, "shard": (1, 2), "batch_rows": 60, "order": "shuffled"}
    plain = given(client.read(dataset, wire="plain", **query))
    indexed = given(client.read(dataset, wire="indexed", **query))
    for i in range(0, len(plain), 3):
        assert_expands_to(
            given(client.read(dataset, wire="indexed", **query, cursor=plain[i][1])), plain[i + 1 :]
        )
        assert_expands_to(
            indexed[i + 1 :], given(client.read(dataset, wire="plain", **query, cursor=indexed[i][1]))
        )


def test_dictionary_has_only_the_rows_that_a_batch_uses(client: penstock.Client) -> None:
    stream = client.read("left", wire="indexed", batch_rows=100)
    for batch in stream:
        for name in ("history", "scores"):
            level = batch.column(name)
            assert level.null_count == 0
            used = list(dict.fromkeys(level.indices.to_pylist()))
            assert used == list(range(len(level.dictionary)))
            assert level.dictionary.null_count == 0
    # A row without a match finds nulls, but its matched_as.
    assert {"last_items": None, "country": None, "known": False} in level_rows(client, "left", "history")
    assert {"last_items": None, "country": "??", "known": False} in level_rows(client, "default", "users")


def level_rows(client: penstock.Client, dataset: str, name: str) -> list[Any]:
    batches = list(client.read(dataset, wire="indexed"))
    return [row for batch in batches for row in batch.column(name).dictionary.to_pylist()]


def test_every_field_is_available_without_a_copy(client: penstock.Client) -> None:
    query: dict[str, Any] = {"columns": ["row", "known", "score"], "filter": "score >= 0"}
    plain = next(client.read("left", wire="plain", **query))
    level = next(client.read("left", wire="indexed", **query)).column("scores")
    scores = level.dictionary.field("score").to_numpy(zero_copy_only=True)
    at = level.indices.to_numpy(zero_copy_only=True)
    assert scores[at].tolist() == plain.column("score").to_pylist()


def test_expanded_draws_from_the_stream(client: penstock.Client) -> None:
    plain = client.read("left", wire="plain", batch_rows=240)
    want = given(plain)
    stream = client.read("left", wire="indexed", batch_rows=240)
    reader = stream.expanded()
    assert reader.schema.equals(plain.schema, check_metadata=True)
    for batch, cursor in want[:3]:
        assert reader.read_next_batch().equals(batch)
        assert stream.cursor == cursor
    assert reader.read_all() == pa.Table.from_batches([batch for batch, _ in want[3:]], plain.schema)
    assert stream.report["rows"] == ROWS
    # Of a plain stream it is the stream's own batches, and of indexed shards all of them.
    assert (
        client.read("left", wire="plain", batch_rows=240).expanded().read_all()
        == client.read("left", wire="plain", batch_rows=240).read_all()
    )
    shards = client.read("left", wire="indexed", shard={"of": 4})
    assert shards.expanded().read_all() == client.read("left", wire="plain", shard={"of": 4}).read_all()


def test_duplicate_column_names_are_refused(client: penstock.Client) -> None:
    query: dict[str, Any] = {"columns": [{"column": "row", "name": "history"}, "country"]}
    client.schema("left", **query)
    with pytest.raises(penstock.Invalid, match="history") as caught:
        client.read("left", wire="indexed", **query)
    assert [f.field for f in caught.value.faults] == ["wire"]
