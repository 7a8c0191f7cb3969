"""What the real server streams with `as: category`: codes of a dictionary, which each batch has of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lake import Lake
from local_host import Host
from pyiceberg.types import LongType, StringType
from server import Server

import penstock
from penstock import errors

ROWS = 3000
CATEGORY = pa.dictionary(pa.int32(), pa.string())


def rows(rng: random.Random) -> list[dict[str, Any]]:
    """Rows with a text of few values, and one that most rows have alone, so that its pages are plain."""
    return [
        {
            "row": i,
            "request_id": rng.randrange(200),
            "kind": rng.choice([None, "", "view", "click", "grüße"]) if i < ROWS // 2 else f"kind{i % 7}",
            "note": f"note {rng.random()}",
        }
        for i in range(ROWS)
    ]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(8)
    made = Lake(tmp_path_factory.mktemp("categories"))
    columns = {"row": LongType(), "request_id": LongType(), "kind": StringType(), "note": StringType()}
    made.write("ml.events", columns, ("request_id", 4), rows(rng), files=3)
    made.write("features.history", lake.HISTORY, ("req", 8), lake.history(rng, 150))
    entry = {"table": "features.history", "key": {"request_id": "req"}}
    other = {"row": LongType(), "request_id": LongType(), "kind": LongType()}
    made.write("ml.other", other, ("request_id", 4), [{"row": 1, "request_id": 1, "kind": 1}])
    dataset = {"training": {"table": "ml.events"}, "key": ["request_id"], "staging": [entry]}
    return made.config(
        {"d": dataset, "e": dataset, "other": {"training": {"table": "ml.other"}, "key": ["request_id"]}}
    )


@pytest.fixture(scope="module")
def client(config: Path) -> Iterator[penstock.Client]:
    with Server(config) as server, penstock.connect(server.address) as client:
        yield client


def columns(category: bool) -> list[Any]:
    """A training column, one renamed, a staging column, and one that stays a text."""
    more = {"as": "category"} if category else {}
    return [
        {"column": "kind", **more},
        {"column": "note", "name": "remark", **more},
        "row",
        {"column": "kind", "name": "text"},
        {"column": "country", **more},
    ]


def assert_category(column: pa.Array) -> None:
    """The dictionary has the values of the rows alone, in the order of their first row, and no null."""
    assert column.type == CATEGORY
    column.validate(full=True)
    assert column.dictionary.to_pylist() == list(
        dict.fromkeys(v for v in column.to_pylist() if v is not None)
    )


def assert_are_texts(categories: list[pa.RecordBatch], texts: list[pa.RecordBatch]) -> None:
    assert [batch.num_rows for batch in categories] == [batch.num_rows for batch in texts]
    for got, want in zip(categories, texts, strict=True):
        for name in ("kind", "remark", "country"):
            assert_category(got.column(name))
        assert got.to_pydict() == want.to_pydict()


@pytest.mark.parametrize(
    "fields",
    [
        {"batch_rows": 100},
        {"batch_rows": 100, "wire": "plain"},
        {"lanes": 4, "batch_rows": 64, "order": "shuffled", "seed": 3, "shuffle_window": 500},
        {"batch_rows": 30, "filter": "kind = 'view' AND row < 900"},
        {"batch_rows": 30, "filter": "kind IS NULL"},
        {"batch_rows": 30, "filter": "row < 0"},
    ],
)
# spec: wire-48, wire-49, wire-50
def test_categories_are_the_texts(client: penstock.Client, fields: dict[str, Any]) -> None:
    planned = client.plan("d", columns=columns(True), **fields)
    assert planned.id == client.plan("d", columns=columns(False), **fields).id
    with (
        client.read("d", columns=columns(True), **fields) as categories,
        client.read("d", columns=columns(False), **{**fields, "wire": "plain"}) as texts,
    ):
        assert categories.schema == planned.schema
        assert categories.schema.field("kind").type == CATEGORY
        assert categories.schema.field("text").type == pa.string()
        got, want = list(categories), list(texts)
        assert categories.cursor == texts.cursor
        assert_are_texts(got, want)


def test_dictionaries_are_replaced_in_each_batch(client: penstock.Client) -> None:
    with client.read("d", columns=columns(True), batch_rows=50) as stream:
        batches = list(stream)
    dictionaries = {tuple(batch.column("kind").dictionary.to_pylist()) for batch in batches}
    assert len(dictionaries) > 5
    # The values of a stream are found in a table of its batches, whatever their codes.
    table = pa.Table.from_batches(batches)
    assert set(pc.unique(table["kind"]).to_pylist()) == {row["kind"] for row in rows(random.Random(8))}
    frame = table.select(["kind"]).to_pandas()
    assert str(frame["kind"].dtype) == "category"


def test_streams_resume_with_other_forms(client: penstock.Client) -> None:
    with client.read("d", columns=columns(True), batch_rows=100) as stream:
        first = [next(stream) for _ in range(5)]
        saved = stream.cursor
    with client.read("d", columns=columns(False), batch_rows=100, wire="plain") as texts:
        want = list(texts)
    assert_are_texts(first, want[:5])
    with client.read("d", columns=columns(True), batch_rows=100, cursor=saved) as rest:
        assert_are_texts(list(rest), want[5:])
    with client.read("d", columns=columns(False), batch_rows=100, cursor=saved, wire="plain") as rest:
        assert [batch.to_pydict() for batch in rest] == [batch.to_pydict() for batch in want[5:]]


# spec: wire-39, local-4
def test_jobs_on_one_host_share_texts_and_categories(
    config: Path, tmp_path: Path, client: penstock.Client
) -> None:
    with client.read("d", columns=columns(False), batch_rows=100, wire="plain") as stream:
        want = list(stream)
    with Host(config, tmp_path) as host, host.connect() as near:
        streams = [
            near.read("d", columns=columns(category), batch_rows=100, wire="plain")
            for category in (True, False, True, False)
        ]
        got: list[list[pa.RecordBatch]] = [[] for _ in streams]
        for _ in want:
            for batches, one in zip(got, streams, strict=True):
                batches.append(next(one))
        for batches, one, category in zip(got, streams, (True, False, True, False), strict=True):
            assert list(one) == []
            one.close()
            if category:
                assert_are_texts(batches, want)
            else:
                assert batches == want


def test_refusals_say_what_to_do(client: penstock.Client) -> None:
    def refused(**fields: Any) -> errors.Invalid:
        with pytest.raises(errors.Invalid) as caught:
            client.plan("d", **fields)
        return caught.value

    assert "only texts have categories" in str(refused(columns=[{"column": "row", "as": "category"}]))
    assert "omit as: category" in str(
        refused(columns=[{"column": "country", "as": "category"}], wire="indexed")
    )
    assert "omit as: category" in str(
        refused(columns=[{"column": "kind", "as": "category"}], wire="grouped", batch_requests=5)
    )
    with client.read("d", columns=columns(True)[:4], wire="indexed", batch_rows=100) as stream:
        assert_category(next(stream).column("kind"))


# spec: mix-5, mix-21
def test_mixes_have_categories_of_their_own_batches(client: penstock.Client) -> None:
    def mixed(members: list[Any]) -> penstock.Mix:
        return penstock.mix(members, client=client, global_batch_rows=60)

    def member(name: str, category: bool, **more: Any) -> Any:
        return {"dataset": name, "weight": 1, "columns": columns(category), **more}

    with (
        mixed([member("d", True), member("e", True, filter="row >= 1500")]) as categories,
        mixed([member("d", False), member("e", False, filter="row >= 1500")]) as texts,
    ):
        assert categories.schema.field("kind").type == CATEGORY
        got, want = list(categories), list(texts)
        assert len(got) > 3
        assert {batch.schema == categories.schema for batch in got} == {True}
        assert_are_texts(got, want)
    with pytest.raises(errors.Invalid, match=r"column 'kind' is dictionary.* in 'd' and string in 'e'"):
        mixed([member("d", True), member("e", False)])
