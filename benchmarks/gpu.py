"""Is a GPU fed as fast as it trains? A small DLRM on batches that stay on the device, and on batches that are read.

One process trains the model of `dlrm.py` on T, in batches of 8,192 rows. Each way to feed it takes turns with
*resident* steps, of 64 batches that stay on the device, in the same process. It prints medians: milliseconds of a
step, the ratio to resident steps of the same turn, the share of the time that the loop waits for batches, and the
CPU time of the training process for a step. The first steps of each pass are not timed.

Before that, it compares batches and losses with those of the same rows, joined by pyarrow, and with those of a
`Converter` over TCP (`same_rows.py`).

    make gpu
    PYTHON=python3 benchmarks/gpu.sh    # where nothing can be downloaded: see there which files and packages it needs

With a GPU, the exit code is 1 if a way of `LIMITED` reaches less than 0.95 of the speed of resident steps, or if its
loop waits for more than 5 % of the time. Without one, nothing is measured on a GPU, and it says so. In any case, it
is 1 if tensors or losses differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import dlrm
import process
import same_rows
import tables
import torch
from dlrm import Trainer
from feeds import Feed, Ways, converted
from inputs import Inputs
from jobs import ROOT, Server
from torch_conversion import BATCH_ROWS, serving

from penstock.torch import Batch

# Limits of the ways that `device=` feeds, with a GPU.
LIMITED = ("ring, device=", "ring, shuffled, device=", "receiver, device=")
SPEED = 0.95
WAITS = 0.05


@dataclasses.dataclass(frozen=True)
class Pass:
    """Steps of one pass: their number, seconds, seconds of waiting, and CPU seconds of this process."""

    steps: int
    seconds: float
    waited: float
    cpu: float

    @property
    def each(self) -> float:
        """Seconds of a step."""
        return self.seconds / self.steps


class Waiting:
    """Batches, and how long their consumer has waited for them: by the dataset's own count, if there is one."""

    def __init__(self, feed: Feed) -> None:
        self._batches = iter(feed.batches())
        self._dataset = feed.dataset
        self._waited = 0.0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        asked = time.perf_counter()
        try:
            return next(self._batches)
        finally:
            self._waited += time.perf_counter() - asked

    @property
    def waited(self) -> float:
        """Seconds."""
        return self._waited if self._dataset is None else self._dataset.stats().waited


def measure(trainer: Trainer, feed: Feed, warm: int) -> Pass:
    """Trains on the batches of one pass, of which the first `warm` are not timed."""
    with feed.beside():
        batches = Waiting(feed)
        for batch in itertools.islice(batches, warm):
            trainer.step(batch)
        trainer.synchronize()
        steps, waited, cpu, began = 0, batches.waited, time.process_time(), time.perf_counter()
        for batch in batches:
            trainer.step(batch)
            steps += 1
        trainer.synchronize()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        if feed.dataset is not None and feed.dataset.stats().way != feed.way:
            stats = feed.dataset.stats()
            raise RuntimeError(f"batches came by way {stats.way!r}, not {feed.way!r}: {stats.why}")
        return Pass(steps, seconds, batches.waited - waited, cpu)


@dataclasses.dataclass(frozen=True)
class Turn:
    """A pass of a way, and the resident pass just before it."""

    way: Pass
    resident: Pass

    @property
    def speed(self) -> float:
        """Steps a second, of resident ones."""
        return self.resident.each / self.way.each

    @property
    def waits(self) -> float:
        """The share of the time that the loop waited."""
        return self.way.waited / self.way.seconds


def median(turns: Sequence[Turn], of: Callable[[Turn], float]) -> float:
    """The median over the turns."""
    return statistics.median(of(turn) for turn in turns)


def table(turns: dict[str, list[Turn]], batch_rows: int) -> str:
    """Medians of all ways; resident steps first, over all turns."""
    lines = [
        "| way | ms a step | M rows/s | of resident steps | loop waits | CPU ms a step | CPU of resident steps |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    every = [Turn(turn.resident, turn.resident) for of_way in turns.values() for turn in of_way]
    for name, of_way in {"resident": every, **turns}.items():
        each = median(of_way, lambda turn: turn.way.each)
        cpu = median(of_way, lambda turn: turn.way.cpu / turn.way.steps)
        resident = median(of_way, lambda turn: turn.resident.cpu / turn.resident.steps)
        lines.append(
            f"| {name} | {each * 1e3:.2f} | {batch_rows / each / 1e6:.2f} "
            f"| {median(of_way, lambda turn: turn.speed):.2f} | {median(of_way, lambda turn: turn.waits):.1%} "
            f"| {cpu * 1e3:.2f} | {cpu / resident:.2f} |"
        )
    return "\n".join(lines)


def missed(turns: dict[str, list[Turn]]) -> list[str]:
    """A line for each limit that is missed."""
    lines = []
    for name in LIMITED:
        speed, waits = (
            median(turns[name], lambda turn: turn.speed),
            median(turns[name], lambda turn: turn.waits),
        )
        if speed < SPEED:
            lines.append(f"{name}: {speed:.2f} of the speed of resident steps (at least {SPEED})")
        if waits > WAITS:
            lines.append(f"{name}: the loop waits {waits:.1%} of the time (at most {WAITS:.0%})")
    return lines


def compare(ways: Ways, inputs: Inputs, ids: int, count: int) -> str:
    """Compares batches of rings with the joined rows, and with converted batches."""
    columns = [*dlrm.COLUMNS, "request_id"]
    ring = ways.dataset(ways.local, columns=columns, device=ways.device, limit=count)
    batches = [batch.to("cpu") for batch in ring]
    same_rows.same(iter(batches), converted(ways, columns, count))
    shuffled = ways.dataset(
        ways.local, columns=columns, device=ways.device, limit=count, order="shuffled", seed=7
    )
    for of_order in (batches, [batch.to("cpu") for batch in shuffled]):
        trainers = [Trainer(ways.device, ids) for _ in range(2)]
        losses = same_rows.check(trainers, [batch.to(ways.device) for batch in of_order], inputs)
    return (
        f"{count} batches in stored order and {count} shuffled ones have the tensors of the joined rows, bit for bit, "
        f"and give their losses ({losses[0]:.6f} to {losses[-1]:.6f})."
    )


def main() -> int:
    """Compares, measures, prints, and returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000, help="of T, which is made if it is absent")
    parser.add_argument("--batch-rows", type=int, default=BATCH_ROWS)
    parser.add_argument("--steps", type=int, help="of a pass, at most; all of T")
    parser.add_argument("--ids", type=int, default=1 << 20, help="rows of each embedding")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--compared", type=int, default=20, help="how many batches are compared")
    parser.add_argument("--device", type=torch.device)
    given = parser.parse_args()
    device = given.device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)  # so that losses are equal, and the server has the other cores
    names = {tables.Sizes().rows: "full", tables.QUICK.rows: "quick"}
    folder = ROOT / ".bench" / names.get(given.rows, f"t-{given.rows}")
    tables.ensure(folder, tables.Sizes(rows=given.rows, requests=given.rows // 10))
    config = tables.config_path(folder)
    steps = min(given.steps or given.rows, -(-given.rows // given.batch_rows))
    with tempfile.TemporaryDirectory() as place, Server(config, place) as server, serving(config) as remote:
        ways = Ways(server.address, remote, given.batch_rows, steps, device)
        print(
            compare(ways, Inputs.load(tables.inputs_path(folder, "t")), given.ids, min(given.compared, steps))
        )
        trainer = Trainer(device, given.ids)
        resident, others = ways.all()
        turns: dict[str, list[Turn]] = {name: [] for name in others}
        for turn in range(given.runs + 1):  # the first one warms up
            for name, feed in others.items():
                still = measure(trainer, resident, min(20, steps // 4))
                one = Turn(measure(trainer, feed, min(20, steps // 4)), still)
                if turn:
                    turns[name].append(one)
    machine = process.machine()
    accelerator = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    print(
        f"\n{accelerator}, {machine['cpu']}, {machine['cores']} cores; torch {torch.__version__}, pyarrow "
        f"{machine['pyarrow']}, Python {machine['python']}. {given.rows:,} rows, batches of {given.batch_rows:,}, "
        f"{steps} steps a pass, medians of {given.runs}.\n\n{table(turns, given.batch_rows)}\n"
    )
    if device.type != "cuda":
        print("Not measured on a GPU: these figures are of CPU tensors, and no limit was checked.")
        return 0
    lines = missed(turns)
    print("\n".join(lines) if lines else "All limits hold.")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
