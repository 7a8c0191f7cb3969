"""Loops whose types test_types.py checks; it is not run."""

from __future__ import annotations

from typing import assert_type

from torch.utils.data import DataLoader

from penstock import Cursor
from penstock.torch import Batch, IterableDataset


def rows(batch: Batch) -> float:
    return batch.rows + batch.step + 0.5


ds = IterableDataset("localhost", "d", nulls={"*": "error", "clicks": 0})
for batch in ds:
    assert_type(batch, Batch)
    assert_type(batch.rows, int)
assert_type(next(iter(ds)), Batch)
assert_type(DataLoader(ds, batch_size=None), DataLoader[Batch])
for value, cursor in IterableDataset("localhost", "d", transform=rows):
    assert_type(value, float)
    assert_type(cursor, Cursor)
for _, cursor in IterableDataset("localhost", "d", convert=False):
    assert_type(cursor, Cursor)
for count, _ in IterableDataset("localhost", "d", convert=False, transform=len):
    assert_type(count, int)
for batch in IterableDataset("localhost", mix=[{"dataset": "d", "weight": 1}], ends="repeat", limit=3):
    assert_type(batch, Batch)
for records, _ in IterableDataset("localhost", "d", repeat="forever", transform=len, rank=0, world=2):
    assert_type(records, int)


def loop(data: IterableDataset) -> None:
    for batch in data:
        assert_type(batch, Batch)


loop(ds)
