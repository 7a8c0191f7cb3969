"""How does the speed of a job grow with the number of replicas, if the network is the limit?

Each replica has a network namespace and a link of 100 Mbit/s to the namespace of the trainers (`links.py`). Eight streams, each
a process with its own shard of shuffled epochs of T, know the addresses of all replicas. For each number of replicas, new servers
and new streams read two epochs. The checks:

- every stream has the same rows in the same order with each number of replicas;
- N replicas give at least 0.9 x N times the rows/s of one;
- the CPU time for a row, of servers and of clients, is at most 1.1 times that with one.

The package of a release whose clients begin at the first address is given by `--package`; `--spread` gives each of its streams the
addresses in another order. It needs root.

    PYTHONPATH=python/src python benchmarks/replicas.py [--replicas 1,2,4,8] [--rows N] [--mbit N] [--spread] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import namespaces
import tables
from links import Links
from process import machine, machine_cpu_seconds
from replica import Replica
from running import ROOT, RunError, exit_status

_STREAMS = 8
_MEMORY = 512 << 20
_LEAST, _MOST_CPU = 0.9, 1.1
_READ_LIMIT = 1200  # seconds


@dataclasses.dataclass(frozen=True)
class Turn:
    """What all streams cost with a number of replicas.

    Attributes:
        replicas: how many there were.
        rows: of all streams.
        digests: of each stream's rows, by its shard.
        seconds: from the first stream's first call to the end of the last one.
        steady: rows/s until the first stream ended.
        servers: CPU seconds of the replicas.
        clients: CPU seconds of the streams' processes.
        others: CPU seconds of other processes of the machine meanwhile.
        read: bytes that each replica read of its storage.
        load: of the machine over the last minute, at the end.
    """

    replicas: int
    rows: int
    digests: list[int]
    seconds: float
    steady: float
    servers: float
    clients: float
    others: float
    read: list[int]
    load: float

    @property
    def rate(self) -> float:
        """Rows/s."""
        return self.rows / self.seconds


def _measure(given: argparse.Namespace, links: Links, count: int, folder: Path) -> Turn:
    config = tables.config_path(_bench(given))
    folder.mkdir()
    with contextlib.ExitStack() as ends:
        replicas = []
        for number in range(count):
            replica = Replica(
                config, folder, number, memory=_MEMORY, host=links.hosts[number], inside=links.replica(number)
            )
            ends.callback(replica.kill)
            replica.start(given.binary)
            replicas.append(replica)
        readers = [_reader(given, links, shard, replicas) for shard in range(_STREAMS)]
        for reader in readers:
            ends.callback(reader.kill)
        for reader in readers:
            if reader.stdout is None or not reader.stdout.readline():
                raise RunError("a reader ended")
        before = [replica.read_bytes() for replica in replicas]
        cpu, machine_before = sum(replica.cpu() for replica in replicas), machine_cpu_seconds()
        for reader in readers:
            assert reader.stdin is not None
            reader.stdin.write("\n")
            reader.stdin.flush()
        found = []
        for reader in readers:
            output, _ = reader.communicate(timeout=_READ_LIMIT)
            if reader.returncode:
                raise RunError("a reader failed")
            found.append(json.loads(output))
        servers = sum(replica.cpu() for replica in replicas) - cpu
        clients = sum(one["cpu"] for one in found)
        first = min(one["ended"] for one in found)
        began = min(one["began"] for one in found)
        return Turn(
            replicas=count,
            rows=sum(one["rows"] for one in found),
            digests=[one["digest"] for one in found],
            seconds=max(one["ended"] for one in found) - began,
            steady=sum(_rows_at(one["counts"], first) for one in found) / (first - began),
            servers=servers,
            clients=clients,
            others=machine_cpu_seconds() - machine_before - servers - clients,
            read=[now.read_bytes() - then for now, then in zip(replicas, before, strict=True)],
            load=os.getloadavg()[0],
        )


def _reader(
    given: argparse.Namespace, links: Links, shard: int, replicas: Sequence[Replica]
) -> subprocess.Popen[str]:
    at = shard % len(replicas) if given.spread else 0
    servers = ",".join(replica.address for replica in [*replicas[at:], *replicas[:at]])
    command = [sys.executable, str(ROOT / "benchmarks" / "replicas_reader.py"), str(shard)]
    command += ["--of", str(_STREAMS), "--epochs", str(given.epochs), "--servers", servers]
    environment = {**os.environ, "PYTHONPATH": str(given.package or ROOT / "python" / "src")}
    pipe = subprocess.PIPE
    return subprocess.Popen([*links.trainers, *command], env=environment, stdin=pipe, stdout=pipe, text=True)


def _rows_at(counts: list[tuple[float, int]], at: float) -> int:
    return max((rows for when, rows in counts if when <= at), default=0)


def _bench(given: argparse.Namespace) -> Path:
    folder: Path = given.tables / "replicas"
    return folder


def _report(turns: list[Turn]) -> int:
    """Prints the turns, and returns 1 if a check fails."""
    one = turns[0]
    print(
        "| replicas | rows/s | of one | until the first stream ends, rows/s | of one | servers, CPU µs/row | of one "
        "| clients, CPU µs/row | of one | storage, MB | most of one replica | other work, cores | load |"
    )
    print("|---:|" + "---:|" * 12)
    missed = []
    for turn in turns:
        servers, clients = (1e6 * cpu / turn.rows for cpu in (turn.servers, turn.clients))
        servers_of, clients_of = (
            cpu / turn.rows / (first / one.rows)
            for cpu, first in ((turn.servers, one.servers), (turn.clients, one.clients))
        )
        speed = turn.rate / one.rate
        print(
            f"| {turn.replicas} | {turn.rate:,.0f} | {speed:.2f} | {turn.steady:,.0f} | {turn.steady / one.steady:.2f} "
            f"| {servers:.2f} | {servers_of:.2f} | {clients:.2f} | {clients_of:.2f} | {sum(turn.read) / 1e6:.0f} "
            f"| {max(turn.read) / 1e6:.0f} | {turn.others / turn.seconds:.2f} | {turn.load:.1f} |"
        )
        if turn.digests != one.digests:
            missed.append(f"{turn.replicas} replicas: other rows, or another order")
        if speed < _LEAST * turn.replicas / one.replicas:
            missed.append(f"{turn.replicas} replicas: {speed:.2f} times the rows/s of one")
        for who, ratio in (("servers", servers_of), ("clients", clients_of)):
            if ratio > _MOST_CPU:
                missed.append(f"{turn.replicas} replicas: {ratio:.2f} times the CPU of {who} for a row")
    return exit_status(missed)


def main() -> int:
    """Measures, and prints a report. Returns 1 if a check fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", default="1,2,4,8", help="how many, one number for each turn")
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument(
        "--epochs", type=int, default=2, help="how many each stream reads, one after the other"
    )
    parser.add_argument("--mbit", type=int, default=100, help="Mbit/s of each link")
    parser.add_argument("--spread", action="store_true", help="each stream has another first address")
    parser.add_argument("--package", type=Path, help="the folder of another release's Python package")
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    parser.add_argument("--binary", type=Path, default=binary, help="the program")
    parser.add_argument("--tables", type=Path, default=ROOT / ".bench", help="the folder of the tables")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    given = parser.parse_args()
    if why := namespaces.possible():
        print(f"there can be no links here: {why}", file=sys.stderr)
        return 2
    tables.ensure(_bench(given), tables.Sizes(rows=given.rows, requests=given.rows // 10))
    counts = [int(count) for count in given.replicas.split(",")]
    with tempfile.TemporaryDirectory() as folder, Links(max(counts), given.mbit) as links:
        turns = [
            _measure(given, links, count, Path(folder) / str(number)) for number, count in enumerate(counts)
        ]
    if given.json:
        made: dict[str, Any] = {"machine": machine(), "turns": [dataclasses.asdict(turn) for turn in turns]}
        given.json.write_text(json.dumps(made, indent=1))
    return _report(turns)


if __name__ == "__main__":
    sys.exit(main())
