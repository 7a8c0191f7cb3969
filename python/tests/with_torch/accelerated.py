"""Loops of Accelerate on several processes, each of which prints its rows or the error: what test_frameworks.py starts."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader
from trained import QUERY, RULES

import penstock
from penstock.torch import IterableDataset


def main(address: str, dispatch: str, ranks: str) -> None:
    """Reads one epoch.

    Args:
        address: the server's address.
        dispatch: the value of dispatch_batches as JSON; "own" prepares the loader as if there were one process.
        ranks: "one": the dataset has one rank; "all": that of torch.distributed.
    """
    config = DataLoaderConfiguration(dispatch_batches=None if dispatch == "own" else json.loads(dispatch))
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    one: Any = {"rank": 0, "world": 1} if ranks == "one" else {}
    data = IterableDataset(address, "d", **QUERY, **RULES, **one)
    loader: Any = DataLoader(data, batch_size=None)
    if dispatch == "own":
        loader = prepare_data_loader(
            loader,
            device=torch.device("cpu"),
            num_processes=1,
            process_index=0,
            put_on_device=True,
            dispatch_batches=False,
        )
    else:
        loader = accelerator.prepare(loader)
    found: Any = []
    try:
        found = [(batch["row"].tolist(), batch.rows, type(batch).__name__) for batch in loader]
    except (penstock.Invalid, TypeError) as e:
        found = f"{type(e).__name__}: {e}"
    # In one write: the processes share a pipe, and print writes the end of a line apart.
    os.write(1, f"{json.dumps([accelerator.process_index, found])}\n".encode())
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
