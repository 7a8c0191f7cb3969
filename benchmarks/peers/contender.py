"""Runs and measures every contender in the same way.

A process reads the joined table twice. The first pass is the warm-up: it fills
the page cache, brings servers and engines to their working state, and its rows
and checksums are the ones verified. The second pass is timed, counts rows and
touches nothing else, so that no contender pays for checks. Imports, connections
and the start of servers lie before both.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import process
import pyarrow as pa
from checks import Summary
from inputs import Inputs

# After its last batch, an engine or a server still frees memory. That work is
# counted too, for all alike.
_SETTLE_SECONDS = 0.2


Batch = TypeVar("Batch")


class Contender(Protocol[Batch]):
    """One way to read the joined table. Batches have the contender's own type."""

    def stream(self) -> Iterator[Batch]:
        """Start the query again and yield its batches."""
        ...

    def rows(self, batch: Batch) -> int:
        """The number of rows of a batch, without extra cost."""
        ...

    def arrow(self, batch: Batch) -> Iterable[pa.RecordBatch]:
        """The batch as Arrow; called in the warm-up only."""
        ...


@dataclasses.dataclass(frozen=True)
class Settings:
    """The command line.

    `server` is the process id of the server, or None; `scratch` is a folder on
    the disk that holds the tables.
    """

    inputs: Inputs
    scratch: Path
    batch_rows: int
    address: str | None
    server: int | None


@dataclasses.dataclass
class Outcome:
    """The report of a process.

    Seconds are of the timed pass. CPU seconds are user and system time of that
    pass; `elsewhere` is how many cores the machine gave to other work meanwhile. Memory
    is the peak of the process's whole life, in bytes; `written` are bytes of
    files.
    """

    differences: list[str]
    rows: int
    batches: int
    seconds: float
    first: float
    client_cpu: float
    server_cpu: float
    client_peak: int
    server_peak: int
    elsewhere: float
    written: int = 0


def parse() -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--batch-rows", type=int, required=True)
    parser.add_argument("--address")
    parser.add_argument("--server", type=int)
    arguments = parser.parse_args()
    return Settings(
        inputs=Inputs.load(arguments.inputs),
        scratch=arguments.inputs.parent,
        batch_rows=arguments.batch_rows,
        address=arguments.address,
        server=arguments.server,
    )


def main(make: Callable[[Settings], Contender[Batch]], columns: Callable[[Inputs], list[str]]) -> None:
    """Make the contender, verify and measure it."""
    settings = parse()
    run(make(settings), settings, columns(settings.inputs))


def run(
    contender: Contender[Batch],
    settings: Settings,
    columns: list[str],
    written: Callable[[], int] = lambda: 0,
) -> None:
    """Verify once, measure once, print the outcome.

    The answer is restricted to `columns`, which the contender must give, all of
    them and no others. `written` tells the bytes that the last pass wrote.
    """
    expected = settings.inputs.expected.restricted(columns)
    differences = _verify(contender, expected)
    outcome = _measure(contender, settings)
    if outcome.rows != expected.rows:
        differences.append(f"timed pass: {outcome.rows} rows instead of {expected.rows}")
    outcome.differences = differences
    outcome.written = written()
    print(json.dumps(dataclasses.asdict(outcome)))


def joined(inputs: Inputs) -> list[str]:
    """All columns of the join."""
    return inputs.training.columns + inputs.features


def training_only(inputs: Inputs) -> list[str]:
    """The columns of the training table."""
    return inputs.training.columns


def _verify(contender: Contender[Batch], expected: Summary) -> list[str]:
    summary = Summary()
    for batch in contender.stream():
        for part in contender.arrow(batch):
            summary.add(part)
    return summary.differences(expected)


def _measure(contender: Contender[Batch], settings: Settings) -> Outcome:
    me = process.own_id()
    before = process.cpu_seconds(me)
    served = process.cpu_seconds(settings.server)
    busy, since = process.machine_cpu_seconds(), time.perf_counter()
    rows = batches = 0
    first = 0.0
    begin = time.perf_counter()
    for batch in contender.stream():
        if batches == 0:
            first = time.perf_counter() - begin
        batches += 1
        rows += contender.rows(batch)
        del batch
    seconds = time.perf_counter() - begin
    time.sleep(_SETTLE_SECONDS)
    client_cpu = process.cpu_seconds(me) - before
    server_cpu = process.cpu_seconds(settings.server) - served
    others = process.machine_cpu_seconds() - busy - client_cpu - server_cpu
    elsewhere = others / (time.perf_counter() - since)
    return Outcome(
        differences=[],
        rows=rows,
        batches=batches,
        seconds=seconds,
        first=first,
        client_cpu=client_cpu,
        server_cpu=server_cpu,
        client_peak=process.peak_bytes(me),
        server_peak=process.peak_bytes(settings.server),
        elsewhere=max(0.0, elsewhere),
    )
