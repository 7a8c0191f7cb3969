"""Evaluation over splits, and manifests: against the rows that were written, with kills in between."""

from __future__ import annotations

import io
import json
import math
import multiprocessing
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake import Row
from pyiceberg.io.pyarrow import schema_to_pyarrow
from server import Server
from test_splits import COLUMNS, FILTER, ROWS, World, make

import penstock

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(Path(tmp_path_factory.mktemp("evaluation")))


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    with Server(world.config) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[penstock.Client]:
    with penstock.connect(server.address) as client:
        yield client


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A lake to which tests append rows."""
    return make(Path(tmp_path_factory.mktemp("moving")))


def rows_of(split: penstock.Split) -> list[Row]:
    """The rows of a split; also in another process."""
    with split.read() as stream:
        rows: list[Row] = stream.read_all().to_pylist()
    assert split.rows in (None, len(rows))
    return rows


def by_row(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["row"]))


def commit(world: World, rows: int) -> None:
    """Appends rows that no run which began before has."""
    extra = [{**dict.fromkeys(lake.EVENTS), "row": 10**6 + i, "request_id": i} for i in range(rows)]
    world.table.refresh()
    world.table.append(pa.Table.from_pylist(extra, schema_to_pyarrow(world.table.schema())))


@pytest.mark.parametrize(
    "fields", [{}, {"filter": FILTER}, {"order": "shuffled", "shuffle": "splits", "seed": 3, "wire": "plain"}]
)
def test_splits_in_any_order_have_every_row_once(
    world: World, client: penstock.Client, fields: dict[str, Any]
) -> None:
    splits = client.read_splits("d", columns=COLUMNS, batch_rows=30, **fields)
    assert len(splits) == splits.plan.splits > 10
    assert repr(splits) == f"<penstock.Splits of d: {len(splits)} splits of plan {splits.plan.id}>"
    assert splits.schema == client.schema("d", columns=COLUMNS)
    assert [split.number for split in splits[3:5]] == [3, 4]
    kept = [
        world.rows[k] for k in sorted(world.rows) if "filter" not in fields or world.rows[k]["label"] != 0
    ]
    backwards = [row for split in reversed(splits) for row in rows_of(split)]
    assert by_row(backwards) == kept
    whole = client.read("d", columns=COLUMNS, batch_rows=30, **fields).read_all().to_pylist()
    assert [row for split in splits for row in rows_of(split)] == whole
    by_name = {split.name: rows for split, rows in splits.map(lambda s: s.read_all().to_pylist(), threads=3)}
    assert [row for split in splits for row in by_name[split.name]] == whole
    again = client.read_splits("d", columns=COLUMNS, snapshots=splits.plan.pin, **fields)
    assert [split.name for split in again] == [split.name for split in splits]
    assert len({split.name for split in splits}) == len(splits)


def test_splits_are_read_by_other_processes(world: World, client: penstock.Client) -> None:
    splits = client.read_splits("d", columns=COLUMNS)
    assert repr(splits[0]) == f"<penstock.Split 0 of d: {splits[0].rows} rows>"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        rows = [row for part in pool.imap_unordered(rows_of, splits) for row in part]
    assert by_row(rows) == [world.rows[k] for k in sorted(world.rows)]


@pytest.mark.parametrize("fields", [{}, {"filter": FILTER}])
def test_splits_can_be_read_after_their_server_is_gone(world: World, fields: dict[str, Any]) -> None:
    with Server(world.config) as first, penstock.connect(first.address, reconnect=60) as client:
        splits = client.read_splits("d", columns=COLUMNS, **fields)
        want = rows_of(splits[4])
        half = splits[5].read()
        expected = splits[5].read().read_all()
        first.kill()
        with Server(world.config, listen=first.address) as second:
            assert rows_of(splits[4]) == want
            assert half.read_all() == expected
            second.kill()
            with Server(world.config, listen=first.address):
                # The first call of a connection that is gone, too.
                assert len(client.read_splits("d", columns=COLUMNS, **fields)) == len(splits)
                assert rows_of(splits[4]) == want


def test_fields_that_cannot_be_combined_with_splits(client: penstock.Client) -> None:
    wrongs: list[dict[str, Any]] = [{"lanes": 2}, {"shard": {"of": 2}}, {"limit": 3}, {"endpoints": "shards"}]
    for wrong in wrongs:
        with pytest.raises(penstock.Invalid):
            client.read_splits("d", **wrong)
    assert len(client.read_splits("d", filter="row > 1000000000")) >= 0
    with pytest.raises(penstock.Invalid, match="threads"):
        client.read_splits("d").map(len, threads=0)


def test_failure_closes_the_other_streams(client: penstock.Client) -> None:
    splits = client.read_splits("d", columns=COLUMNS)
    begun: list[int] = []

    def fails(stream: penstock.Stream) -> int:
        begun.append(next(stream).num_rows)
        if len(begun) == 3:
            raise ZeroDivisionError
        return stream.read_all().num_rows

    with pytest.raises(ZeroDivisionError):
        list(splits.map(fails, threads=2))
    assert len(begun) <= 5
    results = splits.map(lambda stream: stream.read_all().num_rows, threads=2)
    next(results)
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["the function", "the stream"])
def test_a_failure_names_its_split(client: penstock.Client, tmp_path: Path, how: str) -> None:
    splits = client.read_splits("d", columns=COLUMNS)
    failing = splits[2].number

    def fails(stream: penstock.Stream) -> pa.Table:
        table = count(stream)
        if stream._readings[0].endpoint.splits == splits[failing].ids:
            if how == "the function":
                raise ZeroDivisionError
            stream.read_all()  # again
        return table

    named = f"This was {splits[failing]!r}."
    expected = ZeroDivisionError if how == "the function" else penstock.Invalid
    with pytest.raises(expected) as raised:
        client.evaluate("d", tmp_path / "run", fails, columns=COLUMNS, threads=2)
    assert raised.value.__notes__ == [named]
    with pytest.raises(expected) as raised:
        list(splits.map(fails, threads=1))
    assert raised.value.__notes__ == [named]


def count(stream: penstock.Stream) -> pa.Table:
    """Rows by label."""
    labels = Counter(label for batch in stream for label in batch.column("label").to_pylist())
    return pa.table({"label": list(labels), "rows": list(labels.values())})


def labels_of(evaluation: penstock.Evaluation) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in evaluation.table().to_pylist():
        found[row["label"]] += row["rows"]
    return found


def test_each_split_has_a_file_of_its_own(world: World, client: penstock.Client, tmp_path: Path) -> None:
    want = Counter(row["label"] for row in world.rows.values())
    folder = tmp_path / "deep" / "results"
    done = client.evaluate("d", folder, count, columns=["label"], threads=3)
    assert labels_of(done) == want
    assert (done.read, done.rows) == (len(done.files), ROWS)
    assert sorted(folder.iterdir()) == sorted([*done.files, folder / "manifest.json"])
    of = json.loads(pq.read_schema(done.files[2]).metadata[b"penstock"])
    assert of["plan"] == done.manifest["plan"]
    assert len(of["splits"]) == 1
    assert of["report"]["rows"] == sum(pq.read_table(done.files[2]).column("rows").to_pylist())
    before = {file: file.stat().st_mtime_ns for file in done.files}
    done.files[3].unlink()
    again = client.evaluate("d", folder, count, columns=["label"])
    assert (again.read, again.files, labels_of(again)) == (1, done.files, want)
    assert {f: f.stat().st_mtime_ns for f in done.files if f != done.files[3]} == {
        f: at for f, at in before.items() if f != done.files[3]
    }


# spec: output-6
def test_file_of_another_split_is_refused(client: penstock.Client, tmp_path: Path) -> None:
    """Each time by name; the file stays unchanged."""
    folder = tmp_path / "results"
    done = client.evaluate("d", folder, count, columns=["label"])
    other = client.evaluate("d", tmp_path / "other", count, columns=["label"], filter=FILTER)
    first, second = done.files[:2]
    whole = first.read_bytes()
    table = pq.read_table(first)
    about = json.loads(table.schema.metadata[b"penstock"])

    def written(change: dict[str, Any]) -> bytes:
        text = json.dumps({**about, **change}).encode()
        out = io.BytesIO()
        pq.write_table(table.replace_schema_metadata({b"penstock": text}), out)
        return out.getvalue()

    foreign = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(), foreign)
    wrongs = [
        (b"PAR1", "cannot be read as Parquet"),
        (b"", "cannot be read as Parquet"),
        (whole[:-1], "cannot be read as Parquet"),
        (whole[: len(whole) // 2], "cannot be read as Parquet"),
        (whole[:4] + whole[40:], "parts of it are missing"),
        (b"\0\0\0\0" + whole[4:], "parts of it are missing"),
        (foreign.getvalue(), "has no description of its split"),
        (written({"report": 3}), "has no description of its split"),
        (written({"report": {}}), "has no description of its split"),
        (second.read_bytes(), "it belongs to another split"),
        (other.files[0].read_bytes(), f"it belongs to plan {other.manifest['plan']}"),
        (written({"report": {"rows": 10**6}}), "it has results of 1000000 rows, and the split has"),
    ]
    for content, why in wrongs:
        first.write_bytes(content)
        with pytest.raises(
            penstock.Corrupt, match=f"{re.escape(str(first))} is not .*{why}.*move or delete it"
        ) as e:
            client.evaluate("d", folder, count, columns=["label"])
        assert e.value.file == str(first)
        assert first.read_bytes() == content
    first.unlink()
    first.mkdir()
    for file in done.files[1:8]:
        file.write_bytes(b"PAR1")
    with pytest.raises(penstock.Corrupt, match=r"it is not a regular file.*and 3 more; check it"):
        client.evaluate("d", folder, count, columns=["label"])
    first.rmdir()
    first.write_bytes(whole)
    for file in done.files[1:8]:
        file.unlink()
    assert client.evaluate("d", folder, count, columns=["label"]).read == 7


# spec: output-6
def test_a_result_that_changed_on_disk_is_named(client: penstock.Client, tmp_path: Path) -> None:
    """Its footer is whole; the checksums of its pages show it."""
    done = client.evaluate("d", tmp_path, count, columns=["label"])
    file = done.files[1]
    whole = file.read_bytes()
    chunk = pq.read_metadata(file).row_group(0).column(0)
    last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1
    file.write_bytes(whole[:last] + bytes([whole[last] ^ 1]) + whole[last + 1 :])
    with pytest.raises(penstock.Corrupt, match=f"{re.escape(str(file))} cannot be read.*move or delete") as e:
        done.table()
    assert e.value.file == str(file)
    file.write_bytes(whole)
    assert done.table().num_rows > 0


def test_jobs_share_a_folder(world: World, client: penstock.Client, tmp_path: Path) -> None:
    parts = [client.evaluate("d", tmp_path, count, columns=["label"], part=(i, 3)) for i in range(3)]
    assert sum(len(part.files) for part in parts) == len({file for part in parts for file in part.files})
    found = sum((labels_of(part) for part in parts), Counter[Any]())
    assert found == Counter(row["label"] for row in world.rows.values())
    wrongs: list[Any] = [
        (3, 3),
        (0, 0),
        (-1, 2),
        (1,),
        5,
        None,
        (0, 1, 2),
        ("0", "2"),
        (0.0, 2),
        (False, True),
    ]
    for wrong in wrongs:
        with pytest.raises(penstock.Invalid, match=r"part: must be \(index, of\)"):
            client.evaluate("d", tmp_path, count, columns=["label"], part=wrong)


@pytest.mark.parametrize(
    "made", [pl.DataFrame, lambda s: s.to_pandas(), lambda s: next(iter([s.read_all()]))]
)
def test_results_of_any_library(client: penstock.Client, tmp_path: Path, made: Any) -> None:
    done = client.evaluate("d", tmp_path, made, columns=["row"])
    assert sorted(done.table().column("row").to_pylist()) == list(range(ROWS))


def test_results_that_are_not_tables_are_refused(client: penstock.Client, tmp_path: Path) -> None:
    client.evaluate("d", tmp_path / "a", count, columns=["label"])
    others: list[tuple[str, dict[str, Any]]] = [
        (r"columns: \['label'\] then, \['label', 'row'\] now", {"columns": ["label", "row"]}),
        ("filter: not given then, label", {"columns": ["label"], "filter": FILTER}),
        (
            "order: not given then, shuffled now",
            {"columns": ["label"], "order": "shuffled", "shuffle": "splits"},
        ),
    ]
    for differs, other in others:
        with pytest.raises(
            penstock.Invalid, match=f"results of another run, with a different value of {differs}"
        ):
            client.evaluate("d", tmp_path / "a", count, **other)
    with pytest.raises(
        penstock.Invalid, match="another run, with a different value of dataset: d then, e now"
    ):
        client.evaluate("e", tmp_path / "a", count)
    with pytest.raises(penstock.Invalid, match="before it had read its stream to its end"):
        client.evaluate("d", tmp_path / "b", lambda stream: next(stream), batch_rows=3)
    with pytest.raises(penstock.Invalid, match="returned int"):
        client.evaluate("d", tmp_path / "b", lambda stream: stream.read_all().num_rows)
    assert [file.name for file in (tmp_path / "b").iterdir()] == ["manifest.json"]
    file = tmp_path / "b" / "manifest.json"
    manifest = json.loads(file.read_text())
    for name in ("query", "dataset", "pin", "plan", "columns"):
        for wrong in ({**manifest, name: 3}, {k: v for k, v in manifest.items() if k != name}):
            file.write_text(json.dumps(wrong))
            with pytest.raises(penstock.Invalid, match=f"{re.escape(str(file))} has no {name}"):
                client.evaluate("d", tmp_path / "b", count)
    for text, why in (("{", "cannot be read"), ("[]", "is not an object")):
        file.write_text(text)
        with pytest.raises(penstock.Invalid, match=f"{re.escape(str(file))} {why}"):
            client.evaluate("d", tmp_path / "b", count)
    (tmp_path / "dangling").symlink_to("nowhere")
    for folder in (file, file / "deeper", tmp_path / "dangling"):
        with pytest.raises(penstock.Invalid, match=f"{re.escape(str(folder))} .*is not a folder"):
            client.evaluate("d", folder, count)


def run(example: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


@pytest.mark.more
def test_killed_polars_evaluation_resumes(tmp_path: Path) -> None:
    """It is killed as soon as some results exist, and rows are committed before it resumes."""
    world = make(tmp_path / "lake")
    folder = tmp_path / "results"
    with Server(world.config) as server:
        with run("evaluate_polars.py", server.address, "d", str(folder)) as job:
            while job.poll() is None and len(list(folder.glob("*.parquet"))) < 3:
                time.sleep(0.001)
            job.kill()
        before = {file: file.stat().st_mtime_ns for file in folder.glob("*.parquet")}
        assert len(before) >= 3
    commit(world, 50)
    with Server(world.config) as server, run("evaluate_polars.py", server.address, "d", str(folder)) as job:
        assert job.stdout is not None
        said = job.stdout.read()
        assert job.wait(60) == 0
    count = len(list(folder.glob("*.parquet")))
    assert said.startswith(f"read {count - len(before)} of {count} splits")
    assert {file: file.stat().st_mtime_ns for file in before} == before
    want: dict[Any, list[int]] = {}
    for row in world.rows.values():
        sums = want.setdefault(row["country"], [0, 0, 0])
        sums[0] += 1
        sums[1] += row["label"] is not None
        sums[2] += row["label"] or 0
    result = json.loads((folder / "result.json").read_text())
    assert {r["country"]: [r["rows"], r["labelled"], r["label"]] for r in result} == want


def test_ten_models_in_one_pass(
    world: World, server: Server, client: penstock.Client, tmp_path: Path
) -> None:
    with run("ten_models.py", server.address, "d", str(tmp_path / "results")) as job:
        assert job.stdout is not None
        said = [line.split() for line in job.stdout.read().splitlines()]
        assert job.wait(60) == 0
    columns = ["row", "label", "last_items"]
    rows = client.read("d", wire="plain", columns=columns).read_all().to_pylist()
    assert {row["row"]: row["label"] for row in rows} == {k: r["label"] for k, r in world.rows.items()}
    labelled = [row for row in rows if row["label"] is not None]
    want = {}
    for i in range(10):
        guess = [1 / (1 + math.exp(-i / 10 * (len(row["last_items"] or []) - 2))) for row in labelled]
        sure = [g if row["label"] else 1 - g for g, row in zip(guess, labelled, strict=True)]
        want[f"model-{i}"] = -sum(map(math.log, sure)) / len(labelled)
    assert {name: int(rows) for name, rows, _ in said} == dict.fromkeys(want, len(labelled))
    for name, _, loss in said:
        assert math.isclose(float(loss), want[name], abs_tol=1e-8)
    assert [name for name, _, _ in said] == sorted(want, key=lambda name: want[name])


def as_bytes(stream: penstock.Stream) -> list[bytes]:
    return [batch.serialize().to_pybytes() for batch in stream]


@pytest.mark.parametrize(
    "fields",
    [
        {"columns": COLUMNS, "order": "shuffled", "seed": 7, "lanes": 2, "batch_rows": 100},
        {"wire": "plain", "filter": FILTER, "tail": "drop", "batch_rows": 100, "shard": (1, 2), "lanes": 4},
        {"wire": "indexed", "sample": {"hash": [0.25, 0.75]}},
    ],
)
def test_a_manifest_replays_the_same_bytes(moving: World, tmp_path: Path, fields: dict[str, Any]) -> None:
    """After commits, and on a server whose dataset has changed or has another name."""
    world = moving
    kept, open_ = tmp_path / "run.json", tmp_path / "open.json"
    with Server(world.config) as server, penstock.connect(server.address) as client:
        stream = client.read("d", **fields)
        commit(world, 20)
        assert stream.manifest(file=open_) == json.loads(open_.read_text())
        want = as_bytes(stream)
        assert stream.report["rows"] > 0
        assert as_bytes(client.replay(open_)) == want
        assert (
            client.manifest("d", file=kept, **{**fields, "snapshots": stream.plan.pin})["plan"]
            == stream.plan.id
        )
    assert [file.name for file in tmp_path.glob(".*")] == []
    config = json.loads(world.config.read_text())
    changes: list[tuple[str, dict[str, Any]]] = [("other", {}), ("d", {"staging": []})]
    for name, change in changes:
        changed = {**config, "datasets": {name: {**config["datasets"]["d"], **change}}}
        path = tmp_path / f"changed-{name}.yaml"
        path.write_text(json.dumps(changed))
        with Server(path) as server, penstock.connect(server.address) as client:
            for manifest in (kept, str(open_), json.loads(kept.read_text())):
                assert as_bytes(client.replay(manifest)) == want


def test_a_manifest_that_does_not_fit_is_refused(
    world: World, client: penstock.Client, tmp_path: Path
) -> None:
    kept = client.manifest("d", columns=COLUMNS)
    assert client.replay(kept, limit=5).read_all().num_rows == 5
    assert client.replay(kept, shard={"of": 1}).read_all().num_rows == len(world.rows)
    with pytest.raises(penstock.Invalid, match="the manifest's plan is abc"):
        client.replay({**kept, "plan": "abc"})
    with pytest.raises(penstock.Invalid, match="columns"):
        client.replay({**kept, "columns": []})
    wrongs: list[Any] = [tmp_path / "nothing.json", {"query": {}}]
    for wrong in wrongs:
        with pytest.raises(penstock.Invalid, match="manifest"):
            client.replay(wrong)


def test_the_page_on_evaluation_does_what_it_says(
    server: Server, client: penstock.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    whole, models, splits, replayed = [
        block.replace("127.0.0.1:8815", server.address).replace('"homefeed"', '"d"') for block in blocks
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    sampled: dict[str, Any] = {"columns": ["country", "label"], "sample": {"hash": [0, 0.0625]}}
    rows = client.read("d", wire="plain", **sampled).read_all().to_pylist()
    names: dict[str, Any] = {"client": client}
    exec(whole, names)
    results = pl.read_parquet(list(names["done"].files)).group_by("country").agg(pl.all().sum())
    assert {r["country"]: r["rows"] for r in results.to_dicts()} == Counter(r["country"] for r in rows)
    names = {"client": client, "models": {}, "features": len}
    exec(models, names)
    assert names["evaluate"](client.read("d")) == {"model": [], "loss": []}
    exec(splits, names)
    assert names["rows"] > 0
    exec(replayed, names)
    assert names["batch"].column_names == ["label"]
