"""Training jobs while features are promoted and demoted, and while every process is killed.

One config serves all of it. Each job gets every row of each epoch once, in the order of an epoch that was read before all
changes, with the values of a join by DuckDB.

PENSTOCK_PROMOTION_RUNS is the number of runs, each with another seed.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from lake import Lake, Row
from promotion_job import UNAVAILABLE, kept, next_of
from pyiceberg.types import DoubleType, ListType, LongType
from server import BINARY, Server

import penstock

ROWS, KEYS, FILES, EPOCHS, LIMIT = 900, 200, 6, 2, 60
RUNS = int(os.environ.get("PENSTOCK_PROMOTION_RUNS", "3" if "PENSTOCK_LONG" in os.environ else "1"))
LONGS = ListType(element_id=900, element_type=LongType(), element_required=False)
BATCHES = 20  # of a job while the tables change, so that no job reads its last epoch to the end
QUERY: dict[str, Any] = {"order": "shuffled", "seed": 7, "lanes": 2, "shuffle_window": 200, "batch_rows": 50}
# The changes: a left join and an overlay are promoted, and the overlay is the last one to be demoted.
CHANGES = [
    ["promote", "home", "history", "--json"],
    ["promote", "home", "fixed", "--json"],
    ["demote", "ml.rows", "history", "--yes"],
    ["promote", "home", "history", "--json"],
    ["demote", "ml.rows", "score", "--yes"],
]


class World:
    """The tables, and the join of each epoch."""

    def __init__(self, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        self.folder, made = folder, Lake(folder / "lake")
        self.lake = made
        self.data = folder / "lake" / "warehouse"
        rows: list[Row] = [
            {"row": i, "key": None if i % 50 == 7 else rng.randrange(KEYS), "score": rng.random()}
            for i in range(ROWS)
        ]
        history: list[Row] = [
            {"key": k, "history": None if k % 9 == 0 else list(range(k % 5))} for k in range(0, KEYS, 3)
        ]
        fixed: list[Row] = [
            {"key": k, "score": None if k % 7 == 0 else -rng.random()} for k in range(0, KEYS, 2)
        ]
        made.write(
            "ml.rows", {"row": LongType(), "key": LongType(), "score": DoubleType()}, ("key", 4), rows, FILES
        )
        made.write("features.history", {"key": LongType(), "history": LONGS}, ("key", 8), history)
        made.write("features.fixed", {"key": LongType(), "score": DoubleType()}, ("key", 2), fixed)
        staging = [{"table": "features.history"}, {"table": "features.fixed", "join": "overlay"}]
        dataset = {"training": {"table": "ml.rows"}, "key": ["key"], "staging": staging}
        self.config = made.config({"home": dataset}, writes={"namespaces": ["ml"]})
        self.rows = rows
        self.joined = {row["row"]: row for row in joined(rows, history, fixed)}

    def files(self) -> int:
        """How many files the tables have: data, manifests, metadata, and files that are being written."""
        return sum(1 for path in self.data.rglob("*") if path.suffix)

    def stored(self) -> list[Row]:
        """The rows of the training table as PyIceberg reads them."""
        found: list[Row] = (
            self.lake.catalog.load_table("ml.rows").scan().to_arrow().sort_by("row").to_pylist()
        )
        return found


def joined(rows: list[Row], history: list[Row], fixed: list[Row]) -> list[Row]:
    """The join by definition."""
    longs = pa.list_(pa.int64())
    with duckdb.connect() as db:
        db.register("training", pa.Table.from_pylist(rows))
        db.register(
            "histories", pa.Table.from_pylist(history, pa.schema({"key": pa.int64(), "history": longs}))
        )
        db.register("fixes", pa.Table.from_pylist(fixed))
        found: list[Row] = (
            db.sql(
                "SELECT t.row, t.key, CASE WHEN f.key IS NULL THEN t.score ELSE f.score END AS score, h.history FROM"
                " training t LEFT JOIN histories h ON h.key = t.key LEFT JOIN fixes f ON f.key = t.key"
            )
            .to_arrow_table()
            .to_pylist()
        )
    return found


class Job:
    """A job in a process of its own."""

    def __init__(self, world: World, name: str) -> None:
        self.name, self.file = name, world.folder / f"{name}.jsonl"
        self.process: subprocess.Popen[str] | None = None
        self.address = ""

    def start(self, address: str) -> None:
        self.address = address
        program = Path(__file__).with_name("promotion_job.py")
        command = [sys.executable, str(program), address, json.dumps(QUERY), str(EPOCHS), str(self.file)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self) -> bool:
        """Asks for a batch, without waiting for it. Returns False if the job has ended."""
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("next\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def step(self, between: Callable[[], None] = lambda: None) -> bool:
        """Reads a batch, or starts the job again. Returns False at the end of the last epoch."""
        asked = self.ask()
        between()
        assert self.process is not None
        assert self.process.stdout is not None
        if asked and self.process.stdout.readline() == "next\n":
            return True
        status = self.process.wait(LIMIT)
        self.close()
        if status == UNAVAILABLE:
            self.start(self.address)
            return True
        assert status == 0, self.name
        return False

    def wait(self, seconds: float) -> None:
        """Waits until the job has written a batch, or for a random time, so that kills come at any moment."""
        assert self.process is not None
        assert self.process.stdout is not None
        select.select([self.process.stdout], [], [], seconds)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.close()

    def close(self) -> None:
        assert self.process is not None
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.process = None


class Course:
    """Everything that happens in one run, at random."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.rng = world, random.Random(seed)
        self.server = Server(world.config).__enter__()
        self.jobs: list[Job] = []
        # The server was killed while a job read, each command when it had written files, and each job while it read.
        self.kills = collections.Counter[str]()
        self.positions: list[
            tuple[int, int]
        ] = []  # the epoch and batches of the job in the middle, at each change

    def restart(self) -> None:
        """Kills the server, and starts it again at its address."""
        self.server.kill()
        self.server = Server(self.world.config, listen=self.server.address).__enter__()
        self.kills["server"] += 1

    def break_off(self, job: Job) -> None:
        """Kills the server while a job reads."""

        def restart() -> None:
            job.wait(self.rng.random() / 50)
            self.restart()

        job.step(restart)

    def begin(self, name: str) -> Job:
        job = Job(self.world, name)
        job.start(self.server.address)
        self.jobs.append(job)
        return job

    def fell(self, job: Job) -> None:
        """Kills a job while it reads a batch, and starts it again."""
        job.step()  # so that it has begun to read
        if job.process is None or not job.ask():
            return
        job.wait(self.rng.random() / 50)
        assert job.process.poll() is None
        job.kill()
        job.start(self.server.address)
        self.kills[job.name] += 1

    def play(self) -> None:
        """Lets a job read a batch or two, and sometimes kills it or its server meanwhile."""
        running = [job for job in self.jobs if job.process is not None and len(kept(job.file)) < BATCHES]
        if not running:
            return
        job, chance = self.rng.choice(running), self.rng.random()
        if chance < 0.05:
            self.fell(job)
        elif chance < 0.1:
            self.break_off(job)
        else:
            job.step()

    def change(self, command: list[str]) -> None:
        """Runs a command, kills it when it has written some files, and repeats it until it is done."""
        name = " ".join(command[:3])
        kills = sorted(self.rng.choice([0, 1, 1, 2, 3, 4, 8, 12, 16, 20]) for _ in range(3))
        for patience in (*kills, None):
            start = self.world.files()
            at = start + patience if patience is not None else None
            with subprocess.Popen(
                [str(BINARY), *command, "--config", str(self.world.config)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as running:
                limit = time.monotonic() + LIMIT
                while running.poll() is None and (at is None or self.world.files() < at):
                    assert time.monotonic() < limit, command
                    if at is None and self.rng.random() < 0.2:  # a job that is started again takes seconds
                        self.play()
                    else:
                        time.sleep(0.001)
                running.kill()
                _, errors = running.communicate()
            if running.returncode == 0:
                return
            assert running.returncode == -signal.SIGKILL, errors
            self.kills[f"{name}, before it wrote" if self.world.files() == start else name] += 1
        raise AssertionError(command)

    def run(self) -> None:
        """Starts the jobs, makes all changes, and reads every job to its end."""
        resumed, middle = self.begin("resumes"), self.begin("in the middle")
        for job in (resumed, middle):
            for _ in range(self.rng.randrange(1, 5)):
                assert job.step()
        resumed.kill()
        for i, command in enumerate(CHANGES):
            while (position := position_of(middle))[1] == 0:
                assert middle.step()
            self.positions.append(position)
            self.change(command)
            if i == 0:
                self.begin("anew")
            if i == 1:
                assert position_of(resumed)[1] > 0
                resumed.start(self.server.address)
            # Each job is killed: the one in the middle, the one that has just resumed, and the one that began anew.
            self.fell((middle, resumed, self.jobs[-1], middle, resumed)[i])
            self.break_off(middle)
            for _ in range(self.rng.randrange(4)):
                self.play()
        for job in self.jobs:
            while job.process is not None:
                job.step()

    def close(self) -> None:
        for job in self.jobs:
            job.kill()
        self.server.kill()


def position_of(job: Job) -> tuple[int, int]:
    """The epoch that a job reads, and the batches that it has of it."""
    batches = kept(job.file)
    epoch, _ = next_of(batches)
    return epoch, sum(batch["epoch"] == epoch for batch in batches)


def before(world: World) -> tuple[str, list[list[int]]]:
    """The schema of the batches before all changes, and the rows of each epoch."""
    with Server(world.config) as server, penstock.connect(server.address) as client:
        read = [client.read("home", **QUERY, epoch=epoch).read_all() for epoch in range(EPOCHS)]
        return str(read[0].schema), [table["row"].to_pylist() for table in read]


def read_as_before(world: World, job: Job, schema: str, epochs: list[list[int]]) -> list[list[str]]:
    """Checks all batches of a job, and returns the promoted entries of each epoch."""
    batches = kept(job.file)
    assert {batch["schema"] for batch in batches} == {schema}, job.name
    for epoch, rows in enumerate(epochs):
        got = [row for batch in batches if batch["epoch"] == epoch for row in batch["rows"]]
        assert [row["row"] for row in got] == rows, (job.name, epoch)
        assert got == [world.joined[row] for row in rows], (job.name, epoch)
    return [batch["promoted"] for batch in batches if batch["end"]]


# spec: promote-6, promote-18, promote-19, promote-20, promote-27
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(RUNS))
def test_jobs_go_on_while_features_are_promoted(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    config = world.config.read_text()
    schema, epochs = before(world)
    assert epochs[0] != epochs[1]
    assert all(sorted(rows) == list(range(ROWS)) for rows in epochs)
    course = Course(world, seed)
    try:
        course.run()
    finally:
        course.close()
    promoted = {job.name: read_as_before(world, job, schema, epochs) for job in course.jobs}
    assert world.config.read_text() == config
    assert world.stored() == [{**row, "history": world.joined[row["row"]]["history"]} for row in world.rows]
    print(json.dumps({"seed": seed, "kills": course.kills, "middle": course.positions, "promoted": promoted}))
    assert promoted["resumes"][0] == promoted["in the middle"][0] == []  # their pins are those of before
    assert promoted["anew"][0], "the job that began anew read no promoted column"
    assert course.kills["server"] >= len(CHANGES)
    assert all(course.kills[job.name] for job in course.jobs), course.kills
    assert any(course.kills[" ".join(command[:3])] for command in CHANGES), course.kills
