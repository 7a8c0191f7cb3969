"""Evaluates ten models in one pass: every row is read and joined once, and each model sees it.

The models are small: each guesses a label's probability from how long the history of a request is. Those
of yours take the same batch. The result says which of them guesses best.

    python ten_models.py 127.0.0.1:8815 homefeed results --label label --history last_items
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import penstock

Floats = npt.NDArray[np.float64]
Model = Callable[[Floats], Floats]


def model(weight: float) -> Model:
    """A guess from the length of a history."""
    return lambda length: 1 / (1 + np.exp(-weight * (length - 2)))


MODELS: dict[str, Model] = {f"model-{i}": model(i / 10) for i in range(10)}


def features(batch: pa.RecordBatch, label: str, history: str) -> tuple[Floats, Floats]:
    """Returns labels and history lengths of the rows with a label: the input of all models."""
    batch = batch.filter(pc.is_valid(batch.column(label)))
    lengths = pc.fill_null(pc.list_value_length(batch.column(history)), 0)
    return batch.column(label).to_numpy().astype(np.float64), lengths.to_numpy().astype(np.float64)


def main() -> None:
    """Evaluates the remaining splits, and prints each model's loss."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("server", help="host:port")
    arguments.add_argument("dataset")
    arguments.add_argument("folder", help="of the results of this run")
    arguments.add_argument("--label", default="label")
    arguments.add_argument("--history", default="last_items")
    given = arguments.parse_args()

    def evaluate(stream: penstock.Stream) -> dict[str, object]:
        rows, losses = 0, dict.fromkeys(MODELS, 0.0)
        for batch in stream:
            label, length = features(batch, given.label, given.history)
            rows += len(label)
            for name, guess in MODELS.items():
                sure = np.where(label == 1, guess(length), 1 - guess(length))
                losses[name] += float(-np.log(sure).sum())
        return {"model": list(losses), "rows": [rows] * len(losses), "loss": list(losses.values())}

    columns = [given.label, given.history]
    with penstock.connect(given.server) as client:
        done = client.evaluate(given.dataset, given.folder, evaluate, columns=columns, progress="auto")
    sums = done.table().group_by("model").aggregate([("rows", "sum"), ("loss", "sum")]).sort_by("loss_sum")
    for name, rows, loss in zip(*(sums.column(i).to_pylist() for i in range(3)), strict=True):
        print(f"{name} {rows} {loss / max(1, rows):.9f}")


if __name__ == "__main__":
    main()
