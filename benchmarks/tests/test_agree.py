"""The comparison of rows, with answers of our own in the place of engines'."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from typing import Any

import agree
import polars as pl
import pyarrow as pa
from agreement import multiset, of_layouts, of_rules, of_t
from agreement.case import Case

CASE = Case("a case", {"dataset": "any"}, "FROM any", lambda frames: frames("any"))
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 2, None], pa.int64()),
        "share": pa.array([0.0, 0.5, 0.5, 0.1], pa.float32()),
        "names": pa.array([["a", "b"], [], None, ["ab"]]),
    }
)


def changed(column: str, row: int, value: Any) -> pa.Table:
    values = ROWS[column].to_pylist()
    values[row] = value
    index = ROWS.schema.get_field_index(column)
    return ROWS.set_column(index, column, pa.array(values, ROWS.schema.field(column).type))


def hashes(table: pa.Table) -> list[int]:
    found: list[int] = multiset.rows_of(ROWS.schema, table.to_batches()).tolist()
    return found


class Stub:
    """Stands for the server and for both peers."""

    def __init__(self, table: pa.Table, failure: str = "") -> None:
        self._table = table
        self._failure = failure

    def schema(self, _question: Any) -> pa.Schema:
        if self._failure:
            raise agree.FailedError(self._failure)
        return self._table.schema

    def _batches(self, *_question: Any) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches()

    read = duckdb = polars = _batches


def compared(penstock: Stub, peers: Stub) -> agree.Found:
    return agree.compare(CASE, penstock, peers)  # type: ignore[arg-type]


class Multiset(unittest.TestCase):
    """Equal rows in any order, and nothing else."""

    def test_order_and_batches_do_not_count(self) -> None:
        turned = pa.concat_tables([ROWS.slice(2), ROWS.slice(0, 2)])
        assert hashes(turned) == hashes(ROWS)

    def test_types_of_other_width_do_not_count(self) -> None:
        wide = ROWS.set_column(2, "names", ROWS["names"].cast(pa.large_list(pa.large_string())))
        assert hashes(wide) == hashes(ROWS)

    def test_every_change_counts(self) -> None:
        tables = [
            changed("id", 0, None),
            changed("id", 3, 0),
            changed("share", 0, -0.0),
            changed("share", 3, 0.10000001),
            changed("names", 0, ["ab"]),
            changed("names", 1, None),
            changed("names", 3, ["a", "b"]),
            ROWS.slice(1),
            pa.concat_tables([ROWS, ROWS.slice(1, 1)]),
        ]
        for table in tables:
            assert hashes(table) != hashes(ROWS), table.to_pylist()

    def test_values_of_other_rows(self) -> None:
        crossed = ROWS.set_column(1, "share", ROWS["share"].take(pa.array([1, 0, 2, 3])))
        assert hashes(crossed) != hashes(ROWS)

    def test_a_value_that_does_not_fit_is_refused(self) -> None:
        schema = pa.schema([("id", pa.int32())])
        batch = pa.record_batch({"id": pa.array([1 << 40])})
        refused = ""
        try:
            multiset.conform(schema, batch)
        except multiset.DifferentColumnsError as error:
            refused = str(error)
        assert "int64 instead of int32" in refused

    def test_surplus_counts_repeated_rows(self) -> None:
        twice = pa.concat_tables([ROWS, ROWS.slice(0, 1), ROWS.slice(0, 1)])
        more = multiset.rows_of(ROWS.schema, twice.to_batches())
        less = multiset.rows_of(ROWS.schema, ROWS.to_batches())
        assert list(multiset.only_in(more, less).values()) == [2]
        assert multiset.only_in(less, more) == {}


class Compare(unittest.TestCase):
    """What is said of answers that differ."""

    def test_equal_answers(self) -> None:
        assert compared(Stub(ROWS), Stub(ROWS)).lines == []

    def test_another_value(self) -> None:
        found = compared(Stub(changed("id", 0, 7)), Stub(ROWS))
        assert "Penstock gave 4 rows, DuckDB 4" in found.lines
        assert "1 rows only in Penstock" in found.lines
        assert "  {'id': 7, 'share': 0.0, 'names': ['a', 'b']}" in found.lines
        assert "DIFFERS: a case" in str(found)

    def test_other_columns(self) -> None:
        assert compared(Stub(ROWS.drop_columns(["id"])), Stub(ROWS)).lines

    def test_comparison_without_rows_proves_nothing(self) -> None:
        assert compared(Stub(ROWS.slice(4)), Stub(ROWS.slice(4))).lines

    def test_refused(self) -> None:
        assert compared(Stub(ROWS, failure="not served"), Stub(ROWS)).lines == ["Penstock: not served"]


class Control(unittest.TestCase):
    """An altered value is seen in every column."""

    def test_caught(self) -> None:
        found = agree.control_is_caught(CASE, Stub(ROWS), Stub(ROWS))  # type: ignore[arg-type]
        assert found.lines == []
        assert found.name == "5 alterations of 'a case'"

    def test_comparison_that_finds_nothing_is_reported(self) -> None:
        found = agree.control_is_caught(CASE, Stub(ROWS.slice(1)), Stub(ROWS))  # type: ignore[arg-type]
        assert "the control's own rows differ" in found.lines
        assert "not seen: a lost row" in found.lines


class Cases(unittest.TestCase):
    """The cases themselves."""

    def test_names_are_unique(self) -> None:
        names = [case.name for case in of_rules.cases() + of_layouts.cases() + of_t.cases()]
        assert len(set(names)) == len(names)

    def test_polars_is_given_lazy_frames(self) -> None:
        assert isinstance(CASE.frame(lambda _name: pl.LazyFrame()), pl.LazyFrame)
