"""What does a batch cost? Penstock beside its peers and its floors, on the same files, in one run.

    python benchmarks/costs.py [--quick] [--rounds N] [--datasets t,tpch] [--only penstock,duckdb]

All contenders take turns, with servers and clients in processes of their own, and each process reads a cold
and a warm epoch, and one more in which the sums of all columns are compared with those of the right answer.
The report has medians, and ends with the aims (`aims.py`) as ratios within the run.

    --set memory=1GiB                a setting of Penstock's server, in all of its rows
    --variant small:memory=256MiB    more rows, of Penstock with other settings
    --variant ram:cache_memory=4GiB,query.cache=fill   and of other queries: here, the warm epoch comes from memory
    --variant old:program=bin/old    more rows, of another program

Exits with 1 if any contender gave other rows than the right ones or did not finish, with 2 if it was called
wrongly.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import joins
import process
import report
from entrants import ENTRANTS, INTO_TORCH, Entrant
from points import Grid
from running import HERE, ROOT, Program
from turns import Tools, Turns


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to run."""

    bench: Path
    results: Path
    quick: bool
    grid: Grid
    datasets: Sequence[str]
    rounds: int
    minutes: float
    name: str
    note: str


def main() -> int:
    """Make the tables, run, print, write."""
    plan = parse(sys.argv[1:])
    results, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(Path(folder))
        for dataset in plan.datasets:
            turns = Turns(dataset, joins.ensure(dataset, plan.bench, plan.quick), plan.grid, tools)
            results.append(turns.all(plan.rounds, plan.minutes))
            failures += turns.failures
    text = report.Report(
        name=plan.name,
        date=datetime.date.today().isoformat(),
        note=plan.note,
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    runs = INTO_TORCH if "--torch" in arguments else ENTRANTS
    known = [entrant.name for entrant in runs]
    parser.add_argument("--torch", action="store_true", help="tensors, in an environment that has torch")
    parser.add_argument("--quick", action="store_true", help="small tables, one round")
    parser.add_argument("--only", help=f"of {', '.join(known)}")
    parser.add_argument("--without", default="", help="of the same")
    parser.add_argument("--datasets", help=f"of {', '.join(joins.NAMES)}")
    parser.add_argument("--rounds", type=int, help="runs of each contender (5; quick: 1)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="after these, no further round of a data set begins"
    )
    parser.add_argument("--batch-rows", type=_numbers, help="batch sizes of all, such as 1024,8192")
    parser.add_argument("--lanes", type=_numbers, help="lanes of Penstock, such as 1,8")
    parser.add_argument("--cores", type=_numbers, default=(), help="how many cores, such as 1,2,4 (all)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a server's setting")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME:NAME=VALUE,...")
    parser.add_argument("--name", default="costs", help="short name of the result files")
    parser.add_argument("--note", default="", help="a sentence to print with the results")
    given = parser.parse_args(arguments)
    by_default = [entrant.name for entrant in runs if entrant.by_default]
    chosen = given.only.split(",") if given.only else by_default
    without = [name for name in given.without.split(",") if name]
    datasets = given.datasets.split(",") if given.datasets else (["t"] if given.torch else list(joins.NAMES))
    for names, allowed in ((chosen, known), (without, known), (datasets, list(joins.NAMES))):
        if strange := set(names) - set(allowed):
            parser.error(f"{', '.join(sorted(strange))}: not among {', '.join(allowed)}")
    cores = len(os.sched_getaffinity(0))
    if max(given.cores, default=0) > cores:
        parser.error(f"--cores: this machine lends {cores}")
    try:
        variants = _variants(given.set, given.variant)
    except ValueError as wrong:
        parser.error(str(wrong))
    missing = sorted({str(program.binary) for program in variants.values() if not program.binary.exists()})
    grid = Grid(
        [
            _named(entrant, given.only)
            for entrant in runs
            if entrant.name in chosen and entrant.name not in without
        ],
        variants,
        given.batch_rows,
        given.lanes,
        given.cores or (None,),
    )
    if missing and any(entrant.serves in ("penstock", "echo") for entrant in grid.entrants):
        parser.error(f"there is no {', '.join(missing)}: run `make build`, or leave it out with --only")
    return Plan(
        bench=ROOT / ".bench",
        # Only full runs write results.
        results=ROOT / ".bench" / "results" if given.quick else HERE / "results",
        quick=given.quick,
        grid=grid,
        datasets=datasets,
        rounds=given.rounds or (1 if given.quick else 5),
        minutes=given.minutes,
        name=given.name,
        note=given.note,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _named(entrant: Entrant, only: str | None) -> Entrant:
    """An entrant that is named reads every data set."""
    return dataclasses.replace(entrant, datasets=()) if only else entrant


def _variants(settings: list[str], variants: list[str]) -> dict[str, Program]:
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    everywhere = tuple(_setting(text) for text in settings)
    found = {"": Program(binary, everywhere)}
    for text in variants:
        name, colon, rest = text.partition(":")
        if not name or not colon:
            raise ValueError(f"--variant {text}: it is not NAME:NAME=VALUE")
        own = dict(everywhere) | dict(_setting(part) for part in rest.split(","))
        program = Path(own.pop("program", binary)).resolve()
        query = {field: own.pop(field) for field in list(own) if field.startswith(_QUERY)}
        found[name] = Program(
            program,
            tuple(own.items()),
            tuple((field.removeprefix(_QUERY), value) for field, value in query.items()),
        )
    return found


# What precedes the fields of a query among a variant's settings.
_QUERY = "query."


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text}: it is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
