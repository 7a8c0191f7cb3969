"""What do traces cost a server?

Each run starts a server, reads T once without counting, and then once more, in batches of 1,024 rows and without a cache,
and takes the server's CPU seconds and the time. Four servers take turns: one of an earlier version (with `--before`), one without
traces, one that traces each 100th step to a collector, and one whose collector does not exist. The medians are compared.

    python benchmarks/traces.py [--rounds N] [--before PROGRAM] [--every N]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from pathlib import Path

import process
import tables
from running import ROOT, Program, output, serving

import penstock

_PLAIN = (("cache_memory", "0"),)
_NOWHERE = "http://127.0.0.1:1"
_BATCH_ROWS = 1024


def _run(program: Program, config: Path) -> tuple[float, float]:
    """The CPU seconds of the server, and the seconds, of reading T once."""
    with serving(program.command(config, "127.0.0.1:0")) as server, penstock.connect(server.first) as client:
        for _ in range(2):
            spent, began, rows = process.cpu_seconds(server.pid), time.monotonic(), 0
            with client.read("t", batch_rows=_BATCH_ROWS) as stream:
                for batch in stream:
                    rows += batch.num_rows
            assert rows
        return process.cpu_seconds(server.pid) - spent, time.monotonic() - began


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--before", type=Path, help="the program of an earlier version")
    parser.add_argument("--after", type=Path, default=ROOT / "bin" / "penstock")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench")
    arguments = parser.parse_args()
    tables.ensure(arguments.folder, tables.Sizes())
    built = arguments.folder / "collector"
    output(["go", "build", "-C", str(Path(__file__).parent), "-o", str(built.resolve()), "./collector"])
    with contextlib.ExitStack() as stack:
        collector = stack.enter_context(serving([str(built.resolve())]))
        every = ("trace_every", str(arguments.every))
        programs = {
            "without traces": Program(arguments.after, _PLAIN),
            f"each {arguments.every}th step": Program(
                arguments.after, (*_PLAIN, ("trace", f"http://{collector.first}"), every)
            ),
            "collector gone": Program(arguments.after, (*_PLAIN, ("trace", _NOWHERE), every)),
        }
        if arguments.before is not None:
            programs = {"before": Program(arguments.before, _PLAIN), **programs}
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
        for number in range(arguments.rounds):
            order = list(programs)
            for name in order[number % len(order) :] + order[: number % len(order)]:
                runs[name].append(_run(programs[name], tables.config_path(arguments.folder)))
    first = next(iter(runs))
    base = [statistics.median(run[i] for run in runs[first]) for i in (0, 1)]
    print(f"{'server':<20} {'CPU s':>8} {'':>7} {'s':>8}")
    for name, of in runs.items():
        cpu, took = (statistics.median(run[i] for run in of) for i in (0, 1))
        print(f"{name:<20} {cpu:8.3f} {cpu / base[0] - 1:+7.1%} {took:8.3f} {took / base[1] - 1:+7.1%}")


if __name__ == "__main__":
    main()
