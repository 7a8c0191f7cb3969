"""What do batches in mapped memory cost, compared with the same batches over the network?

Jobs on the server's host read T through `penstock serve --local-socket`, with the Python package, in
processes of their own: one and eight at once, as plain and as indexed batches, over TCP and in mapped memory
in turn. A job counts rows, or also reads every byte. One job also reads lineitem and orders of TPC-H, at
scale factor 1. Times are those of all jobs together, from a common start; the first turn of each server is
not counted.

    python benchmarks/mapped.py [--rounds N]
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import tpch
from process import cpu_seconds

ROOT = Path(__file__).resolve().parent.parent
T = ROOT / ".bench" / "full" / "penstock.yaml"
TPCH = ROOT / ".bench" / "tpch-1"
ROWS = {"t": 4_000_000, "tpch": 6_001_215}
BATCH_ROWS = 8192

# Limits for batches in mapped memory: CPU time of server and client for one job, divided by that
# over TCP, with T and with TPC-H; CPU time of the server for eight jobs, divided by that for one.
ONE_JOB = 0.55
ONE_JOB_OF_TPCH = 0.75
EIGHT_JOBS = 1.5

_TPCH_DATASET = """
datasets:
  tpch:
    training:
      table: tpch.lineitem
    key: [l_orderkey]
    staging:
      - table: tpch.orders
        key: {l_orderkey: o_orderkey}
"""

# A job's program, with its address, the data set, the form of its batches, the way, and what it reads.
_JOB = f"""
import os, sys
import numpy as np
import penstock
address, dataset, wire, way, reads = sys.argv[1:]
def touch(array):
    for buffer in array.buffers():
        if buffer is not None and buffer.size >= 8:
            np.frombuffer(buffer, np.uint64, buffer.size // 8).max()
    if hasattr(array, "dictionary"):
        touch(array.dictionary)
client = penstock.connect(address, local=way == "mapped")
client.plan(dataset, wire=wire)
print("ready", flush=True)
sys.stdin.readline()
before, rows = os.times(), 0
for batch in client.read(dataset, wire=wire, batch_rows={BATCH_ROWS}):
    rows += batch.num_rows
    if reads == "all":
        for column in batch.columns:
            touch(column)
after = os.times()
print(rows, after.user + after.system - before.user - before.system, flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """What the jobs of a turn read."""

    wire: str
    jobs: int
    reads: str = "nothing"  # of a batch besides its rows, or "all"
    dataset: str = "t"


@dataclasses.dataclass(frozen=True)
class Turn:
    """What one turn cost: seconds until the last job ended, CPU seconds of the server, and of each job."""

    seconds: float
    server: float
    client: float


class Server:
    """A server with a local socket. Leaving the block ends it."""

    def __init__(self, config: Path, folder: str) -> None:
        command = [str(ROOT / "bin" / "penstock"), "serve", "--config", str(config)]
        command += ["--listen", "127.0.0.1:0", "--log-level", "error"]
        command += ["--local-socket", f"{folder}/private/local.sock"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = _line(self._process.stdout)
        self.pid = self._process.pid

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def turn(self, case: Case, way: str) -> Turn:
        """Runs the jobs of a case at once."""
        jobs = [
            subprocess.Popen(
                [sys.executable, "-c", _JOB, self.address, case.dataset, case.wire, way, case.reads],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(case.jobs)
        ]
        for job in jobs:
            _line(job.stdout)
        before, began = cpu_seconds(self.pid), time.monotonic()
        for job in jobs:
            assert job.stdin is not None
            job.stdin.write("\n")
            job.stdin.flush()
        ends = [_line(job.stdout).split() for job in jobs]
        seconds, server = time.monotonic() - began, cpu_seconds(self.pid) - before
        for job in jobs:
            job.wait()
        expected = ROWS[case.dataset]
        if [int(rows) for rows, _ in ends] != [expected] * case.jobs:
            raise RuntimeError(f"the jobs received {ends} rows and CPU seconds, not {expected} rows each")
        return Turn(seconds, server, statistics.fmean(float(cpu) for _, cpu in ends))


def _configs(folder: Path) -> dict[str, Path]:
    """The configuration of the server of each data set. Makes the tables of TPC-H if they do not exist."""
    tpch.ensure(TPCH, "1")
    config = folder / "tpch.yaml"
    config.write_text(tpch.config_path(TPCH).read_text() + _TPCH_DATASET)
    return {"t": T, "tpch": config}


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    text = stream.readline().strip()
    if not text:
        raise RuntimeError("a process ended without output")
    return text


def main() -> int:
    """Measures all cases, and prints medians and ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    cases = [Case(wire, jobs) for wire in ("plain", "indexed") for jobs in (1, 8)]
    cases += [Case("plain", 1, "all"), Case("indexed", 1, "all"), Case("plain", 1, dataset="tpch")]
    medians: dict[tuple[Case, str], Turn] = {}
    print(
        "| data set | batches | jobs | read | way | seconds | CPU s of the server | CPU s of a job |\n|---|---|---:|---|---|---:|---:|---:|"
    )
    for case in cases:
        turns: dict[str, list[Turn]] = {"network": [], "mapped": []}
        with (
            tempfile.TemporaryDirectory() as folder,
            Server(_configs(Path(folder))[case.dataset], folder) as server,
        ):
            for turn in range(rounds + 1):
                for way, made in turns.items():
                    one = server.turn(case, way)
                    if turn > 0:
                        made.append(one)
        for way, made in turns.items():
            median = Turn(
                *(statistics.median(values) for values in zip(*map(dataclasses.astuple, made), strict=True))
            )
            medians[case, way] = median
            print(
                f"| {case.dataset} | {case.wire} | {case.jobs} | {case.reads} | {way} | {median.seconds:.2f} | {median.server:.2f} | {median.client:.2f} |",
                flush=True,
            )
    return _verdict(medians)


def _verdict(medians: dict[tuple[Case, str], Turn]) -> int:
    """Prints the ratios that have a bound. Returns 1 if one is missed."""
    missed = 0
    for wire in ("plain", "indexed"):
        one, eight = Case(wire, 1), Case(wire, 8)
        mapped, network = medians[one, "mapped"], medians[one, "network"]
        cpu = (mapped.server + mapped.client) / (network.server + network.client)
        jobs = medians[eight, "mapped"].server / mapped.server
        bounds = [("CPU of server and client, of that over TCP", cpu, ONE_JOB if wire == "plain" else None)]
        bounds.append(("CPU of the server for 8 jobs, by that for one", jobs, EIGHT_JOBS))
        for what, ratio, bound in bounds:
            at_most = "" if bound is None else f" (at most {bound})"
            print(f"{wire}: {what}: {ratio:.2f}{at_most}")
            missed += bound is not None and ratio > bound
    one = Case("plain", 1, dataset="tpch")
    mapped, network = medians[one, "mapped"], medians[one, "network"]
    cpu = (mapped.server + mapped.client) / (network.server + network.client)
    print(f"tpch: CPU of server and client, of that over TCP: {cpu:.2f} (at most {ONE_JOB_OF_TPCH})")
    missed += cpu > ONE_JOB_OF_TPCH
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
