"""Data frames of Daft against the rows that were written, with streams that break, and without reports to its makers."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import daft
import engine_lake
import pytest
from daft.functions import coalesce
from daft.io.pushdowns import Pushdowns
from engine_lake import same
from engine_server import CUT, Served, Watched, check_example, cut, serve
from server import BINARY, Server

import penstock
import penstock.daft
from penstock import parts
from penstock.plan import Endpoint, JoinedFiles


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("lake") / "lake") as started:
        yield started


def sorted_rows(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.to_pylist(), key=lambda row: int(row["row"]))


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a written row in the types that Daft gives to Python: UUIDs are texts."""
    return {**row, "ident": row["ident"] and str(row["ident"])}


def test_values_of_each_type(served: Served) -> None:
    frame = penstock.daft.read(served.address, "d", batch_rows=300)
    kinds = {field.name: str(field.dtype) for field in frame.schema()}
    assert [kinds[name] for name in ("clock", "at", "atz", "ident", "fixed", "counts")] == [
        "Time[us]",
        "Timestamp[us]",
        "Timestamp[us; UTC]",
        "UUID",
        "Binary[4]",
        "Map[String: Int64]",
    ]
    got = sorted_rows(frame)
    want = [expected(row) for row in served.rows]
    for name in want[0]:
        assert [same(row[name]) for row in got] == [same(row[name]) for row in want], name
    with penstock.connect(served.address) as client:
        assert len(client.read_splits("d")) > 1


def test_forms_of_columns(served: Served) -> None:
    """Texts as codes are texts again, a tensor is a list of fixed size, and a renamed column keeps its own values."""
    frame = penstock.daft.read(
        served.address,
        "d",
        columns=["row", {"column": "country", "name": "text", "as": "category"}],
        dense={"x": {"columns": ["row"], "fill": 0.5}},
        batch_rows=300,
    )
    kinds = {field.name: str(field.dtype) for field in frame.schema()}
    assert kinds == {"row": "Int64", "x": "List[Float32; 1]", "text": "String"}
    got = sorted_rows(frame.where(daft.col("text") == "de"))
    want = [row["row"] for row in served.rows if row["country"] == "de"]
    assert [(r["row"], r["text"], list(r["x"])) for r in got] == [(at, "de", [float(at)]) for at in want]
    assert sorted(frame.where(daft.col("text") == "de").select("row").to_pydict()["row"]) == want
    with pytest.raises(penstock.Invalid, match="wire"):
        penstock.daft.read(served.address, "d", wire="indexed")


def test_only_columns_that_a_query_needs_are_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = penstock.daft.read(served.address, "d", filter="row >= 0")
    asked: list[Any] = []
    plans = parts.planned

    def noted(access: Any, form: Any) -> Any:
        asked.append(form)
        return plans(access, form)

    monkeypatch.setattr(penstock.daft, "planned", noted)
    found = frame.where((daft.col("l") == 7) & (daft.col("text").length() > 0)).select("score")
    assert found.column_names == ["score"]
    assert len(found.to_pylist()) == sum(r["l"] == 7 and bool(r["text"]) for r in served.rows)
    (form,) = asked
    assert sorted(form["columns"]) == ["l", "score", "text"]
    assert form["filter"] == "(row >= 0)"
    assert frame.count_rows() == len(served.rows)
    assert len(asked[-1]["columns"]) == 1
    swapped = frame.where(daft.col("l") == 7).select("i", "row")
    assert swapped.column_names == ["i", "row"]
    assert {r["row"]: r["i"] for r in swapped.to_pylist()} == {
        r["row"]: r["i"] for r in served.rows if r["l"] == 7
    }
    small = [r["row"] for r in served.rows if r["i"] is not None and r["i"] < 5]
    some = frame.where(daft.col("i") < 5).select("row").limit(11).to_pydict()["row"]
    assert len(set(some)) == 11
    assert set(some) <= set(small)


def condition(kind: str) -> Any:
    col = daft.col
    return {
        "between": col("i").between(-3, 9),
        "case": daft.sql_expr("CASE WHEN i > 3 THEN true ELSE false END"),
        "coalesce": coalesce(col("i"), col("row")) > 3,
        "element": col("tags")[0] == "b",
        "field": col("pair")["a"] == 1,
        "function": daft.func(lambda row: row % 3 == 1, return_dtype=daft.DataType.bool())(col("row")),
        "in": col("text").is_in(["a", "z", None]),
        "length": col("tags").list_count() > 1,
        "not": ~(col("flag") & (col("i") > 3)),
        "null": col("i").is_null() | (col("d") == float("nan")),
        "part": col("text").contains("a"),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["between", "case", "coalesce", "element", "field", "function", "in", "length", "not", "null", "part"],
)
def test_conditions_keep_the_answers_of_daft(served: Served, kind: str) -> None:
    """The rows of a condition are those that Daft finds in a table of all rows."""
    columns = ["row", "i", "d", "flag", "text", "tags", "pair"]
    local = daft.from_arrow(served.client.read("d", columns=columns).read_all())
    frame = penstock.daft.read(served.address, "d")
    want, got = (one.where(condition(kind)).select("row").to_pydict()["row"] for one in (local, frame))
    assert sorted(got) == sorted(want)
    assert 0 < len(want) < len(served.rows)


def test_queries_of_one_frame_are_independent(served: Served) -> None:
    """A query of a frame finds the rows that an earlier one has filtered out."""
    frame = penstock.daft.read(served.address, "d", columns=["row", "i", "d"])
    for value in (0, 1):
        assert frame.where(daft.col("i") == value).count_rows() == sum(r["i"] == value for r in served.rows)
    assert frame.count_rows() == len(served.rows)
    few = penstock.daft.read(served.address, "d", columns=["row"], filter="i = 0")
    assert few.count_rows() == sum(r["i"] == 0 for r in served.rows)
    none = penstock.daft.read(served.address, "d", filter="row < 0")
    assert none.count_rows() == 0
    assert none.to_pydict().keys() == served.rows[0].keys()
    # Daft has an order of floats in which -0.0 is before 0.0, which filters of servers do not have.
    below = frame.where(daft.col("d") < 0.0).select("row").to_pydict()["row"]
    assert sorted(below) == [r["row"] for r in served.rows if repr(r["d"]).startswith("-")]


def test_uses_read_the_snapshots_of_the_frame(tmp_path: Path) -> None:
    with serve(tmp_path / "lake") as served:
        frame = penstock.daft.read(served.address, "d")
        engine_lake.append(served.folder)
        for _ in range(2):
            assert frame.select("row", "score").count_rows() == len(served.rows)
        assert penstock.daft.read(served.address, "d").count_rows() == len(served.rows) + 1


def test_tasks_are_bounded_by_the_largest_split() -> None:
    """No task has more rows than the largest split, and none more than its share of the tasks that run at once."""
    with daft.execution_config_ctx(scantask_max_parallel=2):
        for rows, sizes in (
            ([50, 9, 9, 9, 30], [1, 3, 1]),
            ([50] * 20, [1] * 20),
            ([1] * 3 + [100], [3, 1]),
            ([None, 5], [1, 1]),
        ):
            endpoints = [Endpoint(b"", n, n, (str(i),), JoinedFiles(0, 1)) for i, n in enumerate(rows)]
            groups = parts.together(endpoints, penstock.daft._parallelism(endpoints))
            assert [len(group) for group in groups] == sizes
        assert penstock.daft._parallelism([]) == 2


def test_a_task_of_several_splits(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(penstock.daft, "_parallelism", lambda _: 1)
    dataset = {
        "training": {"table": "ml.events"},
        "key": ["request_id"],
        "staging": [{"table": "features.scores", "strategy": "broadcast"}],
    }
    frame = penstock.daft.read(served.address, dataset, batch_rows=100)
    found = sorted_rows(frame)
    assert [same(row["score"]) for row in found] == [same(row["score"]) for row in served.rows]
    assert [row["row"] for row in found] == [row["row"] for row in served.rows]
    for limit in (1, 2500):
        rows = frame.select("row").limit(limit).to_pydict()["row"]
        assert len(rows) == len(set(rows)) == limit
    assert len(served.client.read_splits(dataset)) > 2


def rows_of(use: str, frame: Any) -> int:
    if use == "iterate":
        return sum(batch.num_rows for batch in frame.to_arrow_iter())
    if use == "count":
        return int(frame.agg(daft.col("tags").count(mode="all")).to_pylist()[0]["tags"])
    return len(frame.to_pylist())


@pytest.mark.parametrize("use", ["collect", "iterate", "count"])
def test_a_broken_stream_raises(served: Served, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    with cut(served) as (address, proxy), penstock.connect(address, reconnect=0) as client:
        fields: Any = {"batch_rows": 50, "columns": ["tags"] if use == "count" else None}
        assert rows_of(use, penstock.daft.read(client, "d", **fields)) == len(served.rows)
        frame = penstock.daft.read(client, "d", **fields)
        watched = Watched(monkeypatch)
        proxy.cut_after(10_000 if use == "count" else CUT)
        with pytest.raises(Exception, match="Unavailable"):
            rows_of(use, frame)
        assert proxy.cuts >= 1
        assert watched.batches > 0


def test_a_limit_ends_streams(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """No split is read to its end, as Daft reads all tasks that it has started."""
    opened: list[penstock.Stream] = []
    read = penstock.Split.read

    def noted(split: penstock.Split) -> penstock.Stream:
        opened.append(read(split))
        return opened[-1]

    monkeypatch.setattr(penstock.Split, "read", noted)
    frame = penstock.daft.read(served.address, "d", batch_rows=10)
    assert len(frame.select("row").limit(13).to_pylist()) == 13
    assert opened
    assert all(stream.stats.batches <= 2 for stream in opened)


def test_memory_is_that_of_the_splits_that_are_read_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daft takes batches of a task as fast as they come, but starts few tasks at once."""
    # Daft copies texts and lists at once, so it would not keep the memory of these.
    columns = ["row", "i", "l", "f", "d", "at", "atz", "score"]
    frame = penstock.daft.read(served.address, "d", batch_rows=50, columns=columns)
    watched = Watched(monkeypatch)
    with daft.execution_config_ctx(scantask_max_parallel=1, default_morsel_size=50):
        found = frame.agg(
            *[daft.col(one).max() if one != "row" else daft.col(one).count() for one in columns]
        )
        assert found.to_pydict()["row"] == [len(served.rows)]
    assert watched.batches >= 80
    assert watched.largest < watched.whole * 3 / 4


def test_tokens_are_read_where_splits_are_read(served: Served, tmp_path: Path) -> None:
    tokens, file = tmp_path / "server.tokens", tmp_path / "token"
    command: list[str | Path] = [BINARY, "token", "new", "--subject", "daft", "--tokens", str(tokens)]
    secret = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    file.write_text(secret)
    with Server(served.folder / "penstock.yaml", "--tokens", str(tokens)) as server:
        frame = penstock.daft.read(server.address, "d", columns=["row"], token_file=str(file))
        assert frame.count_rows() == len(served.rows)
        access = penstock.access.Access.of(server.address, {"token_file": file})
        fields = {"columns": ["row", "i"], "endpoints": "splits", "wire": "auto"}
        schema = penstock.connect(server.address, token=secret).plan("d", columns=["row", "i"]).schema
        source = penstock.daft._Source(access, "d", fields, schema)
        pickled = pickle.dumps(asyncio.run(all_of(source.get_tasks(Pushdowns(columns=["row"])))))
        assert str(file).encode() in pickled
        assert secret.encode() not in pickled
        batches = [one for task in pickle.loads(pickled) for one in asyncio.run(all_of(task.read()))]
        assert sum(map(len, batches)) == len(served.rows)
        file.write_text("another")
        with pytest.raises(Exception, match="the token is unknown"):
            frame.to_pylist()
        with (
            penstock.connect(server.address, token=secret) as client,
            pytest.raises(penstock.Invalid, match="would be pickled"),
        ):
            penstock.daft.read(client, "d", columns=["row"])


async def all_of(items: Any) -> list[Any]:
    return [item async for item in items]


REPORTS = """
import socket, sys, threading
asked = []
def refused(host, *_, **__):
    asked.append(host)
    raise OSError("no network")
socket.getaddrinfo = refused
before = set(threading.enumerate())
import penstock.daft
if sys.argv[1:]:
    assert penstock.daft.read(sys.argv[1], "d", columns=["row"]).count_rows() > 0
else:
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
print(len(asked))
"""


def test_nothing_is_reported(served: Served) -> None:
    """With the variable of the documentation, Daft looks up no host; without it, the test sees that it does."""

    def hosts(environment: dict[str, str], *arguments: str) -> int:
        command = [sys.executable, "-c", REPORTS, *arguments]
        ran = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment, timeout=100
        )
        return int(ran.stdout)

    assert os.environ["DAFT_ANALYTICS_ENABLED"] == "0"
    quiet = {name: value for name, value in os.environ.items() if name not in ("DO_NOT_TRACK",)}
    assert hosts(quiet, served.address) == 0
    del quiet["DAFT_ANALYTICS_ENABLED"]
    assert hosts(quiet) > 0


def test_the_example(served: Served) -> None:
    check_example("daft_frame.py", served)
