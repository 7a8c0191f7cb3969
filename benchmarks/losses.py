"""Do trainers get their rows while replicas are killed and fall silent?

Eight replicas, each with a namespace and a link of its own (`links.py`), feed streams that take a batch every 20 ms, each with
its own shard of shuffled epochs. In the first half of the time, one of the replicas is killed (SIGKILL) every ten seconds and
started again five seconds later. In the second half, one is frozen (SIGSTOP), or its link loses all packets, for 15 seconds, every
20 seconds. The checks:

- no stream raises an error;
- the batches of each stream, in order, are those of an undisturbed read, by a digest of all values;
- with `--timed`, the 99th percentile of the longest wait of streams that lost their replica is at most 1 s after it was killed,
  and 12 s after it fell silent.

With `--local`, replicas share the host's loopback device, and no link loses packets: this needs no root.

    PYTHONPATH=python/src python benchmarks/losses.py [--for SECONDS] [--replicas N] [--streams N] [--local] [--timed]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import namespaces
import tables
from links import Links
from process import machine
from replica import Replica
from running import ROOT
from streams_read import Readers, print_counts, quantile

_SIZES = tables.Sizes(rows=400_000, requests=40_000)
_MEMORY = 256 << 20
_WARM_UP = 3.0
_MBIT = 100
_KILLED, _FROZEN, _CUT = "killed", "frozen", "cut off"
_SILENT = 15.0  # seconds, longer than it may take to notice the silence
_MOST = {_KILLED: 1.0, _FROZEN: 12.0, _CUT: 12.0}  # seconds of a wait, at the 99th percentile
_LONG = 1.0  # seconds; other work of the machine rarely makes a stream wait longer
_READERS = 4  # processes


@dataclasses.dataclass(frozen=True)
class Loss:
    """One replica that was lost: how, when, and its number."""

    kind: str
    at: float
    replica: int


class Replicas:
    """The replicas, one of which is lost at times."""

    def __init__(self, given: argparse.Namespace, replicas: list[Replica], links: Links | None) -> None:
        self._binary: Path = given.binary
        self._replicas, self._links = replicas, links
        self._rng = random.Random(given.seed)
        self._lasts = {_KILLED: given.every / 2, _FROZEN: _SILENT, _CUT: _SILENT}
        self._mend: Callable[[], None] | None = None
        self._due = 0.0
        self.losses: list[Loss] = []

    @property
    def well(self) -> bool:
        """Whether all replicas are well."""
        return self._mend is None

    def lose(self, *, silent: bool) -> None:
        """One of the replicas is killed or, in turn, silenced in the ways that there are."""
        kinds = [_KILLED] if not silent else [_FROZEN] if self._links is None else [_FROZEN, _CUT]
        kind = kinds[len(self.losses) % len(kinds)]
        number = self._rng.randrange(len(self._replicas))
        replica = self._replicas[number]
        self.losses.append(Loss(kind, time.monotonic(), number))
        if kind == _KILLED:
            replica.kill()
            self._mend = functools.partial(replica.start, self._binary)
        elif kind == _FROZEN:
            replica.freeze()
            self._mend = replica.thaw
        else:
            links = self._links
            assert links is not None
            links.silence(number)
            self._mend = functools.partial(links.heal, number)
        self._due = time.monotonic() + self._lasts[kind]

    def mend(self, until: float = float("inf")) -> None:
        """The lost replica is well again if it was to be by a time; by default, it is in any case."""
        if self._mend is not None and self._due <= until:
            self._mend()
            self._mend = None


def _lose(given: argparse.Namespace, replicas: Replicas, readers: Readers) -> None:
    began = due = time.monotonic()
    while (now := time.monotonic()) < began + given.seconds:
        readers.check()
        replicas.mend(now)
        if now >= due:
            due += given.every
            if replicas.well:
                replicas.lose(silent=now >= began + given.seconds / 2)
        time.sleep(0.05)
    replicas.mend()


@contextlib.contextmanager
def _replicas(given: argparse.Namespace, folder: Path, links: Links | None) -> Iterator[list[Replica]]:
    config = tables.config_path(given.tables / "restarts")
    with contextlib.ExitStack() as ends:
        replicas = []
        for number in range(given.replicas):
            place: dict[str, Any] = {}
            if links is not None:
                place = {"host": links.hosts[number], "inside": links.replica(number)}
            replica = Replica(config, folder, number, memory=_MEMORY, **place)
            ends.callback(replica.kill)
            replica.start(given.binary)
            replicas.append(replica)
        yield replicas


def _run(
    given: argparse.Namespace, folder: Path, links: Links | None
) -> tuple[list[Loss], list[dict[str, Any]]]:
    inside = [] if links is None else links.trainers
    with (
        _replicas(given, folder, links) as replicas,
        Readers(given, _READERS, given.package, inside) as readers,
    ):
        readers.begin([replica.address for replica in replicas])
        time.sleep(_WARM_UP)
        lossy = Replicas(given, replicas, links)
        _lose(given, lossy, readers)
        time.sleep(_WARM_UP)
        return lossy.losses, readers.end(replicas[0].address)


def waits(losses: list[Loss], streams: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The longest waits of streams that lost their replica, by the kind of the loss.

    Those are the streams that went to another replica, or waited for longer than a second. A wait belongs to the last loss before it began: a stream that takes a batch every few milliseconds waits soon after its
    replica is lost, long before the next loss.
    """
    found: dict[str, list[float]] = {kind: [] for kind in _MOST}
    starts = [loss.at for loss in losses]
    for stream in streams:
        longest: dict[int, float] = {}
        for ended, seconds, went in stream["waits"]:
            before = sum(start <= ended - seconds for start in starts) - 1
            if before >= 0 and (went or seconds > _LONG):
                longest[before] = max(longest.get(before, 0.0), seconds)
        for number, seconds in longest.items():
            found[losses[number].kind].append(seconds)
    return found


def _report(given: argparse.Namespace, losses: list[Loss], streams: list[dict[str, Any]]) -> int:
    """Prints what was found. Returns 1 if a check fails."""
    print(
        f"{given.replicas} replicas, {len(streams)} streams, a batch of {given.rows} rows every {given.pause} ms, "
        f"{given.seconds:g} s, load {os.getloadavg()[0]:.1f}"
    )
    print_counts(streams)
    failed = any(s["errors"] or s["differ"] for s in streams)
    print("| replica | times | streams that lost it | longest wait, s: p50 | p90 | p99 | max |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind, longest in waits(losses, streams).items():
        times = sum(loss.kind == kind for loss in losses)
        quantiles = " | ".join(f"{quantile(longest, share):.2f}" for share in (0.5, 0.9, 0.99))
        print(f"| {kind} | {times} | {len(longest)} | {quantiles} | {max(longest, default=0):.2f} |")
        failed |= given.timed and quantile(longest, 0.99) > _MOST[kind]
    every = [seconds for s in streams for _, seconds, _ in s["waits"]]
    print(f"waits of all streams above 30 ms: {len(every)}, max {max(every, default=0):.2f} s")
    return int(failed)


def main() -> int:
    """Runs the benchmark, and prints a report. Returns 1 if a check fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--for", dest="seconds", type=float, default=1800, metavar="SECONDS")
    parser.add_argument(
        "--every", type=float, default=10, metavar="SECONDS", help="the time between two losses"
    )
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rows", type=int, default=16, help="rows of a batch")
    parser.add_argument("--pause", type=float, default=20.0, metavar="MS", help="the time of a training step")
    parser.add_argument(
        "--lookahead", type=int, default=1 << 16, metavar="BYTES", help="what a transport holds of a stream"
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed chooses other replicas")
    parser.add_argument("--local", action="store_true", help="without namespaces")
    parser.add_argument("--timed", action="store_true", help="check how long streams wait")
    parser.add_argument(
        "--package", type=Path, default=ROOT / "python" / "src", help="the folder of the Python package"
    )
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    parser.add_argument("--binary", type=Path, default=binary, help="the program")
    parser.add_argument("--tables", type=Path, default=ROOT / ".bench", help="the folder of the tables")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    given = parser.parse_args()
    why = "" if given.local else namespaces.possible()
    if why:
        print(f"there can be no links here: {why}", file=sys.stderr)
        return 2
    tables.ensure(given.tables / "restarts", _SIZES)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        links = None if given.local else ends.enter_context(Links(given.replicas, _MBIT))
        losses, streams = _run(given, Path(folder), links)
    if given.json:
        made = {
            "machine": machine(),
            "losses": [dataclasses.asdict(loss) for loss in losses],
            "streams": streams,
        }
        given.json.write_text(json.dumps(made))
    return _report(given, losses, streams)


if __name__ == "__main__":
    sys.exit(main())
