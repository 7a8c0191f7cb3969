"""Sums over a joined table that do not depend on the order of its rows.

A `Summary` holds, per column, the nulls and a sum: of the values for numbers,
of the elements for lists (and of the lengths), of CRC-32 for strings. `pairs`
is the sum of training item times staging user over matched rows: it changes
when a row is given the features of another request, which no sum over one
column would see. Integers are exact, modulo 2**64, in which Arrow adds; floats
are compared with a tolerance, because the order of additions differs.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# The two columns, one of each side, whose product is summed into `pairs`.
TRAINING_FACTOR = "item_id"
STAGING_FACTOR = "user_id"

_TOLERANCE = 1e-9


@dataclasses.dataclass
class Column:
    """The sums of one column. `lengths` is None for all but lists."""

    nulls: int = 0
    total: int | float = 0
    lengths: int | None = None


@dataclasses.dataclass
class Summary:
    """The sums of one table."""

    rows: int = 0
    pairs: int = 0
    columns: dict[str, Column] = dataclasses.field(default_factory=dict)

    @staticmethod
    def from_json(text: dict[str, Any]) -> Summary:
        """Read what `dataclasses.asdict` and JSON made of a summary."""
        columns = {name: Column(**column) for name, column in text["columns"].items()}
        return Summary(text["rows"], text["pairs"], columns)

    def restricted(self, names: Iterable[str]) -> Summary:
        """The same without the other columns; `pairs` only if both factors stay."""
        kept = set(names)
        both = {TRAINING_FACTOR, STAGING_FACTOR} <= kept
        columns = {name: column for name, column in self.columns.items() if name in kept}
        return Summary(self.rows, self.pairs if both else 0, columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch to the sums, without keeping it."""
        self.rows += batch.num_rows
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            _add_values(self.columns.setdefault(name, Column()), values)
        if {TRAINING_FACTOR, STAGING_FACTOR} <= set(batch.schema.names):
            product = pc.multiply(batch.column(TRAINING_FACTOR), batch.column(STAGING_FACTOR))
            self.pairs += pc.sum(product).as_py() or 0

    def differences(self, expected: Summary) -> list[str]:
        """One line per difference from the expected sums; empty if there is none."""
        found = []
        if self.rows != expected.rows:
            found.append(f"{self.rows} rows instead of {expected.rows}")
        if self.pairs != expected.pairs:
            found.append("rows joined to features of other requests (pairs differ)")
        strange = sorted(self.columns.keys() ^ expected.columns.keys())
        found += [f"column {name} is {'extra' if name in self.columns else 'absent'}" for name in strange]
        pairs = [
            (name, self.columns[name], expected.columns[name])
            for name in sorted(self.columns.keys() & expected.columns.keys())
        ]
        found += [
            f"column {name}: {got} instead of {want}" for name, got, want in pairs if not _same(got, want)
        ]
        return found


def crc(text: str) -> int:
    """The contribution of a string to its column's total."""
    return zlib.crc32(text.encode())


def _same(got: Column, want: Column) -> bool:
    if got.nulls != want.nulls or got.lengths != want.lengths:
        return False
    if isinstance(want.total, float):
        return math.isclose(got.total, want.total, rel_tol=_TOLERANCE)
    return isinstance(got.total, int) and (got.total - want.total) % (1 << 64) == 0


def _add_values(column: Column, values: pa.Array) -> None:
    column.nulls += values.null_count
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        column.lengths = (column.lengths or 0) + (pc.sum(pc.list_value_length(values)).as_py() or 0)
        column.total += pc.sum(pc.list_flatten(values)).as_py() or 0
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        column.total += pc.sum(values).as_py() or 0
    else:
        for entry in pc.value_counts(values.cast(pa.large_string())).to_pylist():
            if entry["values"] is not None:
                column.total += crc(entry["values"]) * entry["counts"]
