"""Which numbers the values of an Arrow type become: those of a tensor's type."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import torch

from penstock.torch import arrays, conversions, decimals
from penstock.torch.codes import Buckets, Lookup
from penstock.torch.conversions import Numeric
from penstock.torch.rules import Stated

_LEAVE_OUT = "leave it out of `columns`, or take it from the Arrow batch yourself"
_DIGITS_OF_INT64 = 18


@dataclass(frozen=True)
class Column:
    """What a column is as a tensor; the same in every batch.

    Attributes:
        name: of the column, and of the batch's entry.
        dtype: of the tensor, or of the values of a `Jagged`.
        width: the length of the second dimension, of a fixed-size list; None if there is none.
        jagged: whether it is a `Jagged`.
        unit: what a time, date or duration counts: "s", "ms", "us", "ns", or "D" for days;
            "" of other columns. Dates and timestamps count from 1970, in UTC where there is a time zone.
        codes: how many codes there are, the rows of an embedding table; None where values are not coded.
        scale: of an unscaled decimal: how many of its digits stand behind the point; 0 of other columns.
        indexed: the name of the entry of an indexed batch that the column is in; "" of other columns.
    """

    name: str
    dtype: torch.dtype
    width: int | None = None
    jagged: bool = False
    unit: str = ""
    codes: int | None = None
    scale: int = 0
    indexed: str = ""


@dataclass(frozen=True)
class Numbers:
    """How values of a type become numbers.

    Attributes:
        column: what a column of one such value in each row becomes.
        kind: the type of the values; of a dictionary, the type of what it holds.
        numeric: makes an array of numbers or booleans of an array of the type, nulls staying null.
        zero: 0 or False, in the type of these.
    """

    column: Column
    kind: pa.DataType
    numeric: Numeric
    zero: pa.Scalar

    @classmethod
    def of(cls, name: str, kind: pa.DataType, stated: Stated) -> Numbers | None:
        """Decides for a column of a type, or of lists of it; None if it was refused."""
        if pa.types.is_dictionary(kind):
            inner = cls.of(name, kind.value_type, stated)
            return inner and replace(inner, numeric=partial(conversions.decoded, inner.numeric))
        if stated.is_coded(name):
            return cls._coded(name, kind, stated)
        if pa.types.is_decimal(kind):
            return cls._decimal(name, kind, stated)
        unit = _unit(kind)
        if unit:
            return cls._made(Column(name, torch.int64, unit=unit), kind, conversions.ticks, pa.int64())
        if kind in arrays.DTYPES:
            return cls._made(Column(name, arrays.DTYPES[kind]), kind, conversions.same, kind)
        if _is_text(kind):
            remedy = "say vocab={name: values} or hash={name: buckets}, or leave it out of `columns`"
            stated.refuse("vocab", name, f"{kind} has no tensor without codes", remedy)
        else:
            stated.refuse("columns", name, f"{kind} has no tensor", _LEAVE_OUT)
        return None

    @classmethod
    def _coded(cls, name: str, kind: pa.DataType, stated: Stated) -> Numbers | None:
        vocabulary, buckets = stated.vocabulary(name), stated.buckets(name)
        rule = "hash" if vocabulary is None else "vocab"
        if vocabulary is not None and buckets is not None:
            stated.refuse("hash", name, "it has a vocabulary too", "give one of the two")
        if not (_is_text(kind) or (pa.types.is_integer(kind) and kind != pa.uint64())):
            stated.refuse(rule, name, f"{kind} has no codes", "code strings, bytes and integers")
            return None
        if vocabulary is None:
            codes = buckets or 1
            return cls._made(Column(name, torch.int64, codes=codes), kind, Buckets(codes), pa.int64())
        try:
            lookup = Lookup(vocabulary, kind)
        except (pa.ArrowException, TypeError, OverflowError):
            stated.refuse(rule, name, f"its vocabulary holds what is no {kind}", "")
            return None
        return cls._made(Column(name, torch.int64, codes=vocabulary.size), kind, lookup, pa.int64())

    @classmethod
    def _decimal(cls, name: str, kind: pa.DataType, stated: Stated) -> Numbers | None:
        form = stated.decimal(name)
        if form is None:
            remedy = "say decimals={name: 'float64'}, 'float32' or 'unscaled', or leave it out of `columns`"
            stated.refuse("decimals", name, "decimal has no tensor without a rule", remedy)
            return None
        if form != "unscaled":
            to = pa.float64() if form == "float64" else pa.float32()
            return cls._made(Column(name, arrays.DTYPES[to]), kind, partial(decimals.nearest, to), to)
        if kind.precision > _DIGITS_OF_INT64:
            stated.refuse("decimals", name, f"{kind} may not fit into an int64", "say 'float64'")
            return None
        column = Column(name, torch.int64, scale=kind.scale)
        return cls._made(column, kind, conversions.unscaled, pa.int64())

    @classmethod
    def _made(cls, column: Column, kind: pa.DataType, numeric: Numeric, to: pa.DataType) -> Numbers:
        return cls(column, kind, numeric, pa.scalar(False if pa.types.is_boolean(to) else 0, to))

    def fill(self, value: Any) -> pa.Scalar:
        """The number of a value that stands for nulls. Times and dates are given as what they count.

        Raises:
            ValueError, TypeError, LookupError, pa.ArrowException: the column cannot hold it.
        """
        if self.column.codes is not None:
            return self.numeric(pa.array([value], self.kind))[0]
        if isinstance(value, bool) != pa.types.is_boolean(self.kind):
            raise TypeError(f"{value!r} is no {self.kind}")
        if pa.types.is_decimal(self.kind):
            return self.numeric(pa.array([decimal.Decimal(str(value))], self.kind))[0]
        found = pa.scalar(value, self.zero.type)
        if not self.column.dtype.is_floating_point:
            changed = found.as_py() != value
        else:
            changed = math.isinf(found.as_py()) and not math.isinf(value)
        if changed:
            raise ValueError(f"{value!r} is no {self.zero.type}")
        return found


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are strings or bytes."""
    of = pa.types
    text = of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind)
    return text or of.is_binary(kind) or of.is_large_binary(kind) or of.is_fixed_size_binary(kind)


def _unit(kind: pa.DataType) -> str:
    """What values of a type of time count; "" of other types."""
    if pa.types.is_date32(kind):
        return "D"
    if pa.types.is_date64(kind):
        return "ms"
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return str(kind.unit)
    return ""
