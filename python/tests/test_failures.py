"""How the real server fails, and what becomes of it here."""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lake
import pytest
from lake import Lake, Row
from pyiceberg.types import ListType, LongType
from server import Server
from test_fork import in_child

import penstock

# Far more than a transport holds for a reader that waits: 8000 rows of 8 KB.
WIDE_ROWS, WIDE = 8000, 1000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of tables that fit and of some that do not."""
    rng = random.Random(5)
    made = Lake(tmp_path_factory.mktemp("failing"))
    ids = [{"row": i, "request_id": i % 50} for i in range(WIDE_ROWS)]
    longs = {"row": LongType(), "request_id": LongType()}
    made.write("ml.rows", longs, ("request_id", 4), ids)
    wide: list[Row] = [{"request_id": r, "wide": [rng.randrange(2**60)] * WIDE} for r in range(50)]
    wide_type = ListType(element_id=900, element_type=LongType(), element_required=False)
    made.write("features.wide", {"request_id": LongType(), "wide": wide_type}, ("request_id", 4), wide)
    big: list[Row] = [{"request_id": r, "wide": [rng.randrange(2**60)] * 2000} for r in range(400)]
    made.write("features.big", {"request_id": LongType(), "wide": wide_type}, ("request_id", 4), big)
    made.write("features.scores", lake.SCORES, ("request_id", 8), lake.scores(rng, 40))
    made.write("features.texts", lake.TEXTS, ("session", 4), lake.texts(rng, 40))
    twice = lake.scores(rng, 40)
    made.write("features.twice", lake.SCORES, ("request_id", 4), [*twice, twice[3]])
    return made


def dataset(staging: str, **fields: Any) -> dict[str, Any]:
    entry = {"table": staging, **fields}
    return {"training": {"table": "ml.rows"}, "key": ["request_id"], "staging": [entry]}


@pytest.fixture(scope="module")
def config(made: Lake) -> Path:
    datasets = {"wide": dataset("features.wide"), "scores": dataset("features.scores")}
    return made.config({**datasets, "rows": {"training": {"table": "ml.rows"}}})


@pytest.fixture(scope="module")
def client(config: Path) -> Iterator[penstock.Client]:
    with Server(config) as server, penstock.connect(server.address) as client:
        yield client


@pytest.mark.parametrize(
    ("name", "query", "field", "texts"),
    [
        ("scores", {"batchrows": 5}, "batchrows", ["batch_rows"]),
        ("scores", {"sample": 0.5}, "sample", ["an object"]),
        ("scores", {"since": 0}, "since", ["at least 1"]),
        ("scores", {"start": "warm"}, "start", ["not supported"]),
        ("scores", {"wire": "grouped"}, "wire", ["batch_requests"]),
        ("scores", {"columns": ["row", "scroe"]}, "columns[1]", ["scroe", "score"]),
        ("scores", {"filter": "row = = 3"}, "filter", ["position 7"]),
        ("scores", {"filter": "row = 'a'"}, "filter", ["row"]),
        ("scores", {"shard": (4, 4)}, "shard.index", ["out of range"]),
        ("scores", {"shard": (0, 3), "lanes": 4}, "shard.of", ["3", "4"]),
        ("scores", {"lanes": 4, "batch_rows": 10}, "batch_rows", ["multiple of 4"]),
        ("scores", {"order": "sorted"}, "order", ["shuffled"]),
        ("scores", {"cursor": {"v": 1}}, None, ["cursor"]),
        (dataset("features.texts", strategy="hash"), {}, "dataset.staging[0].strategy", ["merge"]),
        (dataset("features.texts", key={"request_id": "session"}), {}, None, ["request_id", "session"]),
        (dataset("features.scores", joyn="left"), {}, "dataset.staging[0].joyn", ["join"]),
    ],
)
def test_invalid_names_field_and_remedy(
    client: penstock.Client, name: Any, query: dict[str, Any], field: str | None, texts: list[str]
) -> None:
    with pytest.raises(penstock.Invalid) as caught:
        client.read(name, **query)
    if field is not None:
        assert field in [f.field for f in caught.value.faults]
    for text in texts:
        assert text in str(caught.value)


def test_every_fault_is_reported(client: penstock.Client) -> None:
    wrong: dict[str, Any] = {"seeed": 1, "order": "random", "lanes": 0}
    with pytest.raises(penstock.Invalid) as caught:
        client.explain("scores", **wrong)
    faults = {f.field: f for f in caught.value.faults}
    assert set(faults) == {"seeed", "order", "lanes"}
    assert faults["seeed"].nearest == "seed"
    with pytest.raises(penstock.Invalid) as caught:
        client.schema("scores", filter="row = = 3")
    assert [(f.field, f.position) for f in caught.value.faults] == [("filter", 7)]


@pytest.mark.parametrize(
    ("name", "query", "text"),
    [
        ("scoers", {}, "scores"),
        ({"training": {"table": "ml.rws"}}, {}, "ml.rws"),
        (dataset("features.none"), {}, "features.none"),
        ({"training": {"table": "ml.rows", "ref": "maine"}}, {}, "maine"),
        ({"training": {"table": "ml.rows", "snapshot": 7}}, {}, "7"),
    ],
)
def test_not_found_names_what_is_not_there(
    client: penstock.Client, name: Any, query: dict[str, Any], text: str
) -> None:
    for call in (client.read, client.plan, client.schema, client.explain, client.manifest):
        with pytest.raises(penstock.NotFound) as caught:
            call(name, **query)
        assert text in str(caught.value)


def test_duplicate_staging_key_fails_the_stream(client: penstock.Client) -> None:
    stream = client.read(dataset("features.twice"))
    with pytest.raises(penstock.Error, match="several rows of twice have the key request_id=4") as caught:
        stream.read_all()
    assert type(caught.value) is penstock.Invalid
    assert "duplicates: first" in caught.value.remedy


def test_foreign_cursor_is_refused_with_what_differs(client: penstock.Client) -> None:
    with client.read("scores", lanes=2, batch_rows=100) as stream:
        next(stream)
        cursor = stream.cursor
    others: dict[str, Any] = {"order": "shuffled", "seed": 3, "epoch": 1, "filter": "row < 3"}
    for field, value in others.items():
        with pytest.raises(penstock.Invalid, match="but the cursor has") as caught:
            client.read("scores", cursor=cursor, **{field: value})
        assert [f.field for f in caught.value.faults] == [field]
        assert f"leave {field} out" in str(caught.value)
    with pytest.raises(penstock.Invalid) as caught:
        client.read(dataset("features.scores", join="inner"), cursor=cursor)
    assert any(d.startswith("dataset") for d in caught.value.differs)
    with client.read("wide", cursor=cursor, columns=["request_id"]) as stream:
        resumed = stream.read_all()
    with client.read("scores", cursor=cursor, columns=["request_id"]) as stream:
        assert resumed == stream.read_all(), "a left entry decides no rows"
    with pytest.raises(penstock.Invalid, match="lanes"):
        client.read("scores", cursor=cursor, lanes=4)


def test_damaged_files_fail_the_stream_by_name(tmp_path: Path) -> None:
    made = Lake(tmp_path / "lake")
    rows = [{"request_id": i, "score": i / 7} for i in range(5000)]
    for name in ("ml.missing", "ml.truncated", "ml.flipped"):
        table = made.write(name, lake.SCORES, ("request_id", 2), rows)
        file = table.files()[-1]
        content = bytearray(file.read_bytes())
        if name == "ml.missing":
            file.unlink()
        elif name == "ml.truncated":
            file.write_bytes(content[: len(content) // 2])
        else:
            content[4:20] = bytes(16)  # where the first page begins
            file.write_bytes(content)
    with Server(made.config({})) as server, penstock.connect(server.address) as client:
        for name in ("ml.missing", "ml.truncated", "ml.flipped"):
            with pytest.raises(penstock.Corrupt) as caught:
                client.read({"training": {"table": name}}).read_all()
            assert caught.value.table == name
            assert caught.value.file.endswith(".parquet")


def test_streams_wait_for_slots(config: Path) -> None:
    """A stream whose client reads nothing releases its slot, and resumes with its next row."""
    with (
        Server(config, "--max-streams", "1") as server,
        penstock.connect(server.address, lookahead=0) as client,
        client.read("wide", batch_rows=64) as first,
    ):
        rows = next(first).column("row").to_pylist()
        assert client.read("rows").read_all().num_rows > 0
        for batch in first:
            rows += batch.column("row").to_pylist()
        assert len(set(rows)) == len(rows) == WIDE_ROWS


def test_too_little_memory_is_exhausted(config: Path) -> None:
    with Server(config, "--memory", "1MiB") as server, penstock.connect(server.address) as client:
        with pytest.raises(penstock.Exhausted) as caught:
            client.read(dataset("features.big")).read_all()
        assert caught.value.remedy


def test_stream_resumes_after_a_killed_server_is_replaced(config: Path) -> None:
    with Server(config) as server, penstock.connect(server.address, reconnect=0) as client:
        stream = client.read("wide", lanes=2, batch_rows=64)
        planned_before = client.read("rows")
        got = [row for _ in range(3) for row in next(stream).column("row").to_pylist()]
        server.kill()
        with pytest.raises(penstock.Unavailable):
            # What the transport had at hand still comes, with its cursors.
            while True:
                got += next(stream).column("row").to_pylist()
        assert len(got) < WIDE_ROWS
        with pytest.raises(penstock.Unavailable):
            next(stream)
        with pytest.raises(penstock.Invalid, match="no report"):
            _ = stream.report
        with pytest.raises(penstock.Unavailable):
            client.plan("wide")
        with Server(config, listen=server.address):
            rest = client.read("wide", cursor=stream.cursor)
            got += rest.read_all().column("row").to_pylist()
            assert sorted(got) == list(range(WIDE_ROWS))
            # The successor signs with another key.
            with pytest.raises(penstock.Expired):
                next(planned_before)


def test_ticket_of_a_changed_dataset_is_expired(made: Lake, tmp_path: Path) -> None:
    keys = tmp_path / "tickets.keys"
    keys.write_text("k1 " + base64.b64encode(os.urandom(32)).decode() + "\n")
    keys.chmod(0o600)
    before = made.config({"d": dataset("features.scores")}, "before.yaml")
    after = made.config({"d": dataset("features.scores", join="inner")}, "after.yaml")
    with (
        Server(before, "--ticket-keys", str(keys)) as server,
        penstock.connect(server.address, reconnect=0) as client,
    ):
        stale, unchanged = client.read("d"), client.read({"training": {"table": "ml.rows"}})
        server.kill()
        with pytest.raises(penstock.Unavailable):
            client.plan("d")
        with Server(after, "--ticket-keys", str(keys), listen=server.address):
            with pytest.raises(penstock.Expired, match="configuration"):
                next(stale)
            assert unchanged.read_all().num_rows == WIDE_ROWS


def test_terminated_server_lets_a_stream_finish_that_cannot_move(config: Path) -> None:
    with Server(config) as server, penstock.connect(server.address, reconnect=0) as client:
        stream = client.read("wide", batch_rows=64)
        next(stream)
        server.terminate()
        assert 64 + stream.read_all().num_rows == WIDE_ROWS
        assert stream.report["rows"] == WIDE_ROWS
        assert server.wait() == 0


def test_dropped_stream_frees_the_server(config: Path) -> None:
    with Server(config, "--max-streams", "1") as server, penstock.connect(server.address) as client:
        for _ in range(3):
            stream = client.read("wide", batch_rows=64)
            while True:
                try:
                    next(stream)
                    break
                except penstock.Exhausted:  # the one before is being ended
                    stream = client.read("wide", batch_rows=64)
            del stream


def test_forked_child_reads(client: penstock.Client) -> None:
    assert client.read("scores").read_all().num_rows == WIDE_ROWS

    def work() -> None:
        assert client.read("scores").read_all().num_rows == WIDE_ROWS

    assert in_child(work) == 0
    assert client.read("scores").read_all().num_rows == WIDE_ROWS
