"""Processes that are started again when they end: trainers, evaluations, and commands that change tables."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos import values
from chaos.trainer import WRONG

_LIMIT = 300.0  # seconds of a command


class Trainer:
    """A trainer's process. None is started while `go` is not set.

    Attributes:
        ends: how its processes ended, with the error's kind, and how often.
        wrong: errors that no fault explains.
    """

    def __init__(
        self, name: str, prefix: Sequence[str], given: dict[str, Any], root: Path, go: threading.Event
    ) -> None:
        self.name, self.given, self._go = name, given, go
        self.folder = Path(given["folder"])
        self.folder.mkdir(parents=True)
        path = [root / "benchmarks", root / "python" / "src"]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        self._command = [*prefix, sys.executable, "-m", "chaos.trainer", json.dumps(given)]
        self.ends: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def send(self, what: signal.Signals) -> None:
        """Sends a signal to the process."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(what)

    def progress(self) -> int:
        """How far it is: grows with each step."""
        log = self.folder / "steps"
        done = len(list(self.folder.rglob("*.parquet")))
        return done + (log.stat().st_size if log.exists() else 0)

    def close(self) -> None:
        """Ends it."""
        self._stop.set()
        while self._thread.is_alive():
            self.send(signal.SIGCONT)
            self.send(signal.SIGKILL)
            self._thread.join(0.2)

    def _keep(self) -> None:
        while self._go.wait() and not self._stop.is_set():
            said = self.folder / "said"
            with said.open("ab") as out:
                begin = out.tell()
                self._process = subprocess.Popen(
                    self._command, stdout=out, stderr=out, env=self._environment, start_new_session=True
                )
            status = self._process.wait()
            with said.open("rb") as text:
                text.seek(begin)
                lines = text.read().decode(errors="replace").strip().splitlines()
            errors = [line for line in lines if line.startswith("penstock.errors.")]
            self._note(status, (errors or lines or [""])[-1])
            self._stop.wait(0.5)

    def _note(self, status: int, last: str) -> None:
        kind = last.partition(":")[0] if status > 0 else signal.Signals(-status).name if status else "end"
        self.ends[kind] += 1
        # Corrupt is what an answer of a wrong length leads to.
        explained = ("SIGKILL", "Unavailable", "Unauthenticated", "Exhausted", "Corrupt")
        if kind.rpartition(".")[2] not in explained or status == WRONG:
            self.wrong.append(f"{self.name}: {last[:600]}")


@dataclasses.dataclass
class Commands:
    """Runs commands of penstock, each until it succeeds, and may kill the one that runs. None is started while `go` is not set.

    Attributes:
        done: how many have succeeded, by name.
        failed: how many attempts have failed, by name.
        wrong: failures that no fault explains.
    """

    binary: Path
    config: Path
    clock: Path
    server: list[str]  # flags that have a server run the command
    rng: random.Random
    said: Path  # the file of the errors of attempts
    go: threading.Event

    def __post_init__(self) -> None:
        self.done: collections.Counter[str] = collections.Counter()
        self.failed: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def kill(self) -> None:
        """Kills the command that runs."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()

    def until_done(self, *words: str, accepts: str = "") -> dict[str, Any] | None:
        """Repeats a command until it succeeds, and returns its result; None if the run ended first.

        An error that contains `accepts` is success, too.
        """
        while self.go.wait() and not self.stop.is_set():
            source = self.server if self.rng.random() < 0.5 else ["--config", str(self.config)]
            self._process = subprocess.Popen(
                [str(self.binary), *words, *source],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PENSTOCK_CLOCK_SHIFT": str(self.clock)},
            )
            try:
                out, error = self._process.communicate(timeout=_LIMIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                out, error = self._process.communicate()
                self.wrong.append(f"{' '.join(words)}: no end after {_LIMIT} s: {error[-600:]}")
            if self._process.returncode == 0:
                self.done[words[0]] += 1
                return json.loads(out) if "--json" in words else {}
            if accepts and accepts in error:
                self.done[words[0]] += 1
                return {}
            self.failed[words[0]] += 1
            with self.said.open("a") as said:
                said.write(f"{datetime.datetime.now():%H:%M:%S} {self._process.returncode} {words} {error}\n")
            self._check(words, error)
            self.stop.wait(self.rng.uniform(0.2, 2))
        return None

    def _check(self, words: Sequence[str], error: str) -> None:
        if any(text in error for text in ("panic", "invariant", "internal error", "bug")):
            self.wrong.append(f"{' '.join(words)}: {error[-600:]}")


class Writer:
    """Stages, publishes, takes back and compacts rows of a table, one change after another.

    Attributes:
        rows: the ids that the table has after all changes that have succeeded.
        changes: tokens that have succeeded, and not been taken back.
        uncertain: ids of the change that was being made when the run ended.
    """

    ROWS = 40

    def __init__(self, table: str, commands: Commands, folder: Path, seed: int) -> None:
        folder.mkdir()
        self.table, self.commands, self._folder = table, commands, folder
        self._rng = random.Random(seed)
        self.rows: set[int] = set()
        self.tokens: list[str] = []
        self.undone: list[str] = []
        self.uncertain: set[int] = set()
        self._number = 0

    def run(self, pause: Callable[[], bool]) -> None:
        """Makes changes until pause returns True."""
        while not pause():
            draw = self._rng.random()
            if draw < 0.15:
                self.commands.until_done("compact", self.table, "--min-files", "3", "--json")
            else:
                # A branch begins at main, which has no snapshot before the first change.
                self._stage(branch=draw < 0.35 and bool(self.tokens), undo=draw > 0.8)

    def _stage(self, *, branch: bool, undo: bool) -> None:
        first = self._number * self.ROWS
        ids = set(range(first, first + self.ROWS))
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.000Z")
        token = f"{now}-c{self._number}"
        name = f"next{self._number}"
        self._number += 1
        file = self._folder / "rows.parquet"
        pq.write_table(pa.table({"id": sorted(ids), "value": [i * 3 for i in sorted(ids)]}), file)
        self.uncertain = ids
        words = ["stage", self.table, str(file), "--token", token, "--json"]
        made = self.commands.until_done(*words, *(["--branch", name] if branch else []))
        if made is None:
            return
        if branch and self.commands.until_done("publish", self.table, name, "--json") is None:
            return
        if undo and not branch:
            move = ["--from", made.get("parent", "none"), "--to", made["snapshot"]]
            if self.commands.until_done("undo", self.table, *move) is not None:
                self.undone.append(token)
                self.uncertain = set()
            return
        self.tokens.append(token)
        self.rows |= ids
        self.uncertain = set()


class Copier:
    """Writes the rows of a dataset to a file by `penstock cat`, again and again.

    Attributes:
        wrong: what was wrong with files.
    """

    def __init__(self, commands: Commands, folder: Path) -> None:
        folder.mkdir()
        self.commands, self._file = commands, folder / "rows.parquet"
        self.wrong: list[str] = []

    def run(self, pause: Callable[[], bool]) -> None:
        """Writes files until pause returns True."""
        words = ["cat", "home", "--output", str(self._file), "--columns", "row,key,label,score,history"]
        while not pause():
            self._file.unlink(missing_ok=True)
            if self.commands.until_done(*words) is None:
                return
            rows = pq.read_table(self._file)
            if fault := values.wrong(rows):
                self.wrong.append(f"a file of cat has a wrong {fault}")
            if sorted(rows["row"].to_pylist()) != list(range(values.ROWS["home"])):
                self.wrong.append("a file of cat does not have each row once")


def promote(commands: Commands, pause: Callable[[], bool]) -> None:
    """Promotes a feature and takes it back, again and again."""
    while not pause():
        if commands.until_done("promote", "home", "history", "--json") is None or pause():
            return
        commands.until_done("demote", "ml.home", "history", "--yes", accepts="not promoted")
