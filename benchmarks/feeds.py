"""The ways to feed the training loop of `gpu.py`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import multiprocessing
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from typing import Any

import dlrm
import torch
from torch.utils.data import DataLoader

import penstock
from penstock.torch import Batch, Converter, IterableDataset

RESIDENT_BATCHES = 64


@dataclasses.dataclass
class Feed:
    """A way to feed the loop: how to begin a pass, and what runs meanwhile.

    `dataset` counts the time of waiting, and says the `way` by which its batches came.
    """

    batches: Callable[[], Iterable[Batch]]
    dataset: IterableDataset | None = None
    way: str = ""
    beside: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext


@dataclasses.dataclass(frozen=True)
class Ways:
    """All ways, from a server with a local socket, and from a server that only listens on TCP."""

    local: str
    remote: str
    batch_rows: int
    steps: int
    device: torch.device

    def dataset(self, address: str, **more: Any) -> IterableDataset[Batch]:
        """The model's input."""
        options: dict[str, Any] = {
            "columns": dlrm.COLUMNS,
            "batch_rows": self.batch_rows,
            "limit": self.steps,
            "epochs": "auto",
        }
        return IterableDataset(address, "t", **(options | dlrm.RULES | more))

    def resident(self) -> Feed:
        """Batches on the device, in turn."""
        batches = [batch.to(self.device) for batch in converted(self, dlrm.COLUMNS, RESIDENT_BATCHES)]
        return Feed(lambda: itertools.islice(itertools.cycle(batches), self.steps))

    def fed(self, address: str, way: str, **more: Any) -> Feed:
        """Batches that the dataset brings to the device."""
        dataset = self.dataset(address, device=self.device, **more)
        return Feed(lambda: dataset, dataset, way)

    def moved(self) -> Feed:
        """Batches that the loop copies to the device."""
        dataset = self.dataset(self.local)
        return Feed(lambda: (batch.to(self.device) for batch in dataset))

    def loaded(self, workers: int) -> Feed:
        """Batches of worker processes, which the loop copies to the device."""
        loader = DataLoader(
            self.dataset(self.local),
            batch_size=None,
            num_workers=workers,
            multiprocessing_context="spawn",
            persistent_workers=True,
        )
        return Feed(lambda: (batch.to(self.device) for batch in loader))

    def all(self) -> tuple[Feed, dict[str, Feed]]:
        """Resident steps, and the others."""
        resident = self.resident()
        return resident, {
            "ring, device=": self.fed(self.local, "ring"),
            "ring, shuffled, device=": self.fed(self.local, "ring", order="shuffled", seed=7),
            "receiver, device=": self.fed(self.remote, "receiver"),
            "TCP without a receiver, device=": self.fed(self.remote, "network", local=False),
            "ring, batch.to": self.moved(),
            "DataLoader, 4 workers, batch.to": self.loaded(4),
            "resident, while a thread reads": dataclasses.replace(
                resident, beside=lambda: reading_thread(self)
            ),
            "resident, while a process reads": dataclasses.replace(
                resident, beside=lambda: reading_process(self)
            ),
        }


def converted(ways: Ways, columns: list[str], count: int) -> Iterator[Batch]:
    """The first batches, received over TCP and converted in this process."""
    with penstock.connect(ways.remote) as client:
        query: dict[str, Any] = {"columns": columns, "batch_rows": ways.batch_rows, "wire": "plain"}
        with client.read("t", **query) as stream:
            convert = Converter(stream.schema, **dlrm.RULES)
            for records in itertools.islice(stream, count):
                yield convert(records)


@contextlib.contextmanager
def reading_thread(ways: Ways) -> Iterator[None]:
    """Reads the dataset again and again in a thread of this process."""
    begun, ends = threading.Event(), threading.Event()
    with _running(threading.Thread(target=read_repeatedly, args=(ways, begun, ends)), begun, ends):
        yield


@contextlib.contextmanager
def reading_process(ways: Ways) -> Iterator[None]:
    """Reads the dataset again and again in another process."""
    spawn = multiprocessing.get_context("spawn")
    begun, ends = spawn.Event(), spawn.Event()
    with _running(spawn.Process(target=read_repeatedly, args=(ways, begun, ends)), begun, ends):
        yield


@contextlib.contextmanager
def _running(
    reader: threading.Thread | BaseProcess, begun: Event | threading.Event, ends: Event | threading.Event
) -> Iterator[None]:
    """Runs a reader from its first batch until the block ends."""
    reader.start()
    try:
        begun.wait()
        yield
    finally:
        ends.set()
        reader.join()


def read_repeatedly(ways: Ways, begun: Event | threading.Event, ends: Event | threading.Event) -> None:
    """Reads until `ends` is set, and uses no batch."""
    while not ends.is_set():
        for _ in ways.dataset(ways.local):
            begun.set()
            if ends.is_set():
                break
