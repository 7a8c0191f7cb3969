"""Compares the rows of two tables, and describes the differences.

Key columns identify rows. Only the order of rows may differ: column names and their order, types,
nulls, list elements and every bit of a number must agree.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_SHOWN = 5
_WIDEST = 24


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a comparison. Without differences, the tables are identical."""

    rows: int
    columns: int
    differences: list[str]  # the first few, as text
    differing_rows: int  # among rows whose key is in both tables
    keys: list[tuple[Any, ...]]  # of all differing rows

    @property
    def identical(self) -> bool:
        """Whether all rows are equal in all columns."""
        return not self.differences


def tables(left: pa.Table, right: pa.Table, key: list[str]) -> Verdict:
    """Compare two tables row for row and column for column."""
    faults = _schemas(left.schema, right.schema)
    if faults:
        return _verdict(left, faults)
    left, right = _sorted(left, key), _sorted(right, key)
    faults = [*_repeats(left, key, "the first"), *_repeats(right, key, "the second")]
    faults += _rows(left, right, key)
    if faults:
        return _verdict(left, faults)
    return _values(left, right, key)


def _verdict(left: pa.Table, faults: list[str]) -> Verdict:
    return Verdict(left.num_rows, left.num_columns, faults, 0, [])


def _schemas(left: pa.Schema, right: pa.Schema) -> list[str]:
    if left.names != right.names:
        return [f"columns: {', '.join(left.names)} against {', '.join(right.names)}"]
    return [
        f"column {name}: type {left.field(name).type} against {right.field(name).type}"
        for name in left.names
        if not _same_type(left.field(name).type, right.field(name).type)
    ]


def _same_type(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether types are equal, ignoring the names of list elements."""
    if pa.types.is_list(left) and pa.types.is_list(right):
        return _same_type(left.value_type, right.value_type)
    return bool(left == right)


def _sorted(table: pa.Table, key: list[str]) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in key]).combine_chunks()


def _repeats(table: pa.Table, key: list[str], which: str) -> list[str]:
    again = table.group_by(key).aggregate([([], "count_all")])
    again = again.filter(pc.greater(again["count_all"], 1))
    return [
        f"{which} table has {row.pop('count_all')} rows of {_named(row)}"
        for row in again.slice(0, _SHOWN).to_pylist()
    ]


def _rows(left: pa.Table, right: pa.Table, key: list[str]) -> list[str]:
    """Rows that only one of two sorted tables has."""
    if all(left[name].equals(right[name]) for name in key):
        return []
    faults = []
    for here, there, which in ((left, right, "second"), (right, left, "first")):
        lacking = here.select(key).join(there.select(key), key, join_type="left anti")
        faults += [
            f"the {which} table has no row {_named(row)}" for row in lacking.slice(0, _SHOWN).to_pylist()
        ]
    return faults or [f"{left.num_rows} rows against {right.num_rows}"]


def _values(left: pa.Table, right: pa.Table, key: list[str]) -> Verdict:
    """Compare sorted tables of the same keys."""
    differences: list[str] = []
    differing: dict[int, None] = {}
    for name in left.column_names:
        ours, theirs = _column(left, name), _column(right, name)
        if ours.equals(theirs):
            continue
        # Slow, so only for a column that is known to differ.
        for row in range(left.num_rows):
            if not ours.slice(row, 1).equals(theirs.slice(row, 1)):
                differing[row] = None
                if len(differences) < _SHOWN:
                    where = _named(left.slice(row, 1).select(key).to_pylist()[0])
                    differences.append(
                        f"{where}, column {name}: {_short(ours[row])} against {_short(theirs[row])}"
                    )
    keys = [tuple(left[name][row].as_py() for name in key) for row in sorted(differing)]
    return Verdict(left.num_rows, left.num_columns, differences, len(differing), keys)


def _column(table: pa.Table, name: str) -> pa.Array:
    """A column as one array, with uniform names for list elements."""
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_list(column.type):
        return column.cast(pa.list_(column.type.value_type))
    return column


def _named(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items())


def _short(value: pa.Scalar) -> str:
    text = str(value.as_py())
    return text if len(text) <= _WIDEST else text[:_WIDEST] + "…"
