"""Data frames of Spark against the rows that were written, with tasks and connections that break."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import broken_tasks
import pyarrow.parquet as pq
import pytest
from proxy import Proxy
from pyspark import cloudpickle
from server import BINARY, Server
from sparked import start, write

import penstock
import penstock.spark

LOST = Path(__file__).parent / "lost_executors.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_frame.py"
ALL = [
    *("row", "request_id", "flag", "i", "l", "f", "d", "price", "big", "day", "at", "atz", "text", "ident"),
    *("fixed", "bytes", "tags", "grid", "pair", "counts", "score", "country", "vector"),
]


@dataclass(frozen=True)
class Served:
    """A server, its configuration, the pin of the dataset "d", and its rows in the order of `row`."""

    address: str
    pin: dict[str, Any]
    config: Path
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with tables of all types."""
    folder = tmp_path_factory.mktemp("lake") / "lake"
    config = write(folder)
    with Server(config) as server, penstock.connect(server.address) as client:
        yield Served(
            server.address, client.plan("d").pin, config, pickle.loads((folder / "rows.pickle").read_bytes())
        )


def plain(value: Any) -> Any:
    """Returns a value in a form in which equal values are equal: with one NaN, and maps as dictionaries."""
    if isinstance(value, float):
        return "NaN" if value != value else repr(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a written row in Spark's types."""
    atz = row["atz"] and row["atz"].astimezone().replace(tzinfo=None)  # Spark's Python has local times
    ident = row["ident"] and str(row["ident"])
    counts = row["counts"] if row["counts"] is None else dict(row["counts"])
    return {**row, "atz": atz, "ident": ident, "counts": counts}


def collected(frame: Any) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: int(row["row"]))


def test_values_of_each_type(spark: Any, served: Served) -> None:
    frame = penstock.spark.read(spark, served.address, "d", columns=ALL, batch_rows=300)
    kinds = dict(frame.dtypes)
    names = ("at", "atz", "ident", "fixed", "counts")
    assert [kinds[name] for name in names] == [
        "timestamp_ntz",
        "timestamp",
        "string",
        "binary",
        "map<string,bigint>",
    ]
    got = collected(frame)
    want = [expected(row) for row in served.rows]
    for name in ALL:
        assert [plain(row[name]) for row in got] == [plain(row[name]) for row in want], name
    with penstock.connect(served.address) as client:
        assert frame.rdd.getNumPartitions() == len(client.read_splits("d")) > 1


def test_times_need_a_setting_of_spark(spark: Any, served: Served) -> None:
    with pytest.raises(penstock.Invalid, match="times of day, such as clock"):
        penstock.spark.read(spark, served.address, "d", columns=["row", "clock"])
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        frame = penstock.spark.read(spark, served.address, "d", columns=["row", "clock"])
        got = collected(frame.where("clock IS NOT NULL OR row < 0"))
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")
    assert [(r["row"], r["clock"]) for r in got] == [
        (r["row"], r["clock"]) for r in served.rows if r["clock"] is not None
    ]


def test_forms_of_columns(spark: Any, served: Served) -> None:
    """Texts as codes are texts again, and a tensor is an array."""
    frame = penstock.spark.read(
        spark,
        served.address,
        "d",
        columns=["row", {"column": "country", "name": "land", "as": "category"}],
        dense={"x": {"columns": ["i", "row"], "fill": 0.5}},
    )
    assert dict(frame.dtypes) == {"row": "bigint", "land": "string", "x": "array<float>"}
    got = collected(frame.where("land = 'de'"))
    want = [r for r in served.rows if r["country"] == "de"]
    assert [(r["row"], r["land"]) for r in got] == [(r["row"], "de") for r in want]
    assert [r["x"] for r in got] == [
        [0.5 if r["i"] is None else float(_float32(r["i"])), float(r["row"])] for r in want
    ]
    with pytest.raises(penstock.Invalid, match="wire"):
        penstock.spark.read(spark, served.address, "d", wire="indexed")


def _float32(value: int) -> float:
    import numpy as np

    return float(np.float32(value))


def test_partitions_are_splits_of_the_same_files(spark: Any, served: Served) -> None:
    """A partition has several splits if enough partitions are left, and the rows are in the same order."""
    dataset, fields = broken_tasks.DATASET, broken_tasks.FIELDS
    with penstock.connect(served.address) as client:
        splits = client.read_splits(dataset, **fields)
        order = [row for split in splits for row in split.read().read_all()["row"].to_pylist()]
        assert [split._endpoint.files is None for split in splits] == [False] * 4 + [True]
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "1")
    try:
        frame = penstock.spark.read(spark, served.address, dataset, **fields)
    finally:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
    assert frame.rdd.getNumPartitions() == 2
    assert [row["row"] for row in frame.collect()] == order


@pytest.mark.parametrize(("parallelism", "tasks"), [(1, [0]), (1000, [0, 1, 2, 3])])
def test_killed_tasks_give_each_row_once(
    spark: Any, served: Served, tmp_path: Path, parallelism: int, tasks: list[int]
) -> None:
    """Each task dies twice in the middle of a split, and is repeated."""
    log = tmp_path / "log"
    frame = broken_tasks.read(spark, served.address, parallelism, log=str(log), workers=2)
    found = sorted((r.row, plain(r.score)) for r in frame.collect())
    assert found == [(r["row"], plain(r["score"])) for r in served.rows]
    assert sorted(log.read_text().splitlines()) == sorted(f"worker {task}" for task in tasks * 2)


@pytest.mark.parametrize("flags", [[], ["speculation"]], ids=["alone", "speculation"])
def test_killed_executors_give_each_row_once(served: Served, tmp_path: Path, flags: list[str]) -> None:
    """Two tasks end with their executors in the middle of a split; with speculation, two attempts of another one read it at once."""
    command = [sys.executable, str(LOST), served.address, str(tmp_path), *flags]
    job = subprocess.Popen(command, start_new_session=True)
    try:
        assert job.wait(500) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)  # with the workers and executors
        job.wait()
    want = [(r["row"], plain(r["score"])) for r in served.rows]
    accidents = {"executor 0", "executor 3", *(["slow 0", "slow 1"] if flags else [])}
    for name, files in ("collected", "collected.parquet"), ("written", "written/*.parquet"):
        found = [r for file in tmp_path.glob(files) for r in pq.read_table(file).to_pylist()]
        assert sorted((r["row"], plain(r["score"])) for r in found) == want, name
        assert {*(tmp_path / f"{name}.log").read_text().splitlines()} == accidents, name


@pytest.mark.parametrize("end", ["connections", "server"])
def test_a_job_fails_if_streams_break(spark: Any, served: Served, end: str) -> None:
    """A job raises if each of a task's tries ends in the middle of a split, and if the server is gone."""
    with Server(served.config) as server, Proxy(server.address) as proxy:
        with penstock.connect(proxy.address, reconnect=0) as client:
            frame = penstock.spark.read(spark, client, "d", columns=ALL, batch_rows=50)
        proxy.cut_after(60_000)
        if end == "server":
            server.kill()
        with pytest.raises(Exception, match=r"penstock\.errors\.Unavailable") as raised:
            frame.collect()
        assert end == "server" or "This was <penstock.Split " in str(raised.value)
        assert end == "server" or proxy.cuts >= 3


def test_all_actions_read_the_snapshots_of_the_frame(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    with Server(write(folder)) as server:
        frame = penstock.spark.read(spark, server.address, "d", columns=["row", "score"])
        before = frame.count()
        write(folder, "append")
        assert frame.count() == before
        assert frame.where("row >= 0").count() == before
        assert penstock.spark.read(spark, server.address, "d", columns=["row"]).count() == before + 1


def test_tokens_are_read_where_splits_are_read(spark: Any, served: Served, tmp_path: Path) -> None:
    tokens, file = tmp_path / "server.tokens", tmp_path / "token"
    made = subprocess.run(
        [BINARY, "token", "new", "--subject", "spark", "--tokens", tokens],
        check=True,
        capture_output=True,
        text=True,
    )
    secret = made.stdout.strip()
    file.write_text(secret)
    with Server(served.config, "--tokens", str(tokens)) as server:
        frame = penstock.spark.read(spark, server.address, "d", columns=["row"], token_file=str(file))
        assert frame.count() == len(served.rows)
        options = {
            "access": json.dumps({"locations": [server.address], "files": [["token_file", str(file)]]}),
            "query": json.dumps({"dataset": "d", "columns": ["row"], "endpoints": "splits"}),
            "parallelism": "2",
        }
        reader = penstock.spark.Penstock(options).reader(frame.schema)
        pickled = cloudpickle.dumps((reader, reader.partitions()))
        assert str(file).encode() in pickled
        assert secret.encode() not in pickled
        file.write_text("another")
        with pytest.raises(Exception, match="Unauthenticated"):
            frame.collect()
        with (
            penstock.connect(server.address, token=secret) as client,
            pytest.raises(penstock.Invalid, match="would be pickled"),
        ):
            penstock.spark.read(spark, client, "d", columns=["row"])


def test_queries_of_one_frame_are_independent(spark: Any, served: Served) -> None:
    """A query of a frame finds the rows that an earlier one has filtered out."""
    frame = penstock.spark.read(spark, served.address, "d", columns=["row", "i"])
    for value in (0, 1):
        assert frame.where(f"i = {value}").count() == sum(r["i"] == value for r in served.rows)
    assert frame.count() == len(served.rows)
    few = penstock.spark.read(spark, served.address, "d", columns=["row"], filter="i = 0")
    assert few.count() == sum(r["i"] == 0 for r in served.rows)


def test_the_example(served: Served) -> None:
    command = [sys.executable, str(EXAMPLE), served.address, "d", "--by", "country", "--sum", "i"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, timeout=300
    ).stdout
    found = [json.loads(line) for line in printed.splitlines()]
    values = [row["i"] for row in served.rows if row["country"] == "de"]
    assert {"country": "de", "rows": len(values), "sum": float(sum(filter(None, values)))} in found
    assert sum(line["rows"] for line in found) == len(served.rows)
