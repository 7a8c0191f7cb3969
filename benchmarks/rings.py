"""What do tensors cost that the server assembles, compared with those that the training process makes?

One process reads T with prefetch=0, in four ways that take turns. From a server on its host:

- ring: `IterableDataset`, whose tensors the server assembles in a ring of shared memory. The form of batches is left to
  the server, as usual;
- converted: plain batches in mapped memory (`convert=False`), which a `Converter` makes tensors of.

From a server without a local socket, over TCP on the loopback:

- receiver: `IterableDataset`, whose tensors a receiver assembles;
- network: the same with `local=False`: this process receives and converts the batches.

It prints medians: the CPU time of the training process for a batch, those of the server and of the receiver for all of T,
and rows/s.
It fails if a limit below is missed.

    make build .venv/torch/.stamp .venv/bench/.stamp
    .venv/bench/bin/python benchmarks/tables.py .bench/full
    PYTHONPATH=python/src .venv/torch/bin/python benchmarks/rings.py [--rounds N]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import process
import torch
from jobs import ROOT, Server
from peers.into_torch import rules
from torch_conversion import BATCH_ROWS

import penstock
from penstock.torch import Converter, IterableDataset

ROWS = 4_000_000

# Limits: rows/s of rings, at least so many times those of converted batches; milliseconds of CPU time of the training process.
FASTER = 1.5
MILLISECONDS = 0.15


@dataclasses.dataclass(frozen=True)
class Turn:
    """What one turn cost: milliseconds of CPU for a batch in this process, CPU seconds of server and receiver, and seconds."""

    trainer: float
    server: float
    receiver: float
    seconds: float


def batches(address: str, options: dict[str, Any], way: str) -> Iterator[int]:
    """The rows of each batch, as tensors."""
    fields: dict[str, Any] = {"batch_rows": BATCH_ROWS, "prefetch": 0}
    if way != "converted":
        data = IterableDataset(address, "t", local=way != "network", **fields, **options)
        for batch in data:
            yield batch.rows
        if data.stats().way != way:
            raise RuntimeError(f"the tensors came by {data.stats().way} instead of {way}: {data.stats().why}")
        return
    convert: Converter | None = None
    for records, _ in IterableDataset(address, "t", convert=False, wire="plain", **fields):
        convert = convert or Converter(records.schema, **options)
        yield convert(records).rows


def measure(server: Server, options: dict[str, Any], way: str) -> Turn:
    """Reads T once."""
    received = process.cpu_seconds(receiver()) if way == "receiver" else 0.0
    before, worked, began = process.cpu_seconds(server.pid), time.process_time(), time.perf_counter()
    rows = list(batches(server.address, options, way))
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    if sum(rows) != ROWS:
        raise RuntimeError(f"{sum(rows)} rows came, not {ROWS}")
    received = process.cpu_seconds(receiver()) - received if way == "receiver" else 0.0
    return Turn(worked / len(rows) * 1e3, process.cpu_seconds(server.pid) - before, received, seconds)


def receiver() -> int | None:
    """The process of the receiver that this process has started; None before the first turn."""
    for child in Path(f"/proc/self/task/{process.own_id()}/children").read_text().split():
        if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[1] == b"receive":
            return int(child)
    return None


def main() -> int:
    """Measures, prints medians and ratios, and returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    turns: dict[str, list[Turn]] = {"ring": [], "converted": [], "receiver": [], "network": []}
    os.environ["PATH"] = f"{ROOT / 'bin'}:{os.environ['PATH']}"
    config = ROOT / ".bench" / "full" / "penstock.yaml"
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(config, folder) as server,
        Server(config, folder, "--local-socket", "") as remote,
    ):
        with penstock.connect(server.address) as client:
            options = rules(client.schema("t", wire="plain"))
        for turn in range(rounds + 1):
            for way, made in turns.items():
                one = measure(remote if way in ("receiver", "network") else server, options, way)
                if turn > 0:
                    made.append(one)
    print(
        "| tensors | trainer's CPU ms a batch | server's CPU s | receiver's CPU s | seconds | M rows/s |\n"
        "|---|---:|---:|---:|---:|---:|"
    )
    medians = {}
    for way, made in turns.items():
        one = Turn(
            *(statistics.median(values) for values in zip(*map(dataclasses.astuple, made), strict=True))
        )
        medians[way] = one
        print(
            f"| {way} | {one.trainer:.3f} | {one.server:.2f} | {one.receiver:.2f} | {one.seconds:.2f} | "
            f"{ROWS / one.seconds / 1e6:.2f} |"
        )
    faster = medians["converted"].seconds / medians["ring"].seconds
    print(f"rows/s of rings, of converted batches: {faster:.2f} (at least {FASTER})")
    print(f"trainer's CPU for a batch: {medians['ring'].trainer:.3f} ms (at most {MILLISECONDS})")
    remote_faster = medians["network"].seconds / medians["receiver"].seconds
    print(f"rows/s of receivers, of tensors made here from a server elsewhere: {remote_faster:.2f}")
    return int(faster < FASTER or medians["ring"].trainer > MILLISECONDS)


if __name__ == "__main__":
    sys.exit(main())
