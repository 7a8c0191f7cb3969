"""A loop of Ray Train as users write it, which writes down its steps: for tests that start it with different numbers of workers."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import penstock.ray
from penstock.torch import IterableDataset

ROWS, STEP_ROWS, EVERY = 960, 48, 3
STEPS = ROWS // STEP_ROWS
QUERY: Any = {
    "columns": ["row"],
    "order": "shuffled",
    "seed": 11,
    "lanes": 4,
    "global_batch_rows": STEP_ROWS,
}


def train(config: dict[str, Any]) -> None:
    """The loop of a worker: what a user writes, and a line of JSON for each step. Steps are counted over two epochs.

    Args:
        config: the server's `address`, a `folder` for the lines, and the steps at which something happens: the last worker is
            killed before the step `kill`, once; with so many workers, all wait after the step that `wait` has for this number
            until Ray ends them; the loop returns before the step `end`.
    """
    import ray.train

    data = penstock.ray.resumed(IterableDataset(config["address"], "d", nulls="error", **QUERY))
    context, folder = ray.train.get_context(), Path(config["folder"])
    rank, world = context.get_world_rank(), context.get_world_size()
    written = os.open(folder / f"{world}-{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for epoch in range(data.epoch, 2):
        data.set_epoch(epoch)
        for batch in data:
            step = epoch * STEPS + batch.step
            if rank == world - 1 and step == config["kill"] and not (folder / f"kill-{step}").exists():
                (folder / f"kill-{step}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            line = {"step": step, "rows": batch["row"].tolist(), "pid": os.getpid()}
            os.write(written, json.dumps(line).encode() + b"\n")
            if (step + 1) % EVERY == 0 or step + 1 == config["end"]:
                penstock.ray.report({"step": step}, data)
            if step == config["wait"].get(world):
                (folder / f"waits-{world}").touch()
                threading.Event().wait()
            if step + 1 == config["end"]:
                return


def attempts(folder: Path, world: int) -> list[list[list[dict[str, Any]]]]:
    """For each time that so many workers started, and each rank, its steps."""
    started: list[list[list[dict[str, Any]]]] = []
    for rank in range(world):
        lines = [json.loads(line) for line in (folder / f"{world}-{rank}").read_text().splitlines()]
        for i, pid in enumerate(dict.fromkeys(line["pid"] for line in lines)):
            if len(started) == i:
                started.append([])
            started[i].append([line for line in lines if line["pid"] == pid])
    return started
