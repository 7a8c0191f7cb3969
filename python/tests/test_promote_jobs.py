"""Training jobs while features are promoted and demoted, and while every process is killed.

One config serves all of it. Each job gets every row of each epoch once, in the order of an epoch that was read before all
changes, with the values of a join by DuckDB.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
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
from promotion_job import UNAVAILABLE, kept
from pyiceberg.types import DoubleType, ListType, LongType
from server import BINARY, Server

import penstock

ROWS, KEYS, FILES, EPOCHS, LIMIT = 900, 200, 6, 2, 60
LONGS = ListType(element_id=900, element_type=LongType(), element_required=False)
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
        self.joined = {row["row"]: row for row in joined(rows, history, fixed)}

    def files(self) -> int:
        """How many files penstock has written."""
        return sum(1 for _ in self.data.rglob("*penstock-*"))


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
        self.kills = {"server": 0, "command": 0, "job": 0}

    def restart(self) -> None:
        """Kills the server, and starts it again at its address."""
        self.server.kill()
        self.server = Server(self.world.config, listen=self.server.address).__enter__()
        self.kills["server"] += 1

    def begin(self, name: str) -> Job:
        job = Job(self.world, name)
        job.start(self.server.address)
        self.jobs.append(job)
        return job

    def fell(self, job: Job | None = None) -> None:
        """Kills a job while it reads a batch, and starts it again."""
        running = [other for other in self.jobs if other.process is not None]
        if not running:
            return
        job = job or self.rng.choice(running)
        job.ask()
        job.kill()
        job.start(self.server.address)
        self.kills["job"] += 1

    def play(self) -> None:
        """Lets a job read a batch or two, and sometimes kills it or its server meanwhile."""
        running = [job for job in self.jobs if job.process is not None]
        if not running:
            return
        job, chance = self.rng.choice(running), self.rng.random()
        if chance < 0.05:
            self.fell(job)
        elif chance < 0.1:
            job.step(self.restart)
        else:
            job.step()

    def change(self, command: list[str]) -> None:
        """Runs a command, kills it when it has written some files, and repeats it until it is done."""
        kills = [0, *(self.rng.randrange(1, 9) for _ in range(self.rng.randrange(1, 3)))]
        for patience in (*kills, None):
            at = self.world.files() + patience if patience is not None else None
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
                        time.sleep(0.005)
                running.kill()
                _, errors = running.communicate()
            assert running.returncode <= 0, errors
            if running.returncode == 0:
                return
            self.kills["command"] += 1
        raise AssertionError(command)

    def run(self) -> None:
        """Starts the jobs, makes all changes, and reads every job to its end."""
        resumed, middle = self.begin("resumes"), self.begin("in the middle")
        for job in (resumed, middle):
            for _ in range(self.rng.randrange(1, 5)):
                assert job.step()
        resumed.kill()
        for i, command in enumerate(CHANGES):
            self.change(command)
            if i == 0:
                self.begin("anew")
            if i == 1:
                resumed.start(self.server.address)
            (self.fell if i % 2 else self.restart)()
            for _ in range(self.rng.randrange(4)):
                self.play()
        for job in self.jobs:
            while job.process is not None:
                job.step()

    def close(self) -> None:
        for job in self.jobs:
            job.kill()
        self.server.kill()


def order(world: World) -> list[list[int]]:
    """The rows of each epoch before all changes."""
    with Server(world.config) as server, penstock.connect(server.address) as client:
        return [
            client.read("home", **QUERY, epoch=epoch).read_all()["row"].to_pylist() for epoch in range(EPOCHS)
        ]


# spec: promote-6, promote-18, promote-19, promote-20, promote-27
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3 if "PENSTOCK_LONG" in os.environ else 1))
def test_jobs_go_on_while_features_are_promoted(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    epochs = order(world)
    assert epochs[0] != epochs[1]
    assert all(sorted(rows) == list(range(ROWS)) for rows in epochs)
    course = Course(world, seed)
    try:
        course.run()
    finally:
        course.close()
    for job in course.jobs:
        batches = kept(job.file)
        for epoch, rows in enumerate(epochs):
            got = [row for batch in batches if batch["epoch"] == epoch for row in batch["rows"]]
            assert [row["row"] for row in got] == rows, (job.name, epoch)
            assert got == [world.joined[row] for row in rows], (job.name, epoch)
    assert json.loads(world.config.read_text())["datasets"]["home"]["staging"][0] == {
        "table": "features.history"
    }
    assert all(course.kills.values()), course.kills
