"""Runs all contenders, checks their results, and prints the tables.

    python benchmarks/run.py [--quick] [--torch] [--only a,b] [--rounds N] [--name SHORT]

Exits with 1 if any contender gave other rows than the right ones or did not
finish, with 2 if it was called wrongly.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import process
import report
import tables
from entrants import ENTRANTS, INTO_TORCH, Entrant, needs_binary
from inputs import Inputs
from peers.contender import Outcome

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

_CLIENT_LIMIT = 600
_STOP_LIMIT = 20


class RunError(Exception):
    """A contender did not finish; the message is its last output."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to run."""

    folder: Path
    results: Path
    sizes: tables.Sizes
    entrants: list[Entrant]
    datasets: list[str]
    rounds: int
    name: str
    note: str
    binary: Path


def main() -> int:
    """Make the tables, run, print, write."""
    plan = parse(sys.argv[1:])
    tables.ensure(plan.folder, plan.sizes)
    results, failures = [], []
    for dataset in plan.datasets:
        inputs = Inputs.load(tables.inputs_path(plan.folder, dataset))
        outcomes, failed = measure(plan, dataset)
        failures += failed
        results.append(report.Result(inputs, outcomes))
    text = report.Report(
        name=plan.name,
        date=datetime.date.today().isoformat(),
        note=plan.note,
        rounds=plan.rounds,
        sizes=dataclasses.asdict(plan.sizes),
        machine=process.machine(),
        results=results,
        failures=failures,
    )
    print(text.markdown())
    if failures:
        print(f"{len(failures)} failures, nothing written:", *failures, sep="\n  ", file=sys.stderr)
        return 1
    path = text.write(plan.results)
    print(f"written: {os.path.relpath(path)}.md and .json", file=sys.stderr)
    return 0


def parse(arguments: list[str]) -> Plan:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Penstock beside its peers on the same files.")
    runs = INTO_TORCH if "--torch" in arguments else ENTRANTS
    known = [entrant.name for entrant in runs]
    parser.add_argument("--torch", action="store_true", help="tensors, in an environment that has torch")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows, one round")
    parser.add_argument("--only", default=",".join(known), help=f"of {', '.join(known)}")
    parser.add_argument("--datasets", default=",".join(tables.DATASETS), help="which data sets")
    parser.add_argument("--rounds", type=int, help="timed runs of each contender (5; quick: 1)")
    parser.add_argument("--name", default="bench", help="short name of the result files")
    parser.add_argument("--note", default="", help="a sentence to print with the results")
    parser.add_argument("--batch-rows", type=int, help="one batch size for all")
    given = parser.parse_args(arguments)
    chosen, datasets = given.only.split(","), given.datasets.split(",")
    for names, allowed in ((chosen, known), (datasets, list(tables.DATASETS))):
        if strange := set(names) - set(allowed):
            parser.error(f"{', '.join(sorted(strange))}: not among {', '.join(allowed)}")
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    entrants = [entrant for entrant in runs if entrant.name in chosen]
    if any(map(needs_binary, entrants)) and not binary.exists():
        parser.error("there is no bin/penstock: run `make build`, or leave it out with --only")
    if given.batch_rows:
        entrants = [dataclasses.replace(e, batch_rows=(given.batch_rows,)) for e in entrants]
    kind = "quick" if given.quick else "full"
    return Plan(
        folder=ROOT / ".bench" / kind,
        # Only full runs write results.
        results=ROOT / ".bench" / "results" if given.quick else HERE / "results",
        sizes=tables.QUICK if given.quick else tables.Sizes(),
        entrants=entrants,
        datasets=datasets,
        rounds=given.rounds or (1 if given.quick else 5),
        name=given.name,
        note=given.note,
        binary=binary,
    )


def measure(plan: Plan, dataset: str) -> tuple[list[report.Measured], list[str]]:
    """Run all contenders in turn, `rounds` times, so that noise affects all of them equally.

    Gives what each measured, and a line for each failure.
    """
    measured = [
        report.Measured(entrant, size, []) for entrant in plan.entrants for size in entrant.batch_rows
    ]
    failures = []
    for turn in range(plan.rounds):
        for one in measured:
            title = f"{dataset}, {one.entrant.name}, batches of {one.batch_rows}"
            print(f"{turn + 1}/{plan.rounds} {title}", end="", file=sys.stderr, flush=True)
            try:
                outcome = run(plan, one.entrant, one.batch_rows, dataset)
            except RunError as failed:
                print(": failed", file=sys.stderr)
                failures.append(f"{title}: {failed}")
                continue
            print(f": {outcome.seconds:.2f} s", file=sys.stderr)
            failures += [f"{title}: {line}" for line in outcome.differences]
            one.outcomes.append(outcome)
    return measured, failures


def run(plan: Plan, entrant: Entrant, batch_rows: int, dataset: str) -> Outcome:
    """Run one contender once, with its server in a separate process."""
    command = [sys.executable, "-m", f"peers.{entrant.module}"]
    command += ["--inputs", str(tables.inputs_path(plan.folder, dataset))]
    command += ["--batch-rows", str(batch_rows)]
    if entrant.server is None:
        return _client(command)
    with tempfile.TemporaryDirectory() as sockets:
        listen = f"unix://{sockets}/s" if entrant.over == "unix" else "127.0.0.1:0"
        server = entrant.server(plan.binary, batch_rows, tables.config_path(plan.folder), listen)
        with _serving(server) as (address, pid):
            return _client([*command, "--address", address, "--server", str(pid)])


def _client(command: list[str]) -> Outcome:
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=_CLIENT_LIMIT)
    except subprocess.TimeoutExpired:
        raise RunError(f"no end after {_CLIENT_LIMIT} s") from None
    if done.returncode != 0:
        raise RunError(_last_words(done.stderr) or f"exit code {done.returncode}")
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _serving(command: list[str]) -> Iterator[tuple[str, int]]:
    """Start a server; its first line on stdout is its address.

    Its log is kept for the case that something fails.
    """
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            address = server.stdout.readline().strip() if server.stdout else ""
            if not address:
                raise RunError("the server gave no address")
            yield address, server.pid
        except RunError as failed:
            log.seek(0)
            raise RunError(f"{failed}; server: {_last_words(log.read())}") from None
        finally:
            server.terminate()
            try:
                server.wait(_STOP_LIMIT)
            except subprocess.TimeoutExpired:
                server.kill()


def _last_words(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


if __name__ == "__main__":
    sys.exit(main())
