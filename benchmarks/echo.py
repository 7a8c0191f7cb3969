"""The echo: batches that a server sent, sent again from memory by Penstock's Flight server."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from checks import Summary
from inputs import Inputs
from reading import batches
from running import ROOT, Program, RunError, serving

import penstock

# The form's name, which clients of the echo give as the data set.
FORM = "batches"

# The bytes of the batches that a stream repeats, at most: far more than a processor's caches hold.
_BYTES = 128 << 20


@dataclasses.dataclass(frozen=True)
class Captured:
    """Batches of a stream in a file, and what a client of the echo is given."""

    file: Path
    inputs: Path
    rows: int  # of the stream
    batch_rows: int

    def command(self, floors: Path, folder: str) -> list[str]:
        """The command of a server that repeats them."""
        command = [str(floors), "-role", "server", "-folder", folder, "-form", f"{FORM}={self.file}"]
        return [*command, "-rows", str(self.rows), "-batch-rows", str(self.batch_rows)]


def build(package: str, folder: Path) -> Path:
    """Build one of the benchmarks' Go programs."""
    program = folder / package
    subprocess.run(["go", "build", "-o", str(program), f"./benchmarks/{package}"], cwd=ROOT, check=True)
    return program


@dataclasses.dataclass(frozen=True)
class Source:
    """A data set of a server, whose batches are captured."""

    program: Program
    config: Path
    inputs: Inputs

    def capture(self, batch_rows: int, wire: str, folder: Path) -> Captured:
        """Read a stream, and keep batches from all over it, as many whole ones as a stream has."""
        kept = self._read(batch_rows, wire)
        size = kept[0].num_rows
        total = max(1, self.inputs.expected.rows // size)
        place = folder / f"{self.inputs.dataset}-{wire}-{batch_rows}"
        with pa.ipc.new_stream(place.with_suffix(".arrows"), kept[0].schema) as writer:
            for batch in kept:
                writer.write_batch(batch)
        answer = Summary(factors=self.inputs.expected.factors)
        for index, batch in enumerate(kept):
            one = Summary(factors=answer.factors)
            one.add(penstock.expand(batch))
            answer.add_summary(one, len(range(index, total, len(kept))))
        echoed = dataclasses.replace(self.inputs, dataset=FORM, expected=answer)
        echoed.save(place.with_suffix(".json"))
        return Captured(place.with_suffix(".arrows"), place.with_suffix(".json"), total * size, size)

    def _read(self, batch_rows: int, wire: str) -> list[pa.RecordBatch]:
        with serving(self.program.command(self.config, "127.0.0.1:0")) as server:
            query = {"dataset": self.inputs.dataset, "batch_rows": batch_rows, "wire": wire}
            return _spread(batches(server.first, query), self.inputs.expected.rows, batch_rows)


def _spread(stream: Iterator[pa.RecordBatch], rows: int, batch_rows: int) -> list[pa.RecordBatch]:
    """Whole batches at equal distances; the only one of a small stream may be shorter."""
    total = max(1, rows // batch_rows)
    kept: list[pa.RecordBatch] = []
    step = 1
    for index, batch in zip(range(total), stream, strict=False):
        if index == 0:
            step = max(1, -(-total * batch.get_total_buffer_size() // _BYTES))
        if index % step == 0:
            kept.append(batch)
    if not kept:
        raise RunError("the stream has no batches")
    return kept
