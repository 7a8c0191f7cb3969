"""Two towers on MovieLens, as `make demo` leaves it: who likes what, from the movies rated before.

    bin/penstock serve --config .demo/tables/penstock.yaml --listen 127.0.0.1:8815 &
    python movielens_towers.py 127.0.0.1:8815

The inputs of the user's tower come from two staging tables: the movies that the user rated
before, and the mean rating. The other tower gets the movie. A rating of four or more counts
as a like. Each epoch trains on the ratings before a day, and prints the loss of the later
ones.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

from penstock.torch import Batch, IterableDataset

MOVIES, WIDTH, EPOCHS = 20_000, 16, 2
DAY = "TIMESTAMP '2014-01-01 00:00:00+00:00'"

COLUMNS = ["movie_id", "rating", "last_movies"]
RULES: dict[str, Any] = {
    "nulls": {"movie_id": "error", "rating": "error", "last_movies": "empty", "last_movies[]": "error"},
    "hash": {"movie_id": MOVIES, "last_movies": MOVIES},
    # First sittings have no features: 0 means unknown.
    "dense": {"known": {"columns": ["mean_rating", "ratings_before"], "fill": 0}},
}


class TwoTowers(nn.Module):
    """Predicts the logit of a user liking a movie: the product of two vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.EmbeddingBag(MOVIES, WIDTH, mode="mean")
        self.known = nn.Linear(2, WIDTH)
        self.user = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.movie = nn.Embedding(MOVIES, WIDTH)
        self.liked = nn.Embedding(MOVIES, 1)

    def forward(self, batch: Batch) -> Tensor:
        """Returns the logits of the rows."""
        last = batch["last_movies"]
        seen = self.seen(last.values, last.offsets[:-1].long())
        known = self.known(torch.log1p(batch["known"]))
        user = self.user(torch.cat([seen, known], 1))
        movie = batch["movie_id"]
        logits: Tensor = (user * self.movie(movie)).sum(1) + self.liked(movie).squeeze(1)
        return logits


def loss(model: TwoTowers, batch: Batch) -> Tensor:
    """Returns the loss of a batch."""
    return nn.functional.binary_cross_entropy_with_logits(model(batch), (batch["rating"] >= 4).float())


def evaluate(model: TwoTowers, data: IterableDataset) -> float:
    """Returns the mean loss of all rows."""
    rows, total = 0, 0.0
    with torch.no_grad():
        for batch in data:
            rows, total = rows + batch.rows, total + loss(model, batch).item() * batch.rows
    return total / rows


def main(uri: str) -> None:
    """Trains, and prints the loss of the later ratings after each epoch."""
    torch.manual_seed(0)
    train = IterableDataset(
        uri, "movielens", columns=COLUMNS, filter=f"ts < {DAY}", batch_rows=1024, order="shuffled", **RULES
    )
    test = IterableDataset(uri, "movielens", columns=COLUMNS, filter=f"ts >= {DAY}", batch_rows=8192, **RULES)
    model = TwoTowers()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    print(f"before: loss {evaluate(model, test):.4f}")
    for epoch in range(EPOCHS):
        train.set_epoch(epoch)
        for batch in train:
            found = loss(model, batch)
            optimizer.zero_grad()
            found.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
