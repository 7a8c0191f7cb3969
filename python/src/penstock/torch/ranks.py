"""The rank of this process, and its DataLoader worker."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch.distributed
from torch.utils.data import get_worker_info

from penstock import errors, mistakes


def current() -> tuple[int, int]:
    """The rank and the number of ranks from torch.distributed; (0, 1) if nothing indicates several ranks.

    Raises:
        Invalid: the launcher started several ranks, but torch.distributed is not initialized yet.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    world = os.environ.get("WORLD_SIZE", "1")
    if world not in ("", "1"):
        raise errors.Invalid(
            f"WORLD_SIZE is {world}, but torch.distributed is not initialized: each rank would read all rows",
            remedy="call torch.distributed.init_process_group before reading the dataset, or pass rank= and world=",
        )
    return 0, 1


def explicit(rank: int | None, world: int | None) -> tuple[int, int] | None:
    """The rank and the number of ranks from the user's arguments; None if there are none.

    Raises:
        Invalid: one of the two is missing, or the rank is out of range.
    """
    if rank is None and world is None:
        return None
    if rank is None or world is None:
        raise errors.Invalid("rank and world must be set together", remedy="pass both")
    rank, world = mistakes.whole("rank", rank), mistakes.whole("world", world)
    if not 0 <= rank < world:
        raise errors.Invalid(f"rank: there is no rank {rank} of {world}", remedy=f"use 0 to {world - 1}")
    return rank, world


@dataclass(frozen=True)
class Worker:
    """One DataLoader worker.

    Attributes:
        index: 0 to of - 1.
        of: the number of workers.
        seed: the seed of the loader's iterator that started them; iterators only share one if the user seeds them alike.
    """

    index: int
    of: int
    seed: int


def worker() -> Worker | None:
    """The DataLoader worker of this process; None if it is not a worker."""
    found = get_worker_info()
    return None if found is None else Worker(found.id, found.num_workers, found.seed - found.id)
