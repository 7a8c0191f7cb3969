"""Trains on the ranks of torchrun, saves checkpoints, and resumes from them with any number of ranks.

    torchrun --standalone --nproc-per-node 2 train_ranks.py 127.0.0.1:8815 homefeed checkpoint.pt

If it is killed and started again, also with 1 or 4 ranks, it resumes right after the last
checkpoint: each row is trained on once. The dataset has `item_id` and `label`.

A step has `global_batch_rows` rows over all ranks, so that the steps, and with them the losses,
are the same for any number of ranks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import penstock
from penstock.torch import IterableDataset

BUCKETS, WIDTH = 1000, 8
STEP_ROWS, CHECKPOINT_STEPS, EPOCHS = 64, 5, 2


class Scores(nn.Module):
    """Predicts the logit of a label, by item."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(BUCKETS, WIDTH)
        self.tower = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, items: Tensor) -> Tensor:
        """Returns the logits of items."""
        logits: Tensor = self.tower(self.items(items)).squeeze(1)
        return logits


def save(path: Path, kept: dict[str, Any]) -> None:
    """Writes a checkpoint atomically."""
    unfinished = path.with_suffix(".unfinished")
    torch.save(kept, unfinished)
    unfinished.replace(path)


def train(uri: str, dataset: str, path: Path) -> None:
    """Trains all epochs; rank 0 prints the loss of each step."""
    torch.manual_seed(0)
    rank, world = dist.get_rank(), dist.get_world_size()
    data = IterableDataset(
        uri,
        dataset,
        columns=["item_id", "label"],
        global_batch_rows=STEP_ROWS,
        order="shuffled",
        seed=1,
        lanes=4,
        nulls="error",
        hash={"item_id": BUCKETS},
    )
    model = DistributedDataParallel(Scores())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    first = 0
    if path.exists():
        kept = torch.load(path)
        model.module.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        data.load_state_dict(kept["data"])
        first = kept["epoch"]
    for epoch in range(first, EPOCHS):
        data.set_epoch(epoch)
        for batch in data:
            loss = nn.functional.binary_cross_entropy_with_logits(
                model(batch["item_id"]), batch["label"].float()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach())
            if rank == 0:
                print(f"epoch {epoch} step {batch.step}: loss {loss.item() / world:.6f}", flush=True)
            if (batch.step + 1) % CHECKPOINT_STEPS == 0:
                states: list[Any] = [None] * world
                dist.all_gather_object(states, data.state_dict())
                if rank == 0:
                    merged = penstock.merge_states(states)
                    weights, moments = model.module.state_dict(), optimizer.state_dict()
                    save(path, {"epoch": epoch, "model": weights, "optimizer": moments, "data": merged})


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // dist.get_world_size()))
    train(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    dist.destroy_process_group()
