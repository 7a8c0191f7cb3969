"""What becomes of one column of a schema, and of its nulls."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pyarrow as pa
import torch

from penstock.torch.conversions import Conversion, FixedLists, Flat, Lists, Values
from penstock.torch.numbers import Column, Numbers
from penstock.torch.rules import NullRule, Stated

MASK = "_mask"


@dataclass(frozen=True)
class Planned:
    """What a column becomes, and how.

    Attributes:
        column: the tensor.
        conversion: makes it of an array.
        mask: the tensor that says where there are values; None if there is none.
    """

    column: Column
    conversion: Conversion
    mask: Column | None

    @classmethod
    def of(cls, field: pa.Field, stated: Stated) -> Planned | None:
        """Decides by a column's type and rules; None if it was refused."""
        kind = field.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return cls._lists(field, stated)
        numbers = Numbers.of(field.name, kind, stated)
        if numbers is None:
            return None
        rule, blank = _null(field.name, field.nullable, numbers, stated)
        flat = Flat(field.name, numbers.numeric, rule, blank)
        return cls._made(numbers.column, Values(flat), rule)

    @classmethod
    def _lists(cls, field: pa.Field, stated: Stated) -> Planned | None:
        name, element = field.name, field.type.value_field
        elements = f"{name}[]"
        numbers = Numbers.of(name, element.type, stated)
        if numbers is None:
            return None
        rule, blank = _null(elements, element.nullable, numbers, stated, NullRule("error"))
        if rule is not None and rule.word == "mask":
            stated.refuse(
                "nulls", elements, "elements of lists have no mask", "say 'nan', a number or 'error'"
            )
        flat = Flat(elements, numbers.numeric, rule, blank)
        if pa.types.is_fixed_size_list(field.type):
            width = field.type.list_size
            rule, blank = _null(name, field.nullable, numbers, stated)
            return cls._made(replace(numbers.column, width=width), FixedLists(flat, width, rule, blank), rule)
        rule = _null_lists(field, stated)
        return cls._made(replace(numbers.column, jagged=True), Lists(flat, rule), rule)

    @classmethod
    def _made(cls, column: Column, conversion: Conversion, rule: NullRule | None) -> Planned:
        masked = rule is not None and rule.word == "mask"
        return cls(column, conversion, Column(column.name + MASK, torch.bool) if masked else None)


def _null(
    name: str, nullable: bool, numbers: Numbers, stated: Stated, otherwise: NullRule | None = None
) -> tuple[NullRule | None, pa.Scalar]:
    """The rule of nulls among values, None if there are none, and the number in their place.

    A rule that was not stated is "nan" of floats, and `otherwise` of others, None if they need one.
    """
    rule = stated.null(name)
    floats = numbers.column.dtype.is_floating_point
    if rule is None and nullable:
        rule = NullRule("nan") if floats else (otherwise or stated.everywhere)
        if rule is None:
            _refuse_unstated(name, stated)
    if rule is None or rule.word in ("mask", "error"):
        return rule, numbers.zero
    if rule.word == "nan" and floats:
        return rule, pa.scalar(math.nan, numbers.zero.type)
    if rule.word == "fill":
        try:
            return rule, numbers.fill(rule.fill)
        except LookupError:
            remedy = (
                "add it: vocab={name: values}, or Vocabulary(values, unknown=code); or say 'mask' or 'error'"
            )
            stated.refuse(
                "nulls", name, f"{rule.fill!r}, which nulls become, is not in its vocabulary", remedy
            )
            return rule, numbers.zero
        except (ValueError, TypeError, pa.ArrowException):
            pass
    wish = repr(rule.fill) if rule.word == "fill" else repr(rule.word)
    remedy = "say a value that the column can hold, 'mask' or 'error'"
    stated.refuse("nulls", name, f"nulls of {numbers.kind} cannot become {wish}", remedy)
    return rule, numbers.zero


def _null_lists(field: pa.Field, stated: Stated) -> NullRule | None:
    """The rule of lists that are null; None if there are none."""
    rule = stated.null(field.name)
    if rule is None and field.nullable:
        rule = stated.everywhere
        if rule is None:
            _refuse_unstated(field.name, stated)
    if rule is not None and rule.word not in ("empty", "mask", "error"):
        wish = repr(rule.fill) if rule.word == "fill" else repr(rule.word)
        remedy = "say 'empty', 'mask' or 'error'; for the elements of a list `tags`, name 'tags[]'"
        stated.refuse("nulls", field.name, f"lists that are null cannot become {wish}", remedy)
    return rule


def _refuse_unstated(name: str, stated: Stated) -> None:
    stated.refuse(
        "nulls",
        name,
        "may be null, and no rule says what a null becomes",
        "say so, as nulls={name: 0}, {name: 'mask'} or {name: 'error'}, of lists also {name: 'empty'}; or of all "
        "columns at once: nulls='mask' or nulls='error'",
    )
