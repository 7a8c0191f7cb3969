"""Trains with Accelerate on any number of processes, and resumes in the middle of an epoch.

    accelerate launch --cpu --num_processes 2 accelerate_loop.py 127.0.0.1:8815 homefeed checkpoint.pt

If it is killed and started again, it resumes right after the last checkpoint: each row is trained on once. Each process
reads its own shard, so the loader is prepared as if there were one process. Accelerate takes a batch ahead of the loop:
the state to save is the cursor of the last batch. The dataset has `item_id` and `label`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import gather_object
from torch import nn
from torch.utils.data import DataLoader

import penstock
from penstock.torch import IterableDataset

BUCKETS, WIDTH = 1000, 8
STEP_ROWS, CHECKPOINT_STEPS, EPOCHS = 64, 5, 2


def main(uri: str, dataset: str, path: Path) -> None:
    """Trains all epochs; the first process prints the loss of each step."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
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
    loader = prepare_data_loader(
        DataLoader(data, batch_size=None),
        device=accelerator.device,
        num_processes=1,
        process_index=0,
        put_on_device=True,
        dispatch_batches=False,
    )
    model = nn.Sequential(nn.Embedding(BUCKETS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Flatten(0))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    if path.exists():
        kept = torch.load(path)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        data.load_state_dict(kept["data"])
    model, optimizer = accelerator.prepare(model, optimizer)
    for epoch in range(data.epoch, EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(
                model(batch["item_id"]), batch["label"].float()
            )
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            mean = accelerator.reduce(loss.detach(), "mean").item()
            accelerator.print(f"epoch {epoch} step {batch.step}: loss {mean:.6f}", flush=True)
            if (batch.step + 1) % CHECKPOINT_STEPS == 0:
                merged = penstock.merge_states(gather_object([batch.cursor]))
                if accelerator.is_main_process:
                    weights = accelerator.unwrap_model(model).state_dict()
                    unfinished = path.with_suffix(".unfinished")
                    torch.save(
                        {"model": weights, "optimizer": optimizer.state_dict(), "data": merged}, unfinished
                    )
                    unfinished.replace(path)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
