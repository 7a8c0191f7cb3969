"""Trains with Lightning, and resumes in the middle of an epoch.

    python lightning_fit.py 127.0.0.1:8815 homefeed checkpoints
    torchrun --standalone --nproc-per-node 2 lightning_fit.py 127.0.0.1:8815 homefeed checkpoints

If it is killed and started again, also with another number of ranks, it resumes right after the last checkpoint: each
row is trained on once. Lightning saves and loads the state of the dataset, and its loop determines the epoch. The
dataset has `item_id` and `label`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn

from penstock.torch import Batch, IterableDataset

BUCKETS, WIDTH = 1000, 8
STEP_ROWS, CHECKPOINT_STEPS, EPOCHS = 64, 5, 2


class Scores(lightning.LightningModule):
    """Predicts the logit of a label, by item."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            nn.Embedding(BUCKETS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Flatten(0)
        )

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Returns the loss of a batch."""
        logits = self.tower(batch["item_id"])
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch["label"].float())
        mean = self.all_gather(loss.detach()).mean().item()
        if self.global_rank == 0:
            print(f"epoch {self.current_epoch} step {batch.step}: loss {mean:.6f}", flush=True)
        return loss

    def configure_optimizers(self) -> Any:
        """Returns the optimizer."""
        return torch.optim.Adagrad(self.parameters(), lr=0.05)


def main(uri: str, dataset: str, folder: str) -> None:
    """Trains all epochs, from the last checkpoint on if there is one."""
    torch.manual_seed(0)
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
    saves = ModelCheckpoint(folder, every_n_train_steps=CHECKPOINT_STEPS, save_last=True)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        callbacks=[saves],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Scores(), data, ckpt_path="last")


if __name__ == "__main__":
    main(*sys.argv[1:])
