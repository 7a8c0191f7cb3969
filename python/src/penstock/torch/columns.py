"""Plans the conversion of one column, and of its nulls."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pyarrow as pa
import torch

from penstock.torch.conversions import Conversion, FixedLists, Flat, Lists, Values
from penstock.torch.numbers import Column, Numbers
from penstock.torch.rules import NullRule, RuleSet

MASK = "_mask"


@dataclass(frozen=True)
class ColumnPlan:
    """The conversion of one column.

    Attributes:
        column: the resulting tensor.
        conversion: makes the tensor from an array.
        mask: the tensor that is True where there are values; None if there is none.
    """

    column: Column
    conversion: Conversion
    mask: Column | None

    @classmethod
    def of(cls, field: pa.Field, rule_set: RuleSet) -> ColumnPlan | None:
        """Plans by a column's type and rules; None if it was refused."""
        kind = field.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return cls._lists(field, rule_set)
        numbers = Numbers.of(field.name, kind, rule_set)
        if numbers is None:
            return None
        numbers = numbers.casted(field.name, rule_set)
        rule, blank = _null(field.name, field.nullable, numbers, rule_set)
        flat = Flat(field.name, numbers.numeric, rule, blank, numbers.cast)
        return cls._made(numbers.column, Values(flat), rule)

    @classmethod
    def _lists(cls, field: pa.Field, rule_set: RuleSet) -> ColumnPlan | None:
        name, element = field.name, field.type.value_field
        elements = f"{name}[]"
        numbers = Numbers.of(name, element.type, rule_set)
        if numbers is None:
            return None
        numbers = numbers.casted(name, rule_set)
        rule, blank = _null(elements, element.nullable, numbers, rule_set, NullRule("error"))
        if rule is not None and rule.word == "mask":
            rule_set.refuse(
                "nulls", elements, "list elements cannot have a mask", "use 'nan', a number or 'error'"
            )
        flat = Flat(elements, numbers.numeric, rule, blank, numbers.cast)
        if pa.types.is_fixed_size_list(field.type):
            width = field.type.list_size
            rule, blank = _null(name, field.nullable, numbers, rule_set)
            return cls._made(replace(numbers.column, width=width), FixedLists(flat, width, rule, blank), rule)
        rule = _null_lists(field, rule_set)
        return cls._made(replace(numbers.column, jagged=True), Lists(flat, rule), rule)

    @classmethod
    def _made(cls, column: Column, conversion: Conversion, rule: NullRule | None) -> ColumnPlan:
        masked = rule is not None and rule.word == "mask"
        return cls(column, conversion, Column(column.name + MASK, torch.bool) if masked else None)


def _null(
    name: str, nullable: bool, numbers: Numbers, rule_set: RuleSet, otherwise: NullRule | None = None
) -> tuple[NullRule | None, pa.Scalar]:
    """Returns the rule for nulls in a column, None if there are no nulls, and the number that replaces them.

    Without an explicit rule, it is `otherwise` or else that of "*". For floats it is "nan", unless "*" is a value.
    """
    rule = rule_set.null(name)
    floats = pa.types.is_floating(numbers.zero.type)
    if rule is None and nullable:
        rule = otherwise or rule_set.everywhere
        if floats and (rule is None or rule.word != "fill"):
            rule = NullRule("nan")
        if rule is None:
            _refuse_unstated(name, rule_set)
    if rule is None or rule.word in ("mask", "error"):
        return rule, numbers.zero
    if rule.word == "nan" and floats:
        return rule, pa.scalar(math.nan, numbers.zero.type)
    if rule.word == "fill":
        try:
            return rule, numbers.fill(rule.fill)
        except LookupError:
            remedy = (
                "add it: vocab={name: values}, or Vocabulary(values, unknown=code); or use 'mask' or 'error'"
            )
            rule_set.refuse(
                "nulls", name, f"{rule.fill!r}, which replaces nulls, is not in its vocabulary", remedy
            )
            return rule, numbers.zero
        except (ValueError, TypeError, pa.ArrowException):
            pass
    wish = repr(rule.fill) if rule.word == "fill" else repr(rule.word)
    remedy = "use a value that the column can hold, 'mask' or 'error'"
    rule_set.refuse("nulls", name, f"nulls of {numbers.kind} cannot become {wish}", remedy)
    return rule, numbers.zero


def _null_lists(field: pa.Field, rule_set: RuleSet) -> NullRule | None:
    """Returns the rule for null lists; None if there are none."""
    rule = rule_set.null(field.name)
    if rule is None and field.nullable:
        rule = rule_set.everywhere
        if rule is None:
            _refuse_unstated(field.name, rule_set)
    if rule is not None and rule.word not in ("empty", "mask", "error"):
        wish = repr(rule.fill) if rule.word == "fill" else repr(rule.word)
        remedy = "use 'empty', 'mask' or 'error'; for the elements of a list `tags`, name 'tags[]'"
        rule_set.refuse("nulls", field.name, f"null lists cannot become {wish}", remedy)
    return rule


def _refuse_unstated(name: str, rule_set: RuleSet) -> None:
    rule_set.refuse(
        "nulls",
        name,
        "may be null, and there is no rule for nulls",
        "add one, such as nulls={name: 0}, {name: 'mask'} or {name: 'error'}, or {name: 'empty'} for lists; or one for "
        "all columns, with exceptions: nulls={'*': 'error', name: 0}",
    )
