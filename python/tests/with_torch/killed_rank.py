"""A rank that trains, writes down each step, and may be killed at any moment: what test_kills.py starts."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from server import BINARY
from torch.utils.data import DataLoader

from penstock.torch import IterableDataset

LANES, STEP_ROWS = 4, 48
QUERY: Any = {
    "columns": ["row", "pad"],
    "order": "shuffled",
    "seed": 11,
    "lanes": LANES,
    "global_batch_rows": STEP_ROWS,
    "tail": "drop",
}
RULES: Any = {"nulls": "error"}
MIX: Any = [
    {"dataset": "d", "weight": 0.75},
    {"dataset": "e", "weight": 0.25, "ends": "repeat"},
]
SECOND = 1_000_000
PACE = 0.004  # seconds of a step


def train(
    address: str, rank: int, world: int, workers: int, state: dict[str, Any] | None, written: Path
) -> None:
    """Trains forever: prints a line of JSON for each step, with its rows and the state after it."""
    torch.set_num_threads(1)
    data = IterableDataset(
        address, "d", rank=rank, world=world, reconnect=60, lookahead=1 << 16, **QUERY, **RULES
    )
    _train(data, workers, state, written)


def train_received(
    address: str, rank: int, world: int, workers: int, state: dict[str, Any] | None, written: Path
) -> None:
    """Trains with a receiver, whose folder is in the folder of `written`."""
    os.environ["PATH"] = f"{BINARY.parent}:{os.environ['PATH']}"
    tempfile.tempdir = os.environ["TMPDIR"] = str(written.parents[1])
    train(address, rank, world, workers, state, written)


def train_mix(
    address: str, rank: int, world: int, workers: int, state: dict[str, Any] | None, written: Path
) -> None:
    """Trains on a mix forever, likewise. Rows of the second member are counted from SECOND on."""
    torch.set_num_threads(1)
    ranks: Any = {"rank": rank, "world": world}
    data = IterableDataset(address, mix=MIX, reconnect=60, lookahead=1 << 16, **ranks, **QUERY, **RULES)
    _train(data, workers, state, written)


def _train(data: IterableDataset, workers: int, state: dict[str, Any] | None, written: Path) -> None:
    if state is not None:
        data.load_state_dict(state)
    out = os.open(written, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for epoch in range(data.epoch, 1 << 30):
        data.set_epoch(epoch)
        batches: Any = data
        if workers:
            batches = DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context="fork")
        for batch in batches:
            behind = batch.cursor if workers else data.state_dict()
            rows = batch["row"] + SECOND * batch["source"] if data.sources else batch["row"]
            step = {"epoch": epoch, "step": batch.step, "rows": rows.tolist(), "state": behind}
            os.write(out, json.dumps(step).encode() + b"\n")
            time.sleep(PACE)
