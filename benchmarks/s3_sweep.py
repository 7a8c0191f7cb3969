"""What does one server for eight jobs save, if the tables are on S3?

T is on an S3 gateway on this machine, behind a proxy that adds a delay to each request (`benchmarks/s3
-serve`). Eight jobs read all of it at once: each from a server of its own, which shares nothing, over TCP; and all
from one server, over TCP and in mapped memory. Ways take turns; servers are new in each turn, and so know no
file. Gateway, proxy, servers and jobs share the machine.

    make build .venv/bench/.stamp
    PYTHONPATH=python/src .venv/bench/bin/python benchmarks/s3_sweep.py [--rounds N]

It prints medians, and exits with 1 if one server gives fewer than 1.7 times the rows per second of eight
servers over TCP, or fewer than 4 times in mapped memory.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import s3_tables
import tables
from jobs import ROOT, Job, Server, line, read_at_once

HOME = ROOT / ".bench" / "s3"
JOBS = 8
LEAST = {"network": 1.7, "mapped": 4.0}


@contextlib.contextmanager
def gateway(delay: str) -> Iterator[str]:
    """An S3 gateway that delays each request. Yields its URL."""
    (HOME / "objects" / s3_tables.BUCKET).mkdir(parents=True, exist_ok=True)
    command = ["go", "run", "./benchmarks/s3", "-serve", str(HOME / "objects"), "-delay", delay]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield line(process.stdout)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def turn(config: Path, wire: str, way: str) -> float:
    """Seconds until the last of all jobs has ended. `way` is "apart" or a way of one server."""
    with contextlib.ExitStack() as ends:
        servers = []
        for _ in range(JOBS if way == "apart" else 1):
            settings = ["--memory", "1GiB", "--share-batches", "0"] if way == "apart" else []
            folder = ends.enter_context(tempfile.TemporaryDirectory())
            servers.append(ends.enter_context(Server(config, folder, *settings)))
        over = "network" if way == "apart" else way
        ended = read_at_once([Job(servers[i % len(servers)].address, "t", wire, over) for i in range(JOBS)])
    expected = tables.Sizes().rows
    if ended.rows != [expected] * JOBS:
        raise RuntimeError(f"the jobs received {ended.rows} rows, not {expected} each")
    return ended.seconds


def main() -> int:
    """Measures, and prints medians and ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", default="20ms")
    arguments = parser.parse_args()
    with gateway("0s") as endpoint:
        s3_tables.ensure(HOME, tables.Sizes(), endpoint)
    missed = 0
    print(
        "| batches | eight servers: Mrows/s | one server, TCP | one server, mapped memory |\n|---|---:|---:|---:|"
    )
    with gateway(arguments.delay) as endpoint, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "penstock.yaml"
        config.write_text(s3_tables.config(HOME, endpoint))
        for wire in ("plain", "indexed"):
            seconds: dict[str, list[float]] = {"apart": [], "network": [], "mapped": []}
            for _ in range(arguments.rounds):
                for way, made in seconds.items():
                    made.append(turn(config, wire, way))
            speed = {
                way: JOBS * tables.Sizes().rows / statistics.median(made) / 1e6
                for way, made in seconds.items()
            }
            cells = [f"{speed['apart']:.2f}"]
            for way, least in LEAST.items():
                ratio = speed[way] / speed["apart"]
                cells.append(f"{speed[way]:.2f} ({ratio:.2f} x)")
                missed += ratio < least
            print(f"| {wire} | {' | '.join(cells)} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
