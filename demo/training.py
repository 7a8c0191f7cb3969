"""Trains the model from the stream, with and without the staging columns."""

from __future__ import annotations

import dataclasses
import math

import lakehouse
import model
import numpy as np
from failure import DemoError
from screen import Screen

import penstock

EPOCHS = 2

_SEED = 7
_LANES = 8
_BATCH_ROWS = 256


@dataclasses.dataclass(frozen=True)
class Errors:
    """Root mean squared errors on the test ratings."""

    every: float
    matched: float  # for rows where the staging tables have the user's history
    unmatched: float


class Trainer:
    """Reads one pin of the dataset, and trains models on the same rows."""

    def __init__(
        self, screen: Screen, client: penstock.Client, pin: dict[str, object], facts: lakehouse.Facts
    ) -> None:
        self._screen = screen
        self._client = client
        self._pin = pin
        self._facts = facts
        self._border = f"TIMESTAMP '{facts.tested_from} 00:00:00+00:00'"

    def both(self) -> None:
        """Train both models and show their test errors.

        Raises:
            DemoError: the features did not help, or a stream gave too many or too few rows.
        """
        self._screen.say(
            f"{EPOCHS} epochs over the {self._facts.train_rows:,} ratings before {self._facts.tested_from}, "
            "shuffled by seed and"
        )
        self._screen.say(
            f"epoch; then the test on the {self._facts.test_rows:,} since. Both models know the user's id."
        )
        self._screen.say()
        plain = self._trained(staging=False)
        joined = self._trained(staging=True)
        self._screen.say()
        self._screen.say(f"{'test error (RMSE)':<30}{'all':>10}{'with history':>16}{'first sitting':>17}")
        for label, errors in (("training columns only", plain), ("with both staging tables", joined)):
            self._screen.say(
                f"{label:<30}{errors.every:>10.4f}{errors.matched:>16.4f}{errors.unmatched:>17.4f}"
            )
        if not joined.every < plain.every:
            raise DemoError("the features did not lower the test error")
        gains = [1 - joined.every / plain.every, 1 - joined.matched / plain.matched]
        self._screen.good(f"{'lower by':<30}{gains[0]:>10.1%}{gains[1]:>16.1%}")

    def _trained(self, *, staging: bool) -> Errors:
        columns = model.TRAINING_COLUMNS + (model.STAGING_COLUMNS if staging else [])
        learner = model.Model(staging=staging)
        name = "with features   " if staging else "without features"
        for epoch in range(EPOCHS):
            self._epoch(learner, columns, epoch, f"{name}  epoch {epoch + 1}/{EPOCHS}")
        return self._test(learner, columns)

    def _epoch(self, learner: model.Model, columns: list[str], epoch: int, label: str) -> None:
        bar = self._screen.bar(label, self._facts.train_rows)
        rows, squares = 0, 0.0
        with self._client.read(
            lakehouse.DATASET,
            snapshots=self._pin,
            columns=columns,
            filter=f"ts < {self._border}",
            order="shuffled",
            seed=_SEED,
            epoch=epoch,
            lanes=_LANES,
            batch_rows=_BATCH_ROWS,
        ) as stream:
            for batch in stream:
                squares += learner.learn(batch)
                rows += batch.num_rows
                bar.at(rows)
        bar.done(rows, f"train error {math.sqrt(squares / max(rows, 1)):.4f}")
        expect(rows, self._facts.train_rows, "ratings to train on")

    def _test(self, learner: model.Model, columns: list[str]) -> Errors:
        # Both models read which rows have a history, so that
        # errors can be shown side by side.
        asked = list(dict.fromkeys([*columns, "ratings_before"]))
        squares, matches = [], []
        with self._client.read(
            lakehouse.DATASET, snapshots=self._pin, columns=asked, filter=f"ts >= {self._border}"
        ) as stream:
            for batch in stream:
                squares.append((learner.predict(batch) - model.ratings(batch)) ** 2)
                matches.append(batch["ratings_before"].is_valid().to_numpy(zero_copy_only=False))
        every, matched = np.concatenate(squares), np.concatenate(matches)
        expect(len(every), self._facts.test_rows, "ratings to test on")
        return Errors(_root(every), _root(every[matched]), _root(every[~matched]))


def expect(rows: int, wanted: int, what: str) -> None:
    """Raise unless a stream returned all rows."""
    if rows != wanted:
        raise DemoError(f"the stream gave {rows:,} {what}, there are {wanted:,}")


def _root(squares: model.Matrix) -> float:
    return math.sqrt(float(squares.mean()))
