"""Conversions of Arrow values to numbers of a tensor's type."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import torch

from penstock.torch import arrays, casts, conversions, decimals
from penstock.torch.codes import Buckets, Lookup
from penstock.torch.conversions import Numeric
from penstock.torch.rules import RuleSet

_ADD_CODES = (
    "add vocab={name: values} or hash={name: buckets}, or hash={'*': buckets} for all of them, or leave it "
    "out of `columns`"
)
_LEAVE_OUT = "leave it out of `columns`, or read it from the Arrow batch"
_DIGITS_OF_INT64 = 18


@dataclass(frozen=True)
class Column:
    """The tensor of a column; the same in every batch.

    Attributes:
        name: the name of the column, and of the batch's entry.
        dtype: the type of the tensor, or of the values of a `Jagged`.
        width: the length of the second dimension, for fixed-size lists; None for others.
        jagged: whether it is a `Jagged`.
        unit: the unit of a time, date or duration: "s", "ms", "us", "ns", or "D" for days;
            "" for other columns. Dates and timestamps count from 1970, in UTC if there is a time zone.
        codes: the number of codes, for the size of an embedding table; None if values are not encoded.
        scale: for an unscaled decimal: the number of digits after the decimal point; 0 for other columns.
        indexed: the entry of an indexed batch that contains the column; "" for other columns.
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
    """Converts values of a type to numbers.

    Attributes:
        column: the tensor of a column with one such value per row.
        kind: the type of the values; for a dictionary, the type of its values.
        numeric: converts an array of the type to numbers or booleans; nulls stay null.
        zero: 0 or False, in the resulting type.
        cast: the type to which the numbers are cast; None if they are not.
    """

    column: Column
    kind: pa.DataType
    numeric: Numeric
    zero: pa.Scalar
    cast: torch.dtype | None = None

    @classmethod
    def of(cls, name: str, kind: pa.DataType, rule_set: RuleSet) -> Numbers | None:
        """Plans for a column of a type, or of lists of it; None if it was refused."""
        if pa.types.is_dictionary(kind):
            if _is_text(kind.value_type) and not rule_set.is_coded(name, text=True):
                message = "its dictionary has other codes in each batch, which cannot be a tensor"
                rule_set.refuse("vocab", name, message, _ADD_CODES)
                return None
            inner = cls.of(name, kind.value_type, rule_set)
            return inner and replace(inner, numeric=partial(conversions.decoded, inner.numeric))
        if isinstance(kind, pa.BaseExtensionType):  # such as UUIDs, which are coded by their bytes
            inner = cls.of(name, kind.storage_type, rule_set)
            return inner and replace(inner, numeric=partial(conversions.stored, inner.numeric))
        if rule_set.is_coded(name, text=_is_text(kind)):
            return cls._coded(name, kind, rule_set)
        if pa.types.is_decimal(kind):
            return cls._decimal(name, kind, rule_set)
        unit = _unit(kind)
        if unit:
            return cls._made(Column(name, torch.int64, unit=unit), kind, conversions.ticks, pa.int64())
        if kind in arrays.DTYPES:
            return cls._made(Column(name, arrays.DTYPES[kind]), kind, conversions.same, kind)
        if _is_text(kind):
            rule_set.refuse("vocab", name, f"{kind} cannot be a tensor without codes", _ADD_CODES)
        else:
            rule_set.refuse("columns", name, f"{kind} cannot be a tensor", _LEAVE_OUT)
        return None

    def casted(self, name: str, rule_set: RuleSet) -> Numbers:
        """The same numbers, cast if a rule says so."""
        word = rule_set.cast(name)
        to = None if word is None else getattr(torch, word)
        if to is None or to == self.column.dtype:
            return self
        if to == torch.int32 and self.column.dtype.is_floating_point:
            rule_set.refuse(
                "cast", name, f"{self.kind} cannot be cast to 'int32'", "only integers and booleans can"
            )
            return self
        return replace(self, column=replace(self.column, dtype=to), cast=to)

    @classmethod
    def _coded(cls, name: str, kind: pa.DataType, rule_set: RuleSet) -> Numbers | None:
        vocabulary, buckets = rule_set.vocabulary(name), rule_set.buckets(name)
        rule = "hash" if vocabulary is None else "vocab"
        if vocabulary is not None and buckets is not None:
            rule_set.refuse("hash", name, "it also has a vocabulary", "use one of the two")
        if not (_is_text(kind) or (pa.types.is_integer(kind) and kind != pa.uint64())):
            rule_set.refuse(rule, name, f"{kind} cannot be encoded", "only strings, bytes and integers can")
            return None
        if vocabulary is None:
            codes = buckets or 1
            return cls._made(Column(name, torch.int64, codes=codes), kind, Buckets(codes), pa.int64())
        try:
            lookup = Lookup(vocabulary, kind)
        except (pa.ArrowException, TypeError, OverflowError):
            rule_set.refuse(rule, name, f"its vocabulary contains a value that is not {kind}", "")
            return None
        return cls._made(Column(name, torch.int64, codes=vocabulary.size), kind, lookup, pa.int64())

    @classmethod
    def _decimal(cls, name: str, kind: pa.DataType, rule_set: RuleSet) -> Numbers | None:
        form = rule_set.decimal(name)
        if form is None:
            remedy = (
                "add decimals={name: 'float64'}, 'float32' or 'unscaled', or one of them for all decimals: "
                "decimals={'*': 'float64'}; or leave it out of `columns`"
            )
            rule_set.refuse("decimals", name, "decimal needs a rule to become a tensor", remedy)
            return None
        if form != "unscaled":
            to = pa.float64() if form == "float64" else pa.float32()
            return cls._made(Column(name, arrays.DTYPES[to]), kind, partial(decimals.nearest, to), to)
        if kind.precision > _DIGITS_OF_INT64:
            rule_set.refuse("decimals", name, f"{kind} may not fit into an int64", "use 'float64'")
            return None
        column = Column(name, torch.int64, scale=kind.scale)
        return cls._made(column, kind, conversions.unscaled, pa.int64())

    @classmethod
    def _made(cls, column: Column, kind: pa.DataType, numeric: Numeric, to: pa.DataType) -> Numbers:
        return cls(column, kind, numeric, pa.scalar(False if pa.types.is_boolean(to) else 0, to))

    def fill(self, value: Any) -> pa.Scalar:
        """Converts a fill value for nulls. Times and dates are given as numbers in their unit.

        Raises:
            ValueError, TypeError, LookupError, pa.ArrowException: the column cannot hold it.
        """
        found = self._fill(value)
        if self.cast is not None:
            casts.cast(arrays.view(pa.array([found.as_py()], found.type)), self.cast)
        return found

    def _fill(self, value: Any) -> pa.Scalar:
        if self.column.codes is not None:
            return self.numeric(pa.array([value], self.kind))[0]
        if isinstance(value, bool) != pa.types.is_boolean(self.kind):
            raise TypeError(f"{value!r} is not {self.kind}")
        if pa.types.is_decimal(self.kind):
            return self.numeric(pa.array([decimal.Decimal(str(value))], self.kind))[0]
        found = pa.scalar(value, self.zero.type)
        if not pa.types.is_floating(self.zero.type):
            changed = found.as_py() != value
        else:
            changed = math.isinf(found.as_py()) and not math.isinf(value)
        if changed:
            raise ValueError(f"{value!r} is not {self.zero.type}")
        return found


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are strings or bytes."""
    of = pa.types
    text = of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind)
    return text or of.is_binary(kind) or of.is_large_binary(kind) or of.is_fixed_size_binary(kind)


def _unit(kind: pa.DataType) -> str:
    """The unit of a time type; "" for other types."""
    if pa.types.is_date32(kind):
        return "D"
    if pa.types.is_date64(kind):
        return "ms"
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return str(kind.unit)
    return ""
