"""Trains one model with several learning rates at the same time, each in its own process.

    python sweep.py 127.0.0.1:8815 homefeed 0.01 0.03 0.1 0.3

All jobs read the same rows in the same order, so that the rate alone makes the difference. They
read from one server, which scans, joins and assembles each batch once for all of them. On the server's
host, with `penstock serve --local-socket PATH`, they also read it from the same memory. The dataset has
`item_id` and `label`. The last line says which rate was best.
"""

from __future__ import annotations

import sys
from multiprocessing import get_context

import torch
from torch import nn

from penstock.torch import IterableDataset

BUCKETS, WIDTH, EPOCHS = 1000, 8, 2


def job(uri: str, dataset: str, rate: float) -> tuple[float, float]:
    """Trains with one rate; returns the rate and the mean loss of the last epoch."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = IterableDataset(
        uri,
        dataset,
        columns=["item_id", "label"],
        batch_rows=256,
        order="shuffled",
        seed=1,
        nulls="error",
        hash={"item_id": BUCKETS},
    )
    model = nn.Sequential(nn.Embedding(BUCKETS, WIDTH), nn.Linear(WIDTH, 1), nn.Flatten(0))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=rate)
    for epoch in range(EPOCHS):
        data.set_epoch(epoch)
        rows, losses = 0, 0.0
        for batch in data:
            loss = nn.functional.binary_cross_entropy_with_logits(
                model(batch["item_id"]), batch["label"].float()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows, losses = rows + batch.rows, losses + loss.item() * batch.rows
    return rate, losses / rows


def main(uri: str, dataset: str, *rates: str) -> None:
    """Runs a job for each rate, all at the same time."""
    with get_context("spawn").Pool(len(rates)) as pool:
        losses = pool.starmap(job, [(uri, dataset, float(rate)) for rate in rates])
    for rate, loss in losses:
        print(f"rate {rate}: loss {loss:.6f}")
    print(f"best: {min(losses, key=lambda one: one[1])[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
