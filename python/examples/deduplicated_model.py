"""A two-tower model that embeds each request's history once, however many items it has.

    python deduplicated_model.py 127.0.0.1:8815 homefeed features

The last argument is the staging entry with a list of ids, `history`. The training
table has `item_id` and `label`. Ids are hashed into the rows of one embedding table.

An indexed batch contains each history once, and `users` computes its vector once.
`spread` copies that vector to the rows of the request, where it is combined with the
item. Loss and gradients are those of the plain batch, in which every row repeats its
history.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

import penstock
from penstock.torch import Batch, Converter, Jagged

BUCKETS = 20_000
COLUMNS = ["item_id", "label", "history"]


class TwoTowers(nn.Module):
    """The score of an item for the user of a request: the product of two vectors."""

    def __init__(self, entry: str, width: int = 64) -> None:
        super().__init__()
        self._entry = entry
        self.ids = nn.EmbeddingBag(BUCKETS, width, mode="mean")
        self.tower = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, batch: Batch) -> Tensor:
        """Scores the rows of an indexed batch."""
        features = batch[self._entry]
        users = features.spread(self.users(features["history"]))
        return self.scores(users, batch["item_id"])

    def users(self, history: Jagged) -> Tensor:
        """Returns one vector per history."""
        vectors: Tensor = self.tower(self.ids(history.values, history.offsets[:-1].long()))
        return vectors

    def scores(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores each item for the user in the same row."""
        return (users * self.ids(items[:, None])).sum(1)


def converter(stream: penstock.Stream) -> Converter:
    """Converts the columns: hashed ids, and empty lists for missing histories."""
    nulls = {"item_id": "error", "label": "error", "history": "empty", "history[]": "error"}
    return Converter(stream.schema, nulls=nulls, hash={"item_id": BUCKETS, "history": BUCKETS})


def train(client: penstock.Client, dataset: str, entry: str) -> None:
    """Trains one epoch; prints the loss of each step, and the number of histories of its rows."""
    torch.manual_seed(0)
    model = TwoTowers(entry)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    with client.read(dataset, columns=COLUMNS, wire="indexed", batch_rows=1024) as stream:
        convert = converter(stream)
        for step, records in enumerate(stream):
            batch = convert(records, step=step)
            loss = nn.functional.binary_cross_entropy_with_logits(model(batch), batch["label"].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            histories = batch[entry].rows
            print(f"step {step}: loss {loss.item():.4f}, {histories} histories for {batch.rows} rows")


if __name__ == "__main__":
    uri, dataset, entry = sys.argv[1:]
    with penstock.connect(uri) as client:
        train(client, dataset, entry)
