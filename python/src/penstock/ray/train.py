"""Checkpoints of Ray Train with the positions of all ranks, from which any number of workers resumes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import errors
from penstock.states import merge_states

# Ray Train, and torch, are imported where they are needed: the workers of Ray Data need neither.
if TYPE_CHECKING:
    from penstock.torch import IterableDataset

D = TypeVar("D", bound="IterableDataset[Any]")

# The name of a rank's file in a checkpoint.
_FILE = "penstock-rank-{}.json"


def resumed(data: D) -> D:
    """Makes a dataset resume from the checkpoint of this run of Ray Train, and returns it. All ranks must call it.

    If the run has no checkpoint yet, the dataset begins with its first step, and all ranks read the snapshots that the first
    rank's plan chose.

    Args:
        data: a dataset whose rank comes from torch.distributed, which a `TorchTrainer` initializes. Its `lanes` are a
            multiple of each number of workers that the run may have.

    Raises:
        Invalid: the checkpoint was not reported by `report`, or is from a different query.
    """
    import ray.train

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        _agree(data)
        return data
    with checkpoint.as_directory() as folder:
        data.load_state_dict(merged(Path(folder)))
    return data


def merged(folder: Path) -> dict[str, Any]:
    """Returns the merged positions of all ranks in the folder of a checkpoint.

    Raises:
        Invalid: there are none, or a rank is missing.
    """
    states = [json.loads(file.read_text()) for file in folder.glob(_FILE.format("*"))]
    if not states:
        raise errors.Invalid(
            "the checkpoint of this run has no position of a dataset",
            remedy="report checkpoints with penstock.ray.report on all ranks",
        )
    return merge_states(states)


def report(metrics: Mapping[str, Any], data: Any, folder: str | os.PathLike[str] | None = None) -> None:
    """Reports metrics and a checkpoint with this rank's position, as `ray.train.report` does. All ranks must call it.

    Args:
        metrics: as in `ray.train.report`.
        data: the dataset or StatefulDataLoader that the loop reads, or the cursor of its last batch. All ranks must have
            received the same number of steps.
        folder: a folder with this rank's other files for the checkpoint, such as the model; None if it has none.
    """
    import ray.train

    state = data.state_dict() if hasattr(data, "state_dict") else data
    with tempfile.TemporaryDirectory() as own:
        files = Path(own if folder is None else folder)
        rank = ray.train.get_context().get_world_rank()
        (files / _FILE.format(rank)).write_text(json.dumps(state))
        ray.train.report(dict(metrics), checkpoint=ray.train.Checkpoint.from_directory(files))


def _agree(data: IterableDataset[Any]) -> None:
    """Makes all ranks read the snapshots of the first rank's plan."""
    import torch.distributed

    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return
    chosen: list[Any] = [None]
    if torch.distributed.get_rank() == 0:
        if data.sources:
            len(data)  # which plans the members of a mix
        else:
            data.plan()
        chosen = [data.state_dict()]
    torch.distributed.broadcast_object_list(chosen)
    data.load_state_dict(chosen[0])
