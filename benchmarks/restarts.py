"""Do trainers notice that servers are restarted one after the other?

Three servers of T, each with the addresses of all, feed streams that take a batch every 20 ms, each with its own shard of a
shuffled epoch, again and again. The servers are told to stop (SIGTERM) and started again in turn. With `--old`, every other
restart starts the program of another release. The checks:

- no stream raises an error, and none logs a warning;
- the batches of each stream, in order, are those of an undisturbed read, by a digest of all values.

For each restart and stream, the longest wait for a batch meanwhile is noted.

    python benchmarks/restarts.py [--restarts N] [--old PROGRAM] [--package FOLDER]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tables
from replica import Replica
from running import ROOT
from streams_read import Readers, print_counts, quantile

_SIZES = tables.Sizes(rows=400_000, requests=40_000)
_SERVERS = 3
_READERS = 2  # processes
_WARM_UP = 3.0
_MEMORY = 1 << 30


@dataclasses.dataclass(frozen=True)
class Restart:
    """One restart: when the server was told to stop, how long it took to end, and to serve again."""

    at: float
    ending: float
    starting: float


def _roll(given: argparse.Namespace, replicas: list[Replica], programs: list[Path]) -> list[Restart]:
    """Restarts the servers in turn. Each round of restarts starts the next program."""
    restarts = []
    for number in range(given.restarts):
        replica = replicas[number % len(replicas)]
        at = time.monotonic()
        ending = replica.stop()
        began = time.monotonic()
        replica.start(programs[number // len(replicas) % len(programs)])
        restarts.append(Restart(at, ending, time.monotonic() - began))
        time.sleep(given.settle)
    return restarts


def _run(given: argparse.Namespace, folder: Path) -> tuple[list[Restart], list[dict[str, Any]]]:
    bench = given.tables / "restarts"
    tables.ensure(bench, _SIZES)
    config = tables.config_path(bench)
    replicas = [Replica(config, folder, number, memory=_MEMORY) for number in range(_SERVERS)]
    programs = [given.new, given.old] if given.old else [given.new]
    try:
        for replica in replicas:
            replica.start(programs[-1])
        with Readers(given, _READERS, given.package) as readers:
            readers.begin([replica.address for replica in replicas])
            time.sleep(_WARM_UP)
            restarts = _roll(given, replicas, programs)
            time.sleep(given.settle)
            found = readers.end(replicas[0].address)
    finally:
        for replica in replicas:
            replica.kill()
    return restarts, found


def _longest(restarts: list[Restart], stream: dict[str, Any], *, moved: bool) -> list[float]:
    """The longest wait of a stream after each restart until the next one; with moved, only of waits in which it moved."""
    waits = [(at, wait) for at, wait, went in stream["waits"] if went or not moved]
    starts = [restart.at for restart in restarts]
    ends = [*starts[1:], float("inf")]
    found = []
    for start, end in zip(starts, ends, strict=True):
        inside = [wait for at, wait in waits if start <= at < end]
        if inside or not moved:
            found.append(max(inside, default=0.0))
    return found


def _report(given: argparse.Namespace, restarts: list[Restart], streams: list[dict[str, Any]]) -> int:
    """Prints what was found. Returns 1 if a check fails."""
    print(
        f"{len(restarts)} restarts of {_SERVERS} servers, {len(streams)} streams, a batch of {given.rows} rows every {given.pause} ms"
    )
    print_counts(streams)
    for what, moved in (("all streams", False), ("streams that went to another server", True)):
        longest = [wait for s in streams for wait in _longest(restarts, s, moved=moved)]
        quantiles = ", ".join(f"p{share:g} {quantile(longest, share / 100):.3f} s" for share in (50, 90, 99))
        print(
            f"longest wait per restart, {what}: {quantiles}, max {max(longest, default=0):.3f} s, n {len(longest)}"
        )
    for name in ("ending", "starting"):
        took = [getattr(restart, name) for restart in restarts]
        print(f"{name}: p50 {quantile(took, 0.5):.2f} s, max {max(took):.2f} s")
    return int(any(s["errors"] or s["differ"] for s in streams))


def main() -> int:
    """Runs the benchmark, and prints a report. Returns 1 if a check fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--rows", type=int, default=16, help="rows of a batch")
    parser.add_argument("--pause", type=float, default=20.0, metavar="MS", help="the time of a training step")
    parser.add_argument(
        "--settle", type=float, default=1.0, metavar="S", help="the time between two restarts"
    )
    parser.add_argument(
        "--lookahead",
        type=int,
        default=1 << 16,
        metavar="BYTES",
        help="what a transport holds of a stream, by default about two batches; 0: the default of the package",
    )
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    parser.add_argument("--new", type=Path, default=binary, help="the program")
    parser.add_argument(
        "--old", type=Path, help="the program of another release, for every other round of restarts"
    )
    parser.add_argument(
        "--package", type=Path, default=ROOT / "python" / "src", help="the folder of the Python package"
    )
    parser.add_argument("--tables", type=Path, default=ROOT / ".bench", help="the folder of the tables")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        restarts, streams = _run(given, Path(folder))
    return _report(given, restarts, streams)


if __name__ == "__main__":
    sys.exit(main())
