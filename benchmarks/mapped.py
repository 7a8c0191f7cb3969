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
import sys
import tempfile

import joins
from jobs import ROOT, Job, Server, read_at_once

ROWS = {"t": 4_000_000, "tpch": 6_001_215}

# Limits for batches in mapped memory: CPU time of server and client for one job, divided by that
# over TCP, with T and with TPC-H; CPU time of the server for eight jobs, divided by that for one.
ONE_JOB = 0.55
ONE_JOB_OF_TPCH = 0.75
EIGHT_JOBS = 1.5


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


def _turn(server: Server, case: Case, way: str) -> Turn:
    """Runs the jobs of a case at once."""
    before = server.cpu()
    ended = read_at_once([Job(server.address, case.dataset, case.wire, way, case.reads)] * case.jobs)
    cpu = server.cpu() - before
    if ended.rows != [ROWS[case.dataset]] * case.jobs:
        raise RuntimeError(f"the jobs received {ended.rows} rows, not {ROWS[case.dataset]} each")
    return Turn(ended.seconds, cpu, statistics.fmean(ended.cpu))


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
            Server(joins.ensure(case.dataset, ROOT / ".bench", quick=False).config, folder) as server,
        ):
            for turn in range(rounds + 1):
                for way, made in turns.items():
                    one = _turn(server, case, way)
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
