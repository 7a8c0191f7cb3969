"""How fast T is copied to a GPU: with `device=`, compared with other ways.

Each way reads T at 8,192 rows and trains nothing; where `--work` says so the device is
kept busy after each batch for that many milliseconds, like a step of training. Ways
take turns in each run. It prints medians: rows/s, the bytes of tensors that came to the
device each second, how much of the pass the loop waited for batches, and the speed
beside that of tensors that stay in the memory of the machine.

    make build .venv/torch/.stamp .venv/bench/.stamp
    .venv/bench/bin/python benchmarks/tables.py .bench/full
    .venv/torch/bin/python benchmarks/gpu.py

Without a GPU it says so and exits with 2; `--device cpu` runs it all the same, to see
that it works, and measures nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from peers.into_torch import rules
from torch.utils.data import DataLoader
from torch_conversion import BATCH_ROWS, ROOT, serving

import penstock
from penstock.torch import Batch, Deduplicated, IterableDataset, Jagged

NO_DEVICE = 2


@dataclasses.dataclass(frozen=True)
class Reading:
    """The input and the target of all ways.

    Attributes:
        address: the server's.
        options: of the dataset.
        device: that trains.
    """

    address: str
    options: dict[str, Any]
    device: torch.device

    def dataset(self, **more: Any) -> IterableDataset:
        """The dataset of one way."""
        return IterableDataset(self.address, "t", **self.options, **more)

    def stays(self) -> Iterable[Batch]:
        """Tensors that stay in CPU memory."""
        return self.dataset()

    def by_dataset(self) -> Iterable[Batch]:
        """Pinned buffers, copied concurrently with the loop, one batch ahead."""
        return self.dataset(device=self.device)

    def by_loop(self) -> Iterator[Batch]:
        """The loop copies each tensor when it receives the batch."""
        for batch in self.dataset():
            yield batch.to(self.device)

    def by_loader(self) -> Iterator[Batch]:
        """A DataLoader pins each tensor, and the loop copies without waiting."""
        pins = self.device.type == "cuda"
        for batch in DataLoader(self.dataset(), batch_size=None, pin_memory=pins):
            yield batch.to(self.device, non_blocking=True)


WAYS: dict[str, Callable[[Reading], Iterable[Batch]]] = {
    "tensors that stay": Reading.stays,
    "device=": Reading.by_dataset,
    "batch.to(device)": Reading.by_loop,
    "DataLoader(pin_memory=True)": Reading.by_loader,
}


@dataclasses.dataclass
class Pass:
    """One read of T."""

    seconds: float
    waited: float
    rows: int
    moved: int


class Work:
    """Keeps a device busy for about a number of milliseconds, without using the CPU."""

    def __init__(self, device: torch.device, milliseconds: float) -> None:
        self._matrix = torch.rand(2048, 2048, device=device) if milliseconds else None
        self._device = device
        self._times = 1
        while self._matrix is not None and self._once() < milliseconds / 1e3:
            self._times *= 2

    def _once(self) -> float:
        began = time.perf_counter()
        self.begin()
        self.end()
        return time.perf_counter() - began

    def begin(self) -> None:
        """Starts work on the device."""
        if self._matrix is not None:
            for _ in range(self._times):
                torch.mm(self._matrix, self._matrix)

    def end(self) -> None:
        """Waits until the device has finished its work."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """All tensors of the columns of a batch."""
    for value in values:
        if isinstance(value, Deduplicated):
            yield value.inverse
            yield from tensors(value.columns.values())
        elif isinstance(value, Jagged):
            yield value.values
            yield value.offsets
        elif isinstance(value, torch.Tensor):
            yield value


def read(batches: Iterable[Batch], work: Work) -> Pass:
    """Reads all of T, and works on each batch."""
    began = time.perf_counter()
    waited, rows, moved = 0.0, 0, 0
    iterator = iter(batches)
    while True:
        asked = time.perf_counter()
        batch = next(iterator, None)
        waited += time.perf_counter() - asked
        if batch is None:
            break
        rows += batch.rows
        moved += sum(tensor.nbytes for tensor in tensors(batch.values()))
        work.begin()
    work.end()
    return Pass(time.perf_counter() - began, waited, rows, moved)


def table(passes: dict[str, list[Pass]]) -> str:
    """Medians of all ways."""

    def median(name: str, what: Callable[[Pass], float]) -> float:
        return statistics.median(what(one) for one in passes[name])

    first = next(iter(passes))
    lines = [
        "| way | Mrows/s | GB/s | waited | of tensors that stay |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in passes:
        speed = median(name, lambda one: one.rows / one.seconds / 1e6)
        beside = statistics.median(
            a.seconds / b.seconds for a, b in zip(passes[first], passes[name], strict=True)
        )
        lines.append(
            f"| {name} | {speed:.2f} | {median(name, lambda one: one.moved / one.seconds / 1e9):.2f} "
            f"| {median(name, lambda one: one.waited / one.seconds):.0%} | {beside:.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Runs all ways and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / ".bench" / "full" / "penstock.yaml")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--wire", default="auto", choices=["auto", "plain", "indexed"])
    parser.add_argument("--work", type=float, default=0.0, help="milliseconds of a step on the device")
    arguments = parser.parse_args()
    if arguments.device.type == "cuda" and not torch.cuda.is_available():
        print(
            "there is no GPU: torch.cuda.is_available() is false; --device cpu runs without one",
            file=sys.stderr,
        )
        return NO_DEVICE
    work = Work(arguments.device, arguments.work)
    passes: dict[str, list[Pass]] = {name: [] for name in WAYS}
    with serving(arguments.config) as address:
        query = {"batch_rows": BATCH_ROWS, "wire": arguments.wire}
        with penstock.connect(address) as client, client.read("t", **query) as stream:
            options = {**query, **rules(stream.schema)}
        reading = Reading(address, options, arguments.device)
        for run in range(arguments.runs + 1):  # the first one warms up
            for name, way in WAYS.items():
                one = read(way(reading), work)
                if run:
                    passes[name].append(one)
    if len({one.rows for ran in passes.values() for one in ran}) != 1:
        raise SystemExit("ways gave different numbers of rows")
    if arguments.device.type == "cuda":
        print(f"{torch.cuda.get_device_name(arguments.device)}; a step of {arguments.work} ms\n")
    print(table(passes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
