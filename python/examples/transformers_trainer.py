"""Trains with the Trainer of transformers, and resumes in the middle of an epoch.

    python transformers_trainer.py 127.0.0.1:8815 homefeed checkpoints
    torchrun --standalone --nproc-per-node 2 transformers_trainer.py 127.0.0.1:8815 homefeed checkpoints

If it is killed and started again, it resumes right after the last complete checkpoint: each row is trained on once.
The Trainer sets the epoch, and reads the batches before the checkpoint again to drop them. The dataset has `item_id`
and `label`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments

from penstock.torch import IterableDataset

BUCKETS, WIDTH = 1000, 8
STEP_ROWS, CHECKPOINT_STEPS, EPOCHS = 64, 5, 2


class Scores(nn.Module):
    """Predicts the logit of a label, by item."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            nn.Embedding(BUCKETS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Flatten(0)
        )

    def forward(self, item_id: Tensor, label: Tensor) -> dict[str, Tensor]:
        """Returns the loss of a batch, whose columns are the arguments."""
        loss = nn.functional.binary_cross_entropy_with_logits(self.tower(item_id), label.float())
        return {"loss": loss}


class StreamTrainer(Trainer):
    """A Trainer that takes batches as the dataset yields them."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Returns a loader that neither stacks batches nor divides them between processes."""
        return prepare_data_loader(
            DataLoader(self.train_dataset, batch_size=None),
            device=self.args.device,
            num_processes=1,
            process_index=0,
            put_on_device=True,
            dispatch_batches=False,
        )

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        """Prints the loss of a step."""
        loss = super().compute_loss(*arguments, **options)
        epoch, step = divmod(self.state.global_step, self.state.max_steps // EPOCHS)
        mean = self.accelerator.reduce(loss.detach(), "mean").item()
        if self.is_world_process_zero():
            print(f"epoch {epoch} step {step}: loss {mean:.6f}", flush=True)
        return loss


class CompleteCheckpoints(TrainerCallback):
    """Marks each checkpoint that is complete. The Trainer writes several files, and may be killed in between."""

    def on_save(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Marks a checkpoint when all processes have written their files."""
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            Path(args.output_dir, f"checkpoint-{state.global_step}", "complete").touch()


def last_checkpoint(folder: str) -> str | None:
    """Returns the last complete checkpoint."""
    steps = [int(mark.parent.name.removeprefix("checkpoint-")) for mark in Path(folder).glob("*/complete")]
    return str(Path(folder, f"checkpoint-{max(steps)}")) if steps else None


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
        tail="drop",
        nulls="error",
        hash={"item_id": BUCKETS},
    )
    settings = TrainingArguments(
        folder,
        num_train_epochs=EPOCHS,
        learning_rate=0.05,
        save_steps=CHECKPOINT_STEPS,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = StreamTrainer(Scores(), settings, train_dataset=data, callbacks=[CompleteCheckpoints()])
    trainer.train(resume_from_checkpoint=last_checkpoint(folder))
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
