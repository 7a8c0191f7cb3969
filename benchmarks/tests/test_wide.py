"""The sums of `wide` are those of its join, for all types; and other tables are made again."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import expected
import pyarrow as pa
import pyarrow.compute as pc
import tables
import wide
from checks import STAGING_FACTOR, TRAINING_FACTOR, Summary

SIZES = wide.Sizes(rows=600, requests=100, training=40, staging=30, buckets=2)


def joined(training: pa.Table, staging: pa.Table) -> pa.Table:
    """The left join, row by row through a dictionary."""
    known = {key: row for row, key in enumerate(staging[tables.KEY].to_pylist())}
    rows = pa.array([known.get(key) for key in training[tables.KEY].to_pylist()], pa.int64())
    for name in staging.column_names:
        if name != tables.KEY:
            training = training.append_column(name, staging[name].combine_chunks().take(rows))
    return training


class Wide(unittest.TestCase):
    def setUp(self) -> None:
        self.training, self.staging = wide.draw(SIZES)
        self.right = joined(self.training, self.staging)
        factors = (TRAINING_FACTOR, STAGING_FACTOR)
        self.expected = expected.of_tables(self.training, self.staging, (tables.KEY, tables.KEY), factors)

    def differences(self, table: pa.Table, of: Summary | None = None) -> list[str]:
        summary = Summary()
        for batch in table.combine_chunks().to_batches(max_chunksize=100):
            summary.add(batch)
        return summary.differences(of or self.expected)

    def test_right_answer(self) -> None:
        assert self.differences(self.right) == []

    def test_right_answer_of_an_inner_join(self) -> None:
        factors = (TRAINING_FACTOR, STAGING_FACTOR)
        keys = (tables.KEY, tables.KEY)
        inner = expected.of_tables(self.training, self.staging, keys, factors, "inner")
        matched = self.right.filter(pc.is_in(self.right[tables.KEY], self.staging[tables.KEY]))
        assert 0 < matched.num_rows < self.right.num_rows
        assert self.differences(matched, inner) == []
        assert self.differences(self.right, inner) != []

    def test_every_column_counts(self) -> None:
        for name in self.right.column_names:
            index = self.right.column_names.index(name)
            # A row gets the value of another one, or none.
            valid = pc.indices_nonzero(self.right[name].is_valid())
            order = list(range(self.right.num_rows))
            order[valid[0].as_py()] = next(
                row
                for row in valid.to_pylist()
                if self.right[name][row] != self.right[name][valid[0].as_py()]
            )
            for rows in (order, [None if row == valid[0].as_py() else row for row in range(len(order))]):
                values = self.right[name].combine_chunks().take(pa.array(rows, pa.int64()))
                with self.subTest(column=name):
                    assert self.differences(self.right.set_column(index, name, values)) != []

    def test_all_types(self) -> None:
        kinds = {str(field.type) for field in (*self.training.schema, *self.staging.schema)}
        assert len(kinds) == 10, kinds

    def test_made_again_if_it_is_another(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "wide"
            wide.ensure(folder, SIZES)
            first = json.loads(tables.inputs_path(folder, wide.DATASET).read_text())
            wide.ensure(folder, SIZES)
            assert first == json.loads(tables.inputs_path(folder, wide.DATASET).read_text())
            link = Path(place) / "link"
            link.symlink_to(folder)
            wide.ensure(link, SIZES)
            assert first == json.loads(tables.inputs_path(folder, wide.DATASET).read_text())
            wide.ensure(folder, wide.Sizes(rows=500, requests=100, training=40, staging=30, buckets=2))
            second = json.loads(tables.inputs_path(folder, wide.DATASET).read_text())
            assert second["expected"]["rows"] == 500
            wide.ensure(folder.rename(Path(place) / "moved"), SIZES)
