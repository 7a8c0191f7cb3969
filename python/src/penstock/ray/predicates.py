"""Writes conditions of Ray as filters of a query, where both mean the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from ray.data.expressions import BinaryExpr, ColumnExpr, Expr, LiteralExpr, Operation, UnaryExpr

from penstock.predicates import COMPARISONS, quoted

_COMPARISONS = {
    Operation.EQ: "=",
    Operation.NE: "<>",
    Operation.LT: "<",
    Operation.LE: "<=",
    Operation.GT: ">",
    Operation.GE: ">=",
}
_JUNCTIONS = {Operation.AND: "AND", Operation.OR: "OR"}
_NULLS = {Operation.IS_NULL: "IS NULL", Operation.IS_NOT_NULL: "IS NOT NULL"}


def filter_of(condition: Expr, schema: pa.Schema) -> str | None:
    """Returns the filter with exactly the meaning of a condition; None if there may be none.

    Comparisons of whole numbers, texts and booleans with literals of the same type, checks for null, AND and OR have the
    same meaning: a row whose condition is null does not pass. All others are left to Ray. Floats, for example, compare
    NaN differently.

    Args:
        condition: the condition.
        schema: the columns that the filter can name, under the names that the condition uses.
    """
    if isinstance(condition, BinaryExpr) and condition.op in _JUNCTIONS:
        left, right = filter_of(condition.left, schema), filter_of(condition.right, schema)
        return None if left is None or right is None else f"({left} {_JUNCTIONS[condition.op]} {right})"
    if isinstance(condition, UnaryExpr) and condition.op in _NULLS:
        column = _column(condition.operand, schema)
        return None if column is None else f"{quoted(column.name)} {_NULLS[condition.op]}"
    if isinstance(condition, BinaryExpr) and condition.op in _COMPARISONS:
        comparison = _COMPARISONS[condition.op]
        if isinstance(condition.left, ColumnExpr):
            return _compared(condition.left, comparison, condition.right, schema)
        return _compared(condition.right, COMPARISONS[comparison], condition.left, schema)
    return None


def _compared(side: Expr, comparison: str, other: Expr, schema: pa.Schema) -> str | None:
    column = _column(side, schema)
    if column is None or not isinstance(other, LiteralExpr):
        return None
    literal = _literal(other.value, column.type)
    return None if literal is None else f"{quoted(column.name)} {comparison} {literal}"


def _column(side: Expr, schema: pa.Schema) -> pa.Field | None:
    if not isinstance(side, ColumnExpr) or side.name not in schema.names:
        return None
    return schema.field(side.name)


def _literal(value: Any, of: pa.DataType) -> str | None:
    if type(value) is bool:
        return str(value).upper() if pa.types.is_boolean(of) else None
    if type(value) is int:
        return str(value) if pa.types.is_integer(of) and -(1 << 63) <= value < 1 << 63 else None
    if type(value) is str:
        text = pa.types.is_string(of) or pa.types.is_large_string(of)
        return "'" + value.replace("'", "''") + "'" if text and value.isprintable() else None
    return None
