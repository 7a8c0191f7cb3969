"""What the real server streams: every row of the join exactly once, resumable from any cursor."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pytest
from lake import Lake, Row
from server import Server

import penstock

ROWS = 3000
LONG = os.environ.get("PENSTOCK_LONG") == "1"
JOINED = ("left", "inner", "text")


@dataclass(frozen=True)
class Served:
    """A running server, a client of it, and the right answers by dataset."""

    address: str
    client: penstock.Client
    answers: dict[str, list[Row]]
    snapshots: dict[str, int]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    rng = random.Random(4)
    made = Lake(tmp_path_factory.mktemp("lake"))
    tables = {
        "ml.events": made.write(
            "ml.events", lake.EVENTS, ("request_id", 16), lake.events(rng, ROWS, 300), files=2
        ),
        "features.history": made.write(
            "features.history", lake.HISTORY, ("req", 12), lake.history(rng, 300), files=2
        ),
        "features.scores": made.write(
            "features.scores", lake.SCORES, ("request_id", 16), lake.scores(rng, 300)
        ),
        "ml.views": made.write("ml.views", lake.VIEWS, ("session", 12), lake.views(rng, 1000, 150)),
        "features.texts": made.write("features.texts", lake.TEXTS, ("session", 16), lake.texts(rng, 150)),
    }
    history = {"table": "features.history", "key": {"request_id": "req"}}
    scores = {"table": "features.scores"}
    training = {"table": "ml.events"}
    datasets: dict[str, Any] = {
        "left": {"training": training, "key": ["request_id"], "staging": [history, scores]},
        "inner": {
            "training": training,
            "key": ["request_id"],
            "staging": [{**history, "join": "inner"}, scores],
        },
        "text": {
            "training": {"table": "ml.views"},
            "key": ["session"],
            "staging": [{"table": "features.texts"}],
        },
        "plain": {"training": training},
        "gone": {"training": {"table": "ml.gone"}, "key": ["a"], "staging": [history]},
    }
    rows = {name: table.rows for name, table in tables.items()}
    keys = ("request_id", "req")

    def both(inner: bool) -> list[Row]:
        first = lake.join(rows["ml.events"], rows["features.history"], keys, inner=inner)
        return lake.join(first, rows["features.scores"], ("request_id", "request_id"))

    answers = {
        "left": both(False),
        "inner": both(True),
        "text": lake.join(rows["ml.views"], rows["features.texts"], ("session", "session")),
        "plain": rows["ml.events"],
    }
    with Server(made.config(datasets)) as server, penstock.connect(server.address) as client:
        yield Served(server.address, client, answers, {n: t.snapshot for n, t in tables.items()})


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["row"]))


def rows_of(batches: list[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_datasets(served: Served) -> None:
    found = {d.name: d for d in served.client.datasets()}
    assert sorted(found) == ["gone", "inner", "left", "plain", "text"]
    gone = found["gone"].error
    assert isinstance(gone, penstock.NotFound)
    assert "ml.gone" in str(gone)
    assert found["plain"].rows == ROWS
    assert found["left"].rows == ROWS
    assert found["inner"].rows is None
    assert found["inner"].plan is not None
    assert found["inner"].plan.rows_unknown
    assert found["text"].schema is not None
    assert found["text"].schema.names == ["row", "session", "label", "text", "words"]


def test_schema_and_types(served: Served) -> None:
    schema = served.client.schema("left")
    assert schema == served.client.plan("left").schema
    assert schema == pa.schema(
        [
            ("row", pa.int64()),
            ("request_id", pa.int64()),
            ("label", pa.int32()),
            ("price", pa.decimal128(12, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.field("element", pa.utf8()))),
            ("last_items", pa.list_(pa.field("element", pa.int64()))),
            ("country", pa.utf8()),
            ("score", pa.float64()),
        ]
    )


@pytest.mark.parametrize("dataset", [*JOINED, "plain"])
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_every_row_exactly_once(served: Served, dataset: str, shards: int) -> None:
    got: list[Row] = []
    for i in range(shards):
        with served.client.read(dataset, lanes=4, shard=(i, shards), batch_rows=256) as stream:
            rows = rows_of(list(stream))
            assert stream.report["rows"] == len(rows)
            got += rows
    assert in_order(got) == in_order(served.answers[dataset])


@pytest.mark.parametrize("dataset", JOINED)
def test_steps_have_the_same_rows_for_any_number_of_shards(served: Served, dataset: str) -> None:
    steps: list[list[list[Row]]] = []
    for shards in (1, 2, 4):
        streams = [
            served.client.read(dataset, lanes=4, shard=(i, shards), batch_rows=256 // shards)
            for i in range(shards)
        ]
        batches = [[batch.to_pylist() for batch in stream] for stream in streams]
        longest = max(len(b) for b in batches)
        steps.append(
            [in_order([row for b in batches for row in (b[t] if t < len(b) else [])]) for t in range(longest)]
        )
    assert steps[0] == steps[1] == steps[2]


@pytest.mark.parametrize("dataset", JOINED)
@pytest.mark.parametrize("shard", [(0, 1), (1, 2), (3, 4)])
def test_resumes_with_the_very_next_row_from_every_cursor(
    served: Served, dataset: str, shard: tuple[int, int]
) -> None:
    with served.client.read(dataset, lanes=4, shard=shard, batch_rows=200) as stream:
        got = [(batch.to_pylist(), json.dumps(stream.cursor)) for batch in stream]
    for i, (_, cursor) in enumerate(got):
        if not LONG and i % 3 and i != len(got) - 1:
            continue
        rest = [row for rows, _ in got[i + 1 :] for row in rows]
        # Another batch size may put the lanes' rows into another order.
        for batch_rows in (200, 72):
            again = served.client.read(dataset, shard=shard, cursor=cursor, batch_rows=batch_rows)
            rows = rows_of(list(again))
            assert (rows if batch_rows == 200 else in_order(rows)) == (
                rest if batch_rows == 200 else in_order(rest)
            )
        assert again.report["rows"] == len(rest)


@pytest.mark.parametrize("before", [1, pytest.param(2, marks=pytest.mark.more), 4])
@pytest.mark.parametrize("after", [1, pytest.param(2, marks=pytest.mark.more), 4])
@pytest.mark.parametrize(
    "order",
    [
        {"order": "shuffled"},
        {"order": "shuffled", "shuffle": "requests", "shuffle_window": 37},
        {"order": "shuffled", "shuffle": "rows", "shuffle_window": 150},
        {"order": "shuffled", "shuffle": "splits"},
    ],
)
def test_cursors_of_all_shards_resume_with_any_number_of_shards(
    served: Served, before: int, after: int, order: dict[str, Any]
) -> None:
    streams = [
        served.client.read("left", lanes=4, shard=(i, before), batch_rows=400 // before, seed=3, **order)
        for i in range(before)
    ]
    got: list[Row] = []
    for _ in range(3):
        got += [row for stream in streams for row in next(stream).to_pylist()]
    cursors = [stream.cursor for stream in streams]
    for stream in streams:
        stream.close()
    for i in range(after):
        rest = served.client.read("left", shard=(i, after), cursor=cursors)
        got += rows_of(list(rest))
    assert in_order(got) == in_order(served.answers["left"])


def test_several_shards_in_one_stream(served: Served) -> None:
    stream = served.client.read("text", shard={"of": 4}, lanes=8)
    rows = rows_of(list(stream))
    assert in_order(rows) == in_order(served.answers["text"])
    assert stream.report["rows"] == len(rows)
    assert len(stream.report["shards"]) == 4
    again = served.client.read("text", cursor=stream.cursor)
    assert again.read_all().num_rows == 0


def test_finished_cursor_gives_schema_no_batch_and_the_report(served: Served) -> None:
    stream = served.client.read("left", lanes=2)
    stream.read_all()
    again = served.client.read("left", cursor=stream.cursor)
    assert again.read_all().num_rows == 0
    assert again.report["rows"] == 0
    assert again.cursor == stream.cursor


def test_shuffled_order_depends_on_seed_and_epoch(served: Served) -> None:
    asked: dict[str, Any] = {"order": "shuffled", "seed": 11, "lanes": 4}
    first = rows_of(list(served.client.read("left", epoch=0, **asked)))
    again = rows_of(list(served.client.read("left", epoch=0, batch_rows=8192, **asked)))
    other = rows_of(list(served.client.read("left", epoch=1, **asked)))
    assert first == again
    assert first != other
    assert in_order(first) == in_order(other) == in_order(served.answers["left"])


def test_shuffled_rows_are_mixed_and_a_filter_leaves_their_order(served: Served) -> None:
    for shuffle in ("requests", "rows"):
        asked: dict[str, Any] = {"order": "shuffled", "shuffle": shuffle, "shuffle_window": 200, "seed": 5}
        mixed = [row["row"] for row in rows_of(list(served.client.read("left", **asked)))]
        splits = [
            row["row"]
            for row in rows_of(
                list(served.client.read("left", **{**asked, "shuffle": "splits", "shuffle_window": None}))
            )
        ]
        assert sorted(mixed) == sorted(splits)
        assert mixed != splits
        few = [row["row"] for row in rows_of(list(served.client.read("left", filter="label = 1", **asked)))]
        kept = set(few)
        assert few == [row for row in mixed if row in kept]
        assert 0 < len(few) < len(mixed)


def test_columns_and_filter(served: Served) -> None:
    asked = served.client.read(
        "left", columns=["score", "price", "row"], filter="label = 1 AND day >= DATE '2026-10-03'"
    )
    got = in_order(asked.read_all().to_pylist())
    right = [
        {"price": row["price"], "row": row["row"], "score": row["score"]}
        for row in served.answers["left"]
        if row["label"] == 1 and row["day"].day >= 3
    ]
    assert got == in_order(right)
    # Training columns as asked, then staging columns.
    assert list(got[0]) == ["price", "row", "score"]


def test_tail_drop_ends_all_shards_at_the_same_step(served: Served) -> None:
    streams = [
        served.client.read("left", lanes=4, shard=(i, 2), batch_rows=128, tail="drop") for i in range(2)
    ]
    got = [[batch.num_rows for batch in stream] for stream in streams]
    assert got[0] == got[1] == [128] * (ROWS // 256)
    left = sum(lane["rows"] for stream in streams for lane in stream.report["leftover"])
    assert left == ROWS - sum(map(sum, got))


def test_report_counts_matches(served: Served) -> None:
    stream = served.client.read("left")
    stream.read_all()
    counts = stream.report["staging"]["history"]
    keys = [row["request_id"] for row in served.answers["left"]]
    assert counts["null_keys"] == sum(key is None for key in keys)
    assert counts["matched"] == sum(key is not None and key % 3 != 0 for key in keys)
    assert counts["rows"] == ROWS


def test_plan_and_report_contain_the_sample(served: Served) -> None:
    asked: dict[str, Any] = {"sample": {"rate": 0.25, "where": "label=0"}, "columns": ["row", "label"]}
    plan = served.client.plan("left", **asked)
    assert plan.sample == {"rate": 0.25, "where": "label = 0"}
    stream = served.client.read("left", **asked)
    labels = stream.read_all().column("label").to_pylist()
    assert stream.report["sample"] == plan.sample
    stored = [row["label"] for row in served.answers["left"]]
    assert (labels.count(1), labels.count(None)) == (stored.count(1), stored.count(None))
    assert 0 < labels.count(0) < stored.count(0)
    assert served.client.plan("left").sample is None


def test_inline_dataset(served: Served) -> None:
    stream = served.client.read({"training": {"table": "ml.events"}}, columns=["row"])
    assert sorted(stream.read_all().column("row").to_pylist()) == list(range(ROWS))


def test_verify_counts_as_the_stream_does(served: Served) -> None:
    found = served.client.verify("left")
    assert {finding["grade"] for finding in found["findings"]} <= {"note"}
    assert found.clean
    assert [table.name for table in found.tables] == [table["name"] for table in found["tables"]]
    with served.client.read("left") as stream:
        for _ in stream:
            pass
        assert stream.report is not None
        counts = stream.report["staging"]
    for table in found["tables"][1:]:
        join = table["join"]
        assert (join["training_rows"], join["matched"]) == (
            counts[table["name"]]["rows"],
            counts[table["name"]]["matched"],
        )
        assert all(file["bucketed"] and file["wrong"] == 0 for file in table["files"])


def test_manifest_reads_the_same_rows_again(served: Served) -> None:
    asked: dict[str, Any] = {"lanes": 2, "seed": 5, "order": "shuffled", "columns": ["row", "country"]}
    manifest = served.client.manifest("left", **asked)
    assert manifest["pin"]["training"]["snapshot"] == served.snapshots["ml.events"]
    assert manifest["plan"] == served.client.plan("left", **asked).id
    assert [c["name"] for c in manifest["columns"]] == ["row", "country"]
    again = served.client.read(**manifest["query"])
    assert rows_of(list(again)) == rows_of(list(served.client.read("left", **asked)))


def test_explain(served: Served) -> None:
    text = served.client.explain("left", lanes=4)
    assert served.client.plan("left", lanes=4).id in text
    assert "features.history" in text
    scaled = served.client.explain("left", lanes=4, batch_rows=64, scale="trainers=4,step=20ms")
    assert "64 rows / 20ms" in scaled
    with pytest.raises(penstock.Invalid, match="trainer"):
        served.client.explain("left", scale="trainer=4,step=20ms")


def test_pin_of_a_plan_fixes_what_is_read(served: Served) -> None:
    plan = served.client.plan("left")
    assert plan.pin["staging"]["history"]["snapshot"] == served.snapshots["features.history"]
    assert served.client.plan("left", snapshots=plan.pin).id == plan.id


def test_plain_pyarrow_example_works_without_the_package(served: Served) -> None:
    script = Path(__file__).parents[1] / "examples" / "plain_pyarrow.py"
    for dataset in ("left", "text"):
        done = subprocess.run(
            [sys.executable, str(script), served.address, dataset, "--batch-rows", "256"],
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "4 shards give every row exactly once: yes" in done.stdout
        assert "NO" not in done.stdout
    assert "import penstock" not in script.read_text()


@pytest.mark.parametrize("size", [{"global_batch_rows": 400_000}, {"batch_requests": 100_000}])
def test_a_plan_that_drops_all_rows_warns(served: Served, size: dict[str, int]) -> None:
    query: dict[str, Any] = {"lanes": 4, "shard": (1, 2), "tail": "drop", **size}
    with pytest.warns(
        UserWarning, match=r"'left' has no step: .* of each of 4 lanes\. Set a smaller .*batch"
    ):
        stream = served.client.read("left", **query)
    with stream:
        assert list(stream) == []
    assert served.client.plan("left", filter="FALSE", **query).steps == 0  # without a warning
