"""Which rank this is, and which of its DataLoader workers."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import FrameType

import torch.distributed
from torch.utils.data import DataLoader, get_worker_info

from penstock import errors, mistakes


def current() -> tuple[int, int]:
    """The rank and how many there are, as torch.distributed says; (0, 1) where nothing speaks of several.

    Raises:
        Invalid: the launcher started several ranks, and torch.distributed does not know them yet.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    world = os.environ.get("WORLD_SIZE", "1")
    if world not in ("", "1"):
        raise errors.Invalid(
            f"WORLD_SIZE is {world}, and torch.distributed is not initialized: each rank would read all rows",
            remedy="call torch.distributed.init_process_group before the dataset is read, or give rank= and world=",
        )
    return 0, 1


def given(rank: int | None, world: int | None) -> tuple[int, int] | None:
    """The rank and how many there are, as a user says; None if nothing was said.

    Raises:
        Invalid: one is missing, or there is no such rank.
    """
    if rank is None and world is None:
        return None
    if rank is None or world is None:
        raise errors.Invalid("rank and world are given together, or not at all", remedy="give both")
    rank, world = mistakes.whole("rank", rank), mistakes.whole("world", world)
    if not 0 <= rank < world:
        raise errors.Invalid(f"rank: there is no rank {rank} of {world}", remedy=f"0 to {world - 1}")
    return rank, world


@dataclass(frozen=True)
class Worker:
    """One DataLoader worker.

    Attributes:
        index: 0 to of - 1.
        of: how many take turns.
        seed: of the loader's iterator that started them, which others have only where the user seeds them alike.
    """

    index: int
    of: int
    seed: int


def worker() -> Worker | None:
    """The DataLoader worker that this process is; None if it is none."""
    info = get_worker_info()
    return None if info is None else Worker(info.id, info.num_workers, info.seed - info.id)


def loads_out_of_order() -> bool:
    """Whether a DataLoader with `in_order=False` is starting workers in this thread.

    A loader does not tell its workers. But it starts them in a function that has it as `loader`: in the
    process that pickles the dataset for a worker, and in a forked worker, that call is on the stack.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        loader = frame.f_locals.get("loader") if frame.f_code.co_name == "__init__" else None
        if isinstance(loader, DataLoader):
            return not getattr(loader, "in_order", True)
        frame = frame.f_back
    return False
