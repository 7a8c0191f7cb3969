"""How much of a stream's time is spent on tensors: T at 8,192 rows, plain, dense and indexed.

Each form is read twice in each run: its record batches alone, and converted by
`penstock.torch.Converter`. Forms and passes take turns. It prints medians: rows/s of
both, their ratio, the CPU time that the converting thread takes for a batch, its share of
the pass's seconds, and the wall-clock time of the same calls, which includes server and
transport on a machine with few cores. The exit code is 1 if a stream is more than a tenth
slower for being converted; TorchRec's tensor, which is made of the converted batch, does
not count.

    make build .venv/torch/.stamp .venv/bench/.stamp
    .venv/bench/bin/python benchmarks/tables.py .bench/full
    .venv/torch/bin/python benchmarks/torch_conversion.py
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import running
import torch
from peers.into_torch import FLOATS, STAGED_FLOATS, rules

import penstock
from penstock.torch import Batch, Converter

ROOT = Path(__file__).parents[1]
BATCH_ROWS = 8_192
MOST = 0.10


@dataclasses.dataclass(frozen=True)
class Form:
    """A way to read T, and to convert each batch.

    Attributes:
        name: as it is printed.
        query: fields of the query.
        after: what is done with the tensors; timed with the conversion.
        counts: whether its ratio decides the exit code.
    """

    name: str
    query: dict[str, Any]
    after: Callable[[Batch], Any] = lambda batch: batch
    counts: bool = True


FORMS = (
    Form("plain, lists as values and offsets", {"wire": "plain"}),
    Form(
        "plain, floats dense",
        {
            "wire": "plain",
            "columns": ["request_id", "item_id", "i0", "i1", "history"],
            "dense": {"x": FLOATS, "u": {"columns": STAGED_FLOATS, "fill": 0}},
        },
    ),
    Form("indexed", {"wire": "indexed"}),
    Form(
        "indexed, ids as one KeyedJaggedTensor",
        {"wire": "indexed"},
        lambda batch: batch.to_kjt(["history", "item_id"]),
        counts=False,
    ),
)


@dataclasses.dataclass
class Timed:
    """Seconds of one form, one entry per run."""

    bare: list[float] = dataclasses.field(default_factory=list)
    converted: list[float] = dataclasses.field(default_factory=list)
    conversion: list[float] = dataclasses.field(default_factory=list)
    walled: list[float] = dataclasses.field(default_factory=list)
    rows: int = 0

    def ratio(self) -> float:
        """The speed with tensors relative to that of batches alone."""
        return statistics.median(a / b for a, b in zip(self.bare, self.converted, strict=True))

    def share(self) -> float:
        """The share of the conversion's CPU time in a converted pass."""
        return statistics.median(a / b for a, b in zip(self.conversion, self.converted, strict=True))

    def walled_share(self) -> float:
        """The share of a converted pass that was spent in the conversion."""
        return statistics.median(a / b for a, b in zip(self.walled, self.converted, strict=True))


@contextlib.contextmanager
def serving(config: Path) -> Iterator[str]:
    """Starts the server, and returns its address."""
    program = running.Program(Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock")))
    with running.serving(program.command(config, "127.0.0.1:0")) as server:
        yield server.first


def bare(client: penstock.Client, form: Form, limit: int) -> tuple[float, int]:
    """Seconds and rows of reading alone."""
    began, rows = time.perf_counter(), 0
    with client.read("t", batch_rows=BATCH_ROWS, limit=limit, **form.query) as stream:
        for batch in stream:
            rows += batch.num_rows
    return time.perf_counter() - began, rows


def converted(client: penstock.Client, form: Form, limit: int) -> tuple[float, float, float, int]:
    """Seconds of reading and converting, CPU seconds of converting, seconds within it, and rows."""
    began, spent, inside, rows = time.perf_counter(), 0.0, 0.0, 0
    with client.read("t", batch_rows=BATCH_ROWS, limit=limit, **form.query) as stream:
        convert = Converter(stream.schema, **rules(stream.schema))
        for batch in stream:
            before, worked = time.perf_counter(), time.thread_time()
            form.after(convert(batch))
            spent += time.thread_time() - worked
            inside += time.perf_counter() - before
            rows += batch.num_rows
    return time.perf_counter() - began, spent, inside, rows


def main() -> int:
    """Runs all forms and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / ".bench" / "full" / "penstock.yaml")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many rows a pass reads")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    timed = {form.name: Timed() for form in FORMS}
    with serving(arguments.config) as address, penstock.connect(address) as client:
        for run in range(arguments.runs + 1):  # the first one warms up
            for form in FORMS:
                seconds, rows = bare(client, form, arguments.rows)
                whole, spent, inside, again = converted(client, form, arguments.rows)
                if rows != again:
                    raise SystemExit(f"{form.name}: {rows} rows alone, {again} rows converted")
                if run == 0:
                    continue
                one = timed[form.name]
                one.bare.append(seconds)
                one.converted.append(whole)
                one.conversion.append(spent)
                one.walled.append(inside)
                one.rows = rows
    print(
        "| form | batches alone, Mrows/s | as tensors, Mrows/s | ratio | conversion, CPU ms a batch | its share | wall |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, one in timed.items():
        alone, whole = statistics.median(one.bare), statistics.median(one.converted)
        each = statistics.median(one.conversion) / (one.rows / BATCH_ROWS) * 1e3
        print(
            f"| {name} | {one.rows / alone / 1e6:.2f} | {one.rows / whole / 1e6:.2f} "
            f"| {one.ratio():.2f} | {each:.3f} | {one.share():.1%} | {one.walled_share():.1%} |"
        )
    return int(any(timed[form.name].ratio() < 1 - MOST for form in FORMS if form.counts))


if __name__ == "__main__":
    sys.exit(main())
