"""Runs and measures every contender in the same way.

A process reads the joined table three times. The first pass is cold: the server, if there is one, and the
engine have read nothing yet (the page cache is warm, because contenders take turns). The second is warm. Both
are timed, count rows and touch nothing else, so that no contender pays for checks. After the second, peaks of
memory are taken; the third pass verifies sums of all columns. Imports, connections and the start of servers
come before all of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
    the disk that holds the tables; `query` is what a query asks beside the data
    set and the batch size.
    """

    inputs: Inputs
    scratch: Path
    batch_rows: int
    address: str | None
    server: int | None
    query: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Pass:
    """One timed pass.

    `first` is when the first batch came. CPU seconds are user and system time; `elsewhere` is how many cores
    the machine gave to other work meanwhile.
    """

    batches: int
    seconds: float
    first: float
    client_cpu: float
    server_cpu: float
    elsewhere: float


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The report of a process.

    Memory is the peak of both timed passes and of all before them, in bytes; `written` are bytes of files.
    """

    differences: list[str]
    rows: int
    cold: Pass
    warm: Pass
    client_peak: int
    server_peak: int
    written: int = 0

    @property
    def peak(self) -> int:
        """The peaks of server and client together."""
        return self.client_peak + self.server_peak

    @staticmethod
    def from_json(text: dict[str, Any]) -> Outcome:
        """Read what `dataclasses.asdict` and JSON made of an outcome."""
        return Outcome(**{**text, "cold": Pass(**text["cold"]), "warm": Pass(**text["warm"])})


def parse() -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--batch-rows", type=int, required=True)
    parser.add_argument("--address")
    parser.add_argument("--server", type=int)
    parser.add_argument("--query", type=json.loads, default={})
    arguments = parser.parse_args()
    return Settings(
        inputs=Inputs.load(arguments.inputs),
        scratch=arguments.inputs.parent,
        batch_rows=arguments.batch_rows,
        address=arguments.address,
        server=arguments.server,
        query=arguments.query,
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
    """Measure a cold and a warm pass, verify, print the outcome.

    The answer is restricted to `columns`, which the contender must give, all of
    them and no others. `written` is the number of bytes that the last pass wrote.
    """
    expected = settings.inputs.expected.restricted(columns)
    cold_rows, cold = _measure(contender, settings)
    warm_rows, warm = _measure(contender, settings)
    differences = [
        f"{title} pass: {rows} rows instead of {expected.rows}"
        for title, rows in (("cold", cold_rows), ("warm", warm_rows))
        if rows != expected.rows
    ]
    client_peak, server_peak = process.peak_bytes(process.own_id()), process.peak_bytes(settings.server)
    differences += _verify(contender, expected)
    outcome = Outcome(differences, warm_rows, cold, warm, client_peak, server_peak, written())
    print(json.dumps(dataclasses.asdict(outcome)))


def joined(inputs: Inputs) -> list[str]:
    """All columns of the join."""
    return inputs.training.columns + inputs.features


def training_only(inputs: Inputs) -> list[str]:
    """The columns of the training table."""
    return inputs.training.columns


def _verify(contender: Contender[Batch], expected: Summary) -> list[str]:
    summary = Summary(factors=expected.factors)
    for batch in contender.stream():
        for part in contender.arrow(batch):
            summary.add(part)
    return summary.differences(expected)


def _measure(contender: Contender[Batch], settings: Settings) -> tuple[int, Pass]:
    """Read once; gives the rows and what the pass cost."""
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
    return rows, Pass(batches, seconds, first, client_cpu, server_cpu, max(0.0, elsewhere))
