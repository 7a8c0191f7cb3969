"""All contenders on one data set, in turn, so that noise affects all of them equally."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import columns
import echo
import joins
import running
from entrants import ECHO, PENSTOCK
from inputs import Inputs
from joins import Join
from peers.contender import Outcome
from points import Grid, Measured, Point
from result import Floor, Result
from running import RunError, Served


class Tools:
    """The Go programs of the floors, which are built in a folder when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._built: dict[str, Path] = {}

    def program(self, package: str) -> Path:
        """A program of a folder of the benchmarks."""
        if package not in self._built:
            self._built[package] = echo.build(package, self.folder)
        return self._built[package]


class Turns:
    """The rounds of one data set. `failures` has a line for each."""

    def __init__(self, dataset: str, join: Join, grid: Grid, tools: Tools) -> None:
        self.failures: list[str] = []
        self._dataset = dataset
        self._join = join
        self._inputs = Inputs.load(join.inputs)
        self._grid = grid
        self._tools = tools
        self._captured: dict[tuple[str, int], echo.Captured] = {}
        self._copies: list[Floor] = []
        self._pages: list[Floor] = []

    def all(self, rounds: int, minutes: float) -> Result:
        """Run all rounds that begin within these minutes, at least one, and what is measured once."""
        measured = [Measured(point) for point in self._grid.points(self._dataset)]
        names = {one.point.entrant.name for one in measured}
        begun = time.monotonic()
        for turn in range(rounds):
            if turn > 0 and time.monotonic() - begun > 60 * minutes:
                break
            for one in measured:
                print(f"{turn + 1}/{rounds} ", end="", file=sys.stderr)
                one.rounds.append(self._attempt(one.point))
            if ECHO in names:
                with self._noted("page decompression"):
                    self._pages.append(self._decompress())
        result = Result(self._inputs, measured, self._copies, self._pages)
        if self._dataset == joins.T and {PENSTOCK, ECHO} <= names:
            for variant, program in self._grid.variants.items():
                with self._noted(f"one column more, {variant}"):
                    result.one_more[variant] = columns.measure(program, self._join.config, self._inputs)
        return result

    @contextlib.contextmanager
    def _noted(self, title: str) -> Iterator[None]:
        """Notes a failure instead of raising it."""
        try:
            yield
        except RunError as failed:
            self.failures.append(f"{self._dataset}, {title}: {failed}")
            print(f"{self._dataset}, {title}: failed", file=sys.stderr)

    def _attempt(self, point: Point) -> Outcome | None:
        with self._noted(str(point)):
            outcome = self._run(point)
            seconds = f"{outcome.cold.seconds:.2f} s, {outcome.warm.seconds:.2f} s"
            print(f"{self._dataset}, {point}: {seconds}", file=sys.stderr, flush=True)
            self.failures += [f"{self._dataset}, {point}: {line}" for line in outcome.differences]
            return outcome
        return None

    def _run(self, point: Point) -> Outcome:
        """Run one contender once, with its server in a separate process."""
        entrant = point.entrant
        given: dict[str, Any] = {"inputs": self._join.inputs, "batch-rows": point.batch_rows}
        query = dict(entrant.query) | ({"lanes": point.lanes} if point.lanes > 1 else {})
        if entrant.serves == "penstock":
            query |= dict(self._grid.variants[point.variant].query)
        if query:
            given["query"] = json.dumps(query)
        if entrant.serves == "nothing":
            return running.contender(entrant.module, given, point.cores)
        with tempfile.TemporaryDirectory() as folder:
            if entrant.serves == "echo":
                return self._echo(point, given, folder)
            with running.serving(self._command(point, folder), point.cores) as server:
                given |= {"address": server.first, "server": server.pid}
                return running.contender(entrant.module, given, point.cores)

    def _command(self, point: Point, folder: str) -> list[str]:
        entrant = point.entrant
        listen = f"unix://{folder}/s" if entrant.over == "unix" else "127.0.0.1:0"
        if entrant.serves == "duckdb":
            command = [sys.executable, "-m", "peers.duckdb_flight_server"]
            return [*command, "--batch-rows", str(point.batch_rows), "--listen", listen]
        local = ["--local-socket", f"{folder}/private/s"] if entrant.over == "local" else []
        return self._grid.variants[point.variant].command(self._join.config, listen, *local)

    def _echo(self, point: Point, given: dict[str, Any], folder: str) -> Outcome:
        """Run a client of ready batches; then copy the plain ones in memory."""
        wire = "plain" if point.entrant.name == ECHO else "indexed"
        captured = self._capture(wire, point.batch_rows)
        with running.serving(captured.command(self._tools.program("floors"), folder), point.cores) as server:
            address = json.loads(server.first)["addresses"]["gRPC, TCP"]
            given |= {"inputs": captured.inputs, "address": address, "server": server.pid}
            outcome = running.contender(point.entrant.module, given, point.cores)
            if wire == "plain":
                self._copies.append(_copied(server, captured))
        return outcome

    def _capture(self, wire: str, batch_rows: int) -> echo.Captured:
        """Batches as the server sends them, from one stream of it."""
        if (wire, batch_rows) not in self._captured:
            source = echo.Source(self._grid.variants[""], self._join.config, self._inputs)
            self._captured[wire, batch_rows] = source.capture(batch_rows, wire, self._tools.folder)
        return self._captured[wire, batch_rows]

    def _decompress(self) -> Floor:
        files = [*self._inputs.training.files, *self._inputs.staging.files]
        found = json.loads(running.output([str(self._tools.program("pages")), *files]))
        return Floor(found["seconds"], found["cpu"], found["decompressed"], self._inputs.expected.rows)


def _copied(server: Served, captured: echo.Captured) -> Floor:
    found = server.ask({"way": "one process: copied once", "form": echo.FORM})
    if found["error"] or found["rows"] != captured.rows:
        raise RunError(f"batches were not copied: {found}")
    return Floor(found["seconds"], found["cpu"], found["bytes"], captured.rows)
