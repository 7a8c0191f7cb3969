"""The steps of a loop whose transform takes 20 ms: by actors of Ray in order, beside the loop's own transform.

In turn, in one run: no actor, the transform in the loop; one actor; four actors; four actors of which one is killed every
so many steps; one to eight actors by what the loop waits. Every contender must return the steps of a plain read. The transform
sleeps, so that one core can show many actors; the floor is a loop that only sleeps, a fourth of it for each step.

    make build .venv/ray/.stamp
    PYTHONPATH=.venv/ray:python/src .venv/torch/bin/python benchmarks/transforms.py
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import secrets
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)

import pyarrow as pa
import ray
from torch_conversion import ROOT, serving

import penstock
import penstock.ray

COLUMNS = ["request_id", "label"]


@dataclass
class Run:
    """One contender's rounds: steps a second, digests of what each step was, and the actors at the end."""

    rates: list[float] = field(default_factory=list)
    digests: dict[int, set[str]] = field(default_factory=dict)
    actors: list[int] = field(default_factory=list)
    killed: int = 0


class Slow:
    """A transform of so many seconds, which says in which process it ran."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """The batch, and the process."""
        time.sleep(self._seconds)
        return batch, os.getpid()


class Loop:
    """Contenders that read the same steps of a dataset."""

    def __init__(self, address: str, arguments: argparse.Namespace) -> None:
        self._address = address
        self._arguments = arguments
        self._query: dict[str, Any] = {
            "columns": COLUMNS,
            "batch_rows": arguments.batch_rows,
        }

    def alone(self, run: Run) -> None:
        """The transform in the loop itself."""
        slow = Slow(self._arguments.seconds)
        with (
            penstock.connect(self._address) as client,
            client.read("t", **self._query) as stream,
        ):
            self._measure(run, ((slow(batch), stream.cursor) for batch in stream))

    def floor(self, run: Run) -> None:
        """A plain read whose loop sleeps a fourth of the transform's time in each step."""
        with (
            penstock.connect(self._address) as client,
            client.read("t", **self._query) as stream,
        ):
            slow = Slow(self._arguments.seconds / 4)
            self._measure(run, ((slow(batch), stream.cursor) for batch in stream))

    def actors(self, run: Run, least: int, most: int, kill: int = 0) -> None:
        """The transform in actors; one of them is killed every `kill` steps."""
        slow = Slow(self._arguments.seconds)
        with penstock.ray.transformed(
            self._address, "t", slow, actors=(least, most), options={"num_cpus": 0.1}, **self._query
        ) as steps:
            self._measure(run, iter(steps), steps, least, kill)
            run.actors.append(steps.actors)

    def _measure(
        self, run: Run, loop: Iterator[Any], steps: Any = None, least: int = 0, kill: int = 0
    ) -> None:
        """Reads on until there are so many actors and the streams are warm, and measures the steps after that."""
        warm = 0
        while warm < self._arguments.warm or (steps is not None and steps.actors < least):
            self._take(run, warm, loop)
            warm += 1
            if warm > self._arguments.warm:
                time.sleep(0.05)  # actors may take long to start
        began = time.perf_counter()
        for step in range(self._arguments.steps):
            process = self._take(run, warm + step, loop)
            if kill and step % kill == 0:
                with contextlib.suppress(ProcessLookupError):  # a result may outlive its actor
                    os.kill(process, signal.SIGKILL)
                    run.killed += 1
        run.rates.append(self._arguments.steps / (time.perf_counter() - began))

    def _take(self, run: Run, step: int, loop: Iterator[Any]) -> int:
        (batch, process), cursor = next(loop)
        digest = hashlib.sha256(repr((batch.to_pydict(), cursor["step"], cursor["at"])).encode()).hexdigest()
        run.digests.setdefault(step, set()).add(digest)
        return process


@contextlib.contextmanager
def local_ray() -> Iterator[None]:
    """Ray on this machine alone."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=200 << 20,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()


def main() -> int:
    """Runs the contenders in turn, and prints a table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    flags.add_argument("--config", type=Path, default=ROOT / ".bench" / "full" / "penstock.yaml")
    flags.add_argument("--seconds", type=float, default=0.020)
    flags.add_argument("--batch-rows", type=int, default=1024)
    flags.add_argument(
        "--warm", type=int, default=100, help="the least number of steps before the measured ones"
    )
    flags.add_argument("--steps", type=int, default=300)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--steady", action="store_true", help="no actor is killed, and their number is fixed")
    arguments = flags.parse_args()
    with serving(arguments.config) as address, local_ray():
        loop = Loop(address, arguments)
        contenders: dict[str, Callable[[Run], None]] = {
            "in the loop": loop.alone,
            "one actor": lambda run: loop.actors(run, 1, 1),
            "four actors": lambda run: loop.actors(run, 4, 4),
            "four, one killed every 100 steps": lambda run: loop.actors(run, 4, 4, kill=100),
            "one to eight": lambda run: loop.actors(run, 1, 8),
            "floor: a fourth of the time, in the loop": loop.floor,
        }
        if arguments.steady:
            del contenders["four, one killed every 100 steps"], contenders["one to eight"]
        runs = {name: Run() for name in contenders}
        for turn in range(arguments.rounds):
            for name, contender in contenders.items():
                contender(runs[name])
                print(
                    f"{turn + 1}/{arguments.rounds} {name}: {runs[name].rates[-1]:.1f}",
                    file=sys.stderr,
                )
    for step in range(arguments.warm + arguments.steps):
        if len(set[str]().union(*(run.digests[step] for run in runs.values()))) != 1:
            raise SystemExit(f"the contenders returned different rows or cursors in step {step}")
    one = statistics.median(runs["one actor"].rates)
    print("| contender | steps/s | x one actor | actors at the end | killed |\n|---|---:|---:|---:|---:|")
    for name, run in runs.items():
        rate = statistics.median(run.rates)
        ends = ", ".join(map(str, run.actors))
        print(f"| {name} | {rate:.1f} | {rate / one:.2f} | {ends} | {run.killed or ''} |")
    print(f"\nall contenders returned the same {arguments.warm + arguments.steps} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
