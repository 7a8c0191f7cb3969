"""A small rating model in numpy, trained by stochastic gradient descent.

Its prediction is a bias of the movie, a bias of the user, and weights on a few
numbers: genres and age of the movie, and, where they are streamed, what the
staging tables know about the user before the sitting. Both models know all
training columns, the user's id included; only the staging columns differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from movielens import GENRES

TRAINING_COLUMNS = ["user_id", "movie_id", "rating", "year", "genres"]
STAGING_COLUMNS = ["ratings_before", "mean_rating", "last_movies", "affinity"]

_SLOTS = 1 << 18  # for users and for movies; larger than any id in the data
_MIDDLE = 3.5
_RATE = 0.1
_DECAY = 0.02
_CENTURY = 100.0
_DOUBT = 5.0  # the number of a user's ratings at which their mean has half of the weight

Matrix = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Model:
    """Learns from batches as they arrive. Not safe for threads."""

    def __init__(self, *, staging: bool) -> None:
        self._staging = staging
        self._movie = _Learned(_SLOTS)
        self._user = _Learned(_SLOTS)
        self._weight = _Learned(_width(staging))

    def predict(self, batch: pa.RecordBatch) -> Matrix:
        """The ratings expected for the rows of a batch."""
        return self._predict(batch, self._inputs(batch))

    def learn(self, batch: pa.RecordBatch) -> float:
        """Take one step on a batch; returns the sum of squared errors before it."""
        inputs = self._inputs(batch)
        error = self._predict(batch, inputs) - ratings(batch)
        self._movie.step(_slots(batch, "movie_id"), error)
        self._user.step(_slots(batch, "user_id"), error)
        self._weight.step_dense(inputs.T @ error / len(error))
        return float(error @ error)

    def _predict(self, batch: pa.RecordBatch, inputs: Matrix) -> Matrix:
        bias = self._movie.value[_slots(batch, "movie_id")]
        bias = bias + self._user.value[_slots(batch, "user_id")]
        return _MIDDLE + bias + inputs @ self._weight.value

    def _inputs(self, batch: pa.RecordBatch) -> Matrix:
        year = _numbers(batch, "year")
        known = ~np.isnan(year)
        age = np.where(known, (year - 1990) / _CENTURY, 0)
        belongs = _belongs(batch)
        columns = [np.ones(batch.num_rows), known, age, *belongs.T]
        if self._staging:
            columns += self._history(batch, belongs)
        return np.column_stack(columns).astype(np.float64)

    def _history(self, batch: pa.RecordBatch, belongs: Matrix) -> list[Any]:
        """The features from the staging tables; all zero for a row without a match."""
        count = np.nan_to_num(_numbers(batch, "ratings_before"))
        trust = count / (count + _DOUBT)
        mean = np.nan_to_num(_numbers(batch, "mean_rating") - _MIDDLE)
        liked = self._movies_before(batch["last_movies"])
        affinity = _affinity(batch["affinity"])
        genres = np.maximum(belongs.sum(axis=1), 1)
        fit = (affinity * belongs).sum(axis=1) / genres
        return [count > 0, trust * mean, trust * liked, trust * fit, np.log1p(count) / 10]

    def _movies_before(self, lists: pa.Array) -> Matrix:
        """Mean bias of the movies rated last: are they generally popular?"""
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(lists)), lengths)
        movies = lists.flatten().to_numpy(zero_copy_only=False)
        total = np.bincount(rows, self._movie.value[movies % _SLOTS], len(lists))
        mean: Matrix = total / np.maximum(lengths, 1)
        return mean


class _Learned:
    """Parameters with AdaGrad: those with large gradients so far get smaller steps."""

    def __init__(self, size: int) -> None:
        self.value = np.zeros(size)
        self._moved = np.ones(size)

    def step(self, slots: Integers, error: Matrix) -> None:
        """Update the slots of a batch's rows; slots may repeat."""
        touched, where, count = np.unique(slots, return_inverse=True, return_counts=True)
        gradient = np.bincount(where, error) + _DECAY * count * self.value[touched]
        self._moved[touched] += gradient**2
        self.value[touched] -= _RATE * gradient / np.sqrt(self._moved[touched])

    def step_dense(self, gradient: Matrix) -> None:
        """Update all parameters."""
        self._moved += gradient**2
        self.value -= _RATE * gradient / np.sqrt(self._moved)


def ratings(batch: pa.RecordBatch) -> Matrix:
    """The ratings given."""
    return _numbers(batch, "rating")


def _width(staging: bool) -> int:
    return 3 + len(GENRES) + (5 if staging else 0)


def _slots(batch: pa.RecordBatch, name: str) -> Integers:
    ids: Integers = batch[name].to_numpy(zero_copy_only=False)
    return ids % _SLOTS


def _numbers(batch: pa.RecordBatch, name: str) -> Matrix:
    """A column as floats, NaN for null."""
    values: Matrix = pc.cast(batch[name], pa.float64()).to_numpy(zero_copy_only=False)
    return values


def _belongs(batch: pa.RecordBatch) -> Matrix:
    """One row per movie and one column per genre: 1 if the movie has it."""
    lists = batch["genres"]
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    matrix = np.zeros((len(lists), len(GENRES)))
    ids = lists.flatten().to_numpy(zero_copy_only=False)
    matrix[np.repeat(np.arange(len(lists)), lengths), ids] = 1
    return matrix


def _affinity(lists: pa.Array) -> Matrix:
    """One row per list, one column per genre, 0 for nulls."""
    matrix = np.zeros((len(lists), len(GENRES)))
    there = pc.is_valid(lists).to_numpy(zero_copy_only=False)
    values = pc.fill_null(lists.flatten(), 0).to_numpy(zero_copy_only=False)
    matrix[there] = values.reshape(-1, len(GENRES))
    return matrix
