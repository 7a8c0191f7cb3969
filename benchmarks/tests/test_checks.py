"""The sums of the right answer are right, and every kind of wrong row changes them."""

from __future__ import annotations

import unittest

import numpy as np
import pyarrow as pa
import tables
from checks import Summary

SIZES = tables.Sizes(rows=3_000, requests=300, history=5, buckets=4, missing=0.05)


def joined(drawn: tables.Drawn) -> pa.Table:
    """The left join, row by row through a dictionary."""
    known = {key: row for row, key in enumerate(drawn.staging[tables.KEY].to_pylist())}
    keys = drawn.training[tables.KEY].to_pylist()
    rows = pa.array([known.get(key) for key in keys], pa.int64())
    result = drawn.training
    for name in drawn.staging.column_names:
        if name != tables.KEY:
            result = result.append_column(name, drawn.staging[name].combine_chunks().take(rows))
    return result


def differences(expected: Summary, table: pa.Table) -> list[str]:
    """The findings of the checks for a table that is read in small batches."""
    summary = Summary()
    for batch in table.combine_chunks().to_batches(max_chunksize=128):
        summary.add(batch)
    return summary.differences(expected)


class Checks(unittest.TestCase):
    """All cases look at one small T."""

    def setUp(self) -> None:
        self.drawn = tables.draw(SIZES)
        self.right = joined(self.drawn)

    def test_right_answer_in_any_order(self) -> None:
        order = np.random.default_rng(1).permutation(self.right.num_rows)
        assert differences(self.drawn.expected, self.right) == []
        assert differences(self.drawn.expected, self.right.take(order)) == []

    def test_has_rows_without_features(self) -> None:
        assert self.right["country"].null_count > 0

    def test_row_lost_or_twice(self) -> None:
        lost = self.right.slice(1)
        twice = pa.concat_tables([self.right.slice(0, 1), self.right])
        for table in (lost, twice, pa.concat_tables([self.right.slice(0, 1), lost.slice(1)])):
            assert differences(self.drawn.expected, table) != []

    def test_inner_join_is_another_answer(self) -> None:
        inner = self.right.filter(pa.compute.is_valid(self.right["country"]))
        assert differences(self.drawn.expected, inner) != []
        assert differences(self.drawn.inner, inner) == []
        assert differences(self.drawn.inner, inner.slice(1)) != []
        assert differences(self.drawn.inner, self.right) != []

    def test_features_of_another_request(self) -> None:
        # Every column keeps its values; only the two sides are shifted.
        shifted = self.right
        order = np.roll(np.arange(self.right.num_rows), 100)
        for name in self.drawn.staging.column_names:
            if name != tables.KEY:
                index = shifted.column_names.index(name)
                shifted = shifted.set_column(index, name, shifted[name].take(order))
        found = differences(self.drawn.expected, shifted)
        assert len(found) == 1
        assert "pairs" in found[0]

    def test_column_absent_or_extra(self) -> None:
        assert differences(self.drawn.expected, self.right.drop_columns(["history"])) != []
        extra = self.right.append_column("x", self.right["u0"])
        assert differences(self.drawn.expected, extra) != []

    def test_one_value_altered(self) -> None:
        for name in self.right.column_names:
            values = self.right[name].to_pylist()
            row = next(index for index, value in enumerate(values) if value is not None)
            values[row] = altered(values[row])
            column = pa.array(values, self.right.schema.field(name).type)
            index = self.right.column_names.index(name)
            with self.subTest(column=name):
                table = self.right.set_column(index, name, column)
                assert differences(self.drawn.expected, table) != []


class Drawing(unittest.TestCase):
    """The same sizes give the same rows."""

    def test_deterministic(self) -> None:
        first, second = tables.draw(SIZES), tables.draw(SIZES)
        assert first.training.equals(second.training)
        assert first.staging.equals(second.staging)
        assert first.expected == second.expected

    def test_shape(self) -> None:
        drawn = tables.draw(SIZES)
        assert (drawn.training.num_rows, drawn.training.num_columns) == (3000, 18)
        assert (drawn.staging.num_rows, drawn.staging.num_columns) == (300, 12)
        assert len(set(drawn.staging[tables.KEY].to_pylist())) == 300


def altered(value: object) -> object:
    """Another value of the same type."""
    if isinstance(value, list):
        return [*value[:-1], value[-1] + 1]
    if isinstance(value, str):
        return "ZZ"
    assert isinstance(value, int | float)
    return value + 1
