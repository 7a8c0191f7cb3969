"""Trains a model that FSDP shards over the ranks of torchrun, and resumes in the middle of an epoch.

    torchrun --standalone --nproc-per-node 2 train_fsdp.py 127.0.0.1:8815 homefeed checkpoints

If it is killed and started again, also with another number of ranks, it resumes right after the last checkpoint: each
row is trained on once. The dataset has `item_id` and `label`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import penstock
from penstock.torch import IterableDataset

BUCKETS, WIDTH = 1000, 8
STEP_ROWS, CHECKPOINT_STEPS, EPOCHS = 64, 5, 2


def train(uri: str, dataset: str, folder: Path) -> None:
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
    model = nn.Sequential(nn.Embedding(BUCKETS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Flatten(0))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    last = folder / "last.json"
    if last.exists():
        kept = json.loads(last.read_text())
        weights, moments = get_state_dict(model, optimizer)
        loaded: dict[str, Any] = {"model": weights, "optimizer": moments}
        load(loaded, checkpoint_id=folder / kept["weights"])
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=loaded["optimizer"])
        data.load_state_dict(kept["data"])
    for epoch in range(data.epoch, EPOCHS):
        data.set_epoch(epoch)
        for batch in data:
            loss = nn.functional.binary_cross_entropy_with_logits(
                model(batch["item_id"]), batch["label"].float()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"epoch {epoch} step {batch.step}: loss {mean.item() / world:.6f}", flush=True)
            if (batch.step + 1) % CHECKPOINT_STEPS == 0:
                weights, moments = get_state_dict(model, optimizer)
                name = f"epoch-{epoch}-step-{batch.step}"
                save({"model": weights, "optimizer": moments}, checkpoint_id=folder / name)
                states: list[Any] = [None] * world
                dist.all_gather_object(states, data.state_dict())
                if rank == 0:
                    # It names a checkpoint only once that is complete.
                    unfinished = last.with_suffix(".unfinished")
                    unfinished.write_text(
                        json.dumps({"weights": name, "data": penstock.merge_states(states)})
                    )
                    unfinished.replace(last)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // dist.get_world_size()))
    train(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    dist.destroy_process_group()
