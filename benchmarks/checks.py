"""Sums over a joined table that do not depend on the order of its rows.

A `Summary` holds, per column, the nulls and a sum: of the values for numbers,
of the days or microseconds for dates and times, of the digits for decimals, of
the elements for lists (and of the lengths), of CRC-32 for strings. `pairs` is
the sum of a training column times a staging column over matched rows: it
changes when a row is given the features of another request, which no sum over
one column would see. Integers are exact, modulo 2**64; floats are compared with
a tolerance, because the order of additions differs.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# The two columns of T, one of each side, whose product is summed into `pairs`.
TRAINING_FACTOR = "item_id"
STAGING_FACTOR = "user_id"

_TOLERANCE = 1e-9

Numbers = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


@dataclasses.dataclass
class Column:
    """The sums of one column. `lengths` is None for all but lists."""

    nulls: int = 0
    total: int | float = 0
    lengths: int | None = None

    def plus(self, other: Column, times: int) -> Column:
        """The sums of this column and of another one that is read `times` times."""
        lengths = None if other.lengths is None else (self.lengths or 0) + other.lengths * times
        return Column(self.nulls + other.nulls * times, self.total + other.total * times, lengths)


@dataclasses.dataclass
class Summary:
    """The sums of one table. `factors` are the columns whose product is in `pairs`."""

    rows: int = 0
    pairs: int = 0
    columns: dict[str, Column] = dataclasses.field(default_factory=dict)
    factors: tuple[str, str] = (TRAINING_FACTOR, STAGING_FACTOR)

    @staticmethod
    def from_json(text: dict[str, Any]) -> Summary:
        """Read what `dataclasses.asdict` and JSON made of a summary."""
        columns = {name: Column(**column) for name, column in text["columns"].items()}
        first, second = text.get("factors", (TRAINING_FACTOR, STAGING_FACTOR))
        return Summary(text["rows"], text["pairs"], columns, (first, second))

    def restricted(self, names: Iterable[str]) -> Summary:
        """The same without the other columns; `pairs` only if both factors stay."""
        kept = set(names)
        both = set(self.factors) <= kept
        columns = {name: column for name, column in self.columns.items() if name in kept}
        return Summary(self.rows, self.pairs if both else 0, columns, self.factors)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch to the sums, without keeping it."""
        self.rows += batch.num_rows
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            self.columns[name] = self.columns.get(name, Column()).plus(sums(values), 1)
        if set(self.factors) <= set(batch.schema.names):
            first, second = (batch.column(name) for name in self.factors)
            self.pairs += int((terms(first) * terms(second)).sum())

    def add_summary(self, other: Summary, times: int) -> None:
        """Add the sums of rows that are read `times` times."""
        self.rows += other.rows * times
        self.pairs += other.pairs * times
        for name, column in other.columns.items():
            self.columns[name] = self.columns.get(name, Column()).plus(column, times)

    def differences(self, expected: Summary) -> list[str]:
        """One line per difference from the expected sums; empty if there is none."""
        found = []
        if self.rows != expected.rows:
            found.append(f"{self.rows} rows instead of {expected.rows}")
        if (self.pairs - expected.pairs) % (1 << 64) != 0:
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


def sums(values: pa.Array, repeats: Integers | None = None) -> Column:
    """The sums of an array, with value i counted `repeats[i]` times."""
    nulls = values.is_null().to_numpy(zero_copy_only=False).astype(np.int64) if values.null_count else None
    column = Column(0 if nulls is None else int((nulls if repeats is None else nulls * repeats).sum()))
    numbers = terms(values)
    total = numbers.sum() if repeats is None else (numbers * repeats).sum()
    column.total = float(total) if numbers.dtype.kind == "f" else int(total)
    if _is_list(values.type):
        lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        column.lengths = int((lengths if repeats is None else lengths * repeats).sum())
    return column


def terms(values: pa.Array) -> Numbers:
    """What each value adds to its column's total, in 64 bits; nulls add nothing."""
    kind = values.type
    if _is_list(kind):
        return _list_terms(values)
    if pa.types.is_floating(kind):
        return _plain(values, pa.float64())
    if pa.types.is_decimal(kind):
        return _decimal_terms(values)
    if pa.types.is_timestamp(kind):
        return _plain(values.cast(pa.timestamp("us")), pa.int64())
    if pa.types.is_date32(kind):
        return _plain(values.cast(pa.int32()), pa.int64())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _plain(values, pa.int64())
    return _text_terms(values.cast(pa.large_string()))


def crc(text: str) -> int:
    """The contribution of a string to its column's total."""
    return zlib.crc32(text.encode())


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _plain(values: pa.Array, kind: pa.DataType) -> Numbers:
    numbers = values.cast(kind)
    return (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)


def _list_terms(values: pa.Array) -> Numbers:
    # Flattened, lists that are null have no elements.
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    elements = terms(pc.list_flatten(values))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    running = np.concatenate([np.zeros(1, elements.dtype), np.cumsum(elements)])
    return running[ends[1:]] - running[ends[:-1]]


def _decimal_terms(values: pa.Array) -> Numbers:
    """The digits, without the point: the lower half of their 128 bits."""
    wide = values.cast(pa.decimal128(38, values.type.scale))
    halves = np.frombuffer(wide.buffers()[1], np.int64)[0::2]
    digits = halves[wide.offset : wide.offset + len(wide)]
    if not wide.null_count:
        return digits
    return np.where(wide.is_null().to_numpy(zero_copy_only=False), 0, digits)


def _table() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table


_CRC = _table()


def _text_terms(texts: pa.Array) -> Numbers:
    """CRC-32 of all strings at once: byte 0 of all, then byte 1, and so on."""
    if len(texts) == 0:
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = texts.buffers()[2]
    utf8 = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if texts.null_count:
        lengths = np.where(texts.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    # Longest first, so that the strings that still have a byte are a prefix.
    order = np.argsort(-lengths, kind="stable")
    starts, sorted_lengths = starts[order], lengths[order]
    states = np.full(len(order), 0xFFFFFFFF, np.uint32)
    counts = np.searchsorted(-sorted_lengths, -np.arange(1, sorted_lengths[0] + 1), side="right")
    for position, count in enumerate(counts.tolist()):
        state = states[:count]
        state[:] = _CRC[(state ^ utf8[starts[:count] + position]) & 0xFF] ^ (state >> np.uint32(8))
    found = np.empty(len(order), np.int64)
    found[order] = states ^ np.uint32(0xFFFFFFFF)  # of an empty text: 0
    return found


def _same(got: Column, want: Column) -> bool:
    if got.nulls != want.nulls or got.lengths != want.lengths:
        return False
    if isinstance(want.total, float):
        return math.isclose(got.total, want.total, rel_tol=_TOLERANCE)
    return isinstance(got.total, int) and (got.total - want.total) % (1 << 64) == 0
