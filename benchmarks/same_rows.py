"""Are the tensors that a trainer receives those of its rows? The rows are joined again, without Penstock.

pyarrow reads the files of T. Each row of a batch is found by its request, item and `i4`, which are unique together,
and its features by the request. The tensors made of these rows must be the same, bit for bit, and must train the
same model to the same losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from dlrm import ALL_FLOATS, COLUMNS, HISTORY, Trainer
from inputs import Inputs, Source

from penstock.torch import Batch, Jagged

# What identifies a row of T.
KEY = ("request_id", "item_id", "i4")


class DifferenceError(Exception):
    """A tensor or a loss is not that of the joined rows."""


class Joined:
    """The rows of some requests, joined by pyarrow."""

    def __init__(self, inputs: Inputs, requests: pa.Array) -> None:
        self._training = _rows(inputs.training, requests)
        self._staging = _rows(inputs.staging, requests)
        keys = list(zip(*(self._training[name].to_pylist() for name in KEY), strict=True))
        self._places = {key: row for row, key in enumerate(keys)}
        if len(self._places) != len(keys):
            raise DifferenceError(f"{', '.join(KEY)} do not identify a row")
        self._features = {key: row for row, key in enumerate(self._staging[KEY[0]].to_pylist())}

    def batch(self, keys: Sequence[tuple[int, ...]]) -> Batch:
        """The tensors of the rows with these keys, in this order."""
        training = self._training.take([self._places[key] for key in keys])
        found = pa.array([self._features.get(key[0]) for key in keys], pa.int64())
        staging = self._staging.drop_columns([KEY[0]]).take(found)
        columns = {name: training[name] for name in training.column_names}
        columns |= {name: staging[name] for name in staging.column_names}
        return Batch({name: _tensor(name, columns[name].combine_chunks()) for name in COLUMNS})


def check(trainers: Sequence[Trainer], batches: Sequence[Batch], inputs: Inputs) -> list[float]:
    """Compares batches, which have the columns of `KEY`, with the joined rows, and returns the losses.

    The trainers must be equal. The first one trains on the batches, the second one on the joined rows.

    Raises:
        DifferenceError: a tensor differs in a bit, or a loss differs.
    """
    keys = [list(zip(*(batch[name].tolist() for name in KEY), strict=True)) for batch in batches]
    joined = Joined(inputs, pa.array([key[0] for of_batch in keys for key in of_batch], pa.int64()))
    losses: list[float] = []
    for number, (batch, of_batch) in enumerate(zip(batches, keys, strict=True)):
        wanted = joined.batch(of_batch)
        for name in COLUMNS:
            if _bits(batch[name]) != _bits(wanted[name]):
                raise DifferenceError(f"batch {number}: {name} is not that of the joined rows")
        loss = trainers[0].step(batch).item()
        other = trainers[1].step(wanted.to(trainers[1].device)).item()
        # On a GPU, gradients of rows that occur several times are added in any order.
        if abs(loss - other) > (1e-3 if trainers[0].device.type == "cuda" else 0):
            raise DifferenceError(f"batch {number}: the loss is {loss}, and {other} of the joined rows")
        losses.append(loss)
    return losses


def same(batches: Iterator[Batch], others: Iterator[Batch]) -> int:
    """Compares the batches of two ways to read, and returns how many there were.

    Raises:
        DifferenceError: a tensor differs in a bit, or one way has more batches.
    """
    count = 0
    for batch, other in zip(batches, others, strict=True):
        for name in COLUMNS:
            if _bits(batch[name]) != _bits(other[name]):
                raise DifferenceError(f"batch {count}: {name} differs")
        count += 1
    return count


def _rows(source: Source, requests: pa.Array) -> pa.Table:
    """The rows of a table that belong to these requests."""
    wanted = pc.unique(requests)
    read = (pq.ParquetFile(path).read() for path in source.files)
    return pa.concat_tables(
        [table.filter(pc.is_in(table[KEY[0]], wanted)) for table in read]
    ).combine_chunks()


def _tensor(name: str, values: pa.Array) -> Any:
    """A column as a tensor, by the rules of `dlrm.RULES`."""
    if name == HISTORY:
        lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return Jagged(torch.tensor(pc.list_flatten(values).to_numpy()), torch.tensor(offsets))
    filled = values.fill_null(0.0 if name in ALL_FLOATS else 0) if values.null_count else values
    return torch.tensor(filled.to_numpy(zero_copy_only=False))


def _bits(value: torch.Tensor | Jagged) -> list[tuple[str, bytes]]:
    """The types and bytes of the tensors of a column."""
    tensors = [value.values, value.offsets] if isinstance(value, Jagged) else [value]
    return [(str(tensor.dtype), tensor.cpu().numpy().tobytes()) for tensor in tensors]
