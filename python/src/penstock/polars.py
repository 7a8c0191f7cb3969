"""Datasets as lazy frames of Polars.

    rows = penstock.polars.scan(client, "homefeed")
    rows.filter(pl.col("label") == 1).group_by("country").len().collect(engine="streaming")

Only the columns that a query needs are read, and conditions that mean the same to the server are sent with the query.
"""

from __future__ import annotations

import datetime
import decimal
import json
import struct
from collections.abc import Iterator
from typing import Any, Unpack

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from penstock import manifests, query
from penstock.client import Client
from penstock.fields import RunQuery
from penstock.indexed import plain_schema
from penstock.predicates import COMPARISONS, Pushdown
from penstock.query import Dataset

_OPERATORS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MAX_DEPTH = 50
_EPOCH = datetime.datetime(1970, 1, 1)


def scan(client: Client, dataset: Dataset, **fields: Unpack[RunQuery]) -> pl.LazyFrame:
    """Returns the rows of a query as a lazy frame.

    The query is planned now, and all collections of the frame read the snapshots of this plan. Rows are read batch by
    batch while a query is collected. If the stream breaks, `collect` raises an exception.

    Args:
        client: a client, which must stay open while the frame is in use.
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        fields: the query's other fields, as in `penstock.Client.read`.

    Raises:
        Invalid: a field needs batches in another form than plain columns.
    """
    if fields.get("wire") not in (None, "plain", "auto"):
        raise query.invalid("wire", "must be plain or auto, because Polars reads plain columns")
    plan = client.plan(dataset, **fields)
    pinned = fields.copy()
    pinned["snapshots"] = plan.pin
    schema = plain_schema(plan.schema)
    filters = not manifests.is_distinct(lambda: client.manifest(dataset, **pinned))
    pushdown = Pushdown(pinned, schema, filters=filters)

    def read(
        names: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        needed, conditions = names, []
        if predicate is not None:
            # Polars counts the rows that the predicate is evaluated on, so with a number of rows no other ones may be left out.
            conditions = conditions_of(pushdown, predicate) if rows is None else []
            needed = None if names is None else [*names, *predicate.meta.root_names()]
        if needed is not None and not needed:
            needed = schema.names[:1]
        with client.read(dataset, **pushdown.query(needed, conditions)) as stream:
            for batch in stream:
                frame = pl.DataFrame(batch)
                if rows is not None:
                    frame = frame.head(rows)
                    rows -= frame.height
                if predicate is not None:
                    frame = frame.filter(predicate)
                yield frame if names is None else _selected(frame, names)
                if rows == 0:
                    return

    return register_io_source(read, schema=pl.DataFrame(schema.empty_table()).schema)


def _selected(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Returns columns of a frame. A query that needs only the number of rows names none: `select` would lose it."""
    return frame.select(names) if names else frame.drop(frame.columns)


def conditions_of(pushdown: Pushdown, predicate: pl.Expr) -> list[str]:
    """Returns filters that keep all rows for which a predicate is true.

    Polars has converted literals to the types of columns, or has cast columns, when it passes a predicate to a source.
    The form of expressions as JSON is no promise of Polars: a form that this function does not know gives no filter.
    """
    try:
        expression = json.loads(predicate.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return []
    found = [_condition(pushdown, term, 0) for term in _terms(expression, "And")]
    return [one for one in found if one is not None]


def _terms(expression: Any, operator: str) -> list[Any]:
    """Returns the operands of a chain of AND or OR."""
    left: list[Any] = [expression]
    found = []
    while left:
        one = left.pop()
        match one:
            case {"BinaryExpr": {"left": first, "op": op, "right": second}} if op == operator:
                left += [second, first]
            case _:
                found.append(one)
    return found


def _condition(pushdown: Pushdown, expression: Any, depth: int) -> str | None:
    if depth > _MAX_DEPTH:
        return None
    match expression:
        case {"Column": str(column)}:
            return pushdown.compare(column, "=", True)
        case {"BinaryExpr": {"op": "And" | "Or" as op}}:
            found = [_condition(pushdown, term, depth + 1) for term in _terms(expression, op)]
            known = [f"({one})" for one in found if one is not None]
            return f" {op.upper()} ".join(known) if len(known) == len(found) else None
        case {"BinaryExpr": {"left": {"Column": str(column)}, "op": op, "right": value}} if op in _OPERATORS:
            return _compare(pushdown, column, _OPERATORS[op], value)
        case {"BinaryExpr": {"left": value, "op": op, "right": {"Column": str(column)}}} if op in _OPERATORS:
            return _compare(pushdown, column, COMPARISONS[_OPERATORS[op]], value)
        case {"Function": {"input": [first, *rest], "function": function}}:
            return _function(pushdown, function, first, rest, depth)
    return None


def _function(pushdown: Pushdown, function: Any, first: Any, rest: list[Any], depth: int) -> str | None:
    if function == {"Boolean": "Not"}:
        found = _condition(pushdown, first, depth + 1)
        return None if found is None else f"NOT ({found})"
    match first:
        case {"Column": str(column)}:
            pass
        case _:
            return None
    match function:
        case {"Boolean": "IsNull" | "IsNotNull" as kind}:
            return pushdown.is_null(column, negated=kind == "IsNotNull")
        case {"Boolean": {"IsIn": {"nulls_equal": False}}}:
            return _among(pushdown, column, rest)
        case {"Boolean": {"IsBetween": {"closed": "Both"}}}:
            parts = [_compare(pushdown, column, op, one) for op, one in zip((">=", "<="), rest, strict=True)]
            known = [one for one in parts if one is not None]
            return " AND ".join(known) if len(known) == len(parts) else None
        case {"StringExpr": "StartsWith"}:
            match rest:
                case [{"Literal": {"Scalar": {"String": str(text)}}}]:
                    return pushdown.starts_with(column, text)
    return None


def _compare(pushdown: Pushdown, column: str, operator: str, value: Any) -> str | None:
    match value:
        case {"Literal": {"Scalar": scalar}} if (
            isinstance(scalar, dict) and len(scalar) == 1 and pushdown.has(column)
        ):
            return pushdown.compare(column, operator, _value(scalar, pushdown.schema.field(column).type))
    return None


def _value(scalar: dict[str, Any], kind: pa.DataType) -> Any:
    """Returns the Python value of a literal if it has exactly the type of its column, and otherwise None."""
    match scalar:
        case {"Boolean": bool(value)} | {"String": str(value)}:
            return value
        case {"Int32": int(value)} if pa.types.is_int32(kind):
            return value
        case {"Int64": int(value)} if pa.types.is_int64(kind):
            return value
        case {"Float64": float(value)} if pa.types.is_float64(kind):
            return value
        case {"Float32": float(value)} if pa.types.is_float32(kind):  # in the fewest digits
            return struct.unpack("f", struct.pack("f", value))[0]
        case {"Decimal": [int(digits), int(_), int(scale)]}:
            return decimal.Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))
        case {"Date": int(days)}:
            return _moment(days * 86_400_000_000, None, date=True)
        case {"Datetime": [int(micros), "Microseconds", None]}:
            return _moment(micros, None)
        case {"Datetime": [int(micros), "Microseconds", {"inner": "UTC"}]}:
            return _moment(micros, datetime.UTC)
    return None


def _moment(micros: int, zone: datetime.tzinfo | None, *, date: bool = False) -> datetime.date | None:
    try:
        found = _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return None
    return found.date() if date else found.replace(tzinfo=zone)


def _among(pushdown: Pushdown, column: str, rest: list[Any]) -> str | None:
    match rest:
        case [{"Literal": {"Scalar": {"List": list(packed)}}}]:
            pass
        case _:
            return None
    if not pushdown.has(column):
        return None
    with pa.ipc.open_stream(bytes(packed)) as stream:
        values = stream.read_all().column(0)
    kind = pushdown.schema.field(column).type
    flat = values.combine_chunks().to_pylist()
    found = flat[0] if len(flat) == 1 and isinstance(flat[0], list) else flat
    stored = values.type.value_type if pa.types.is_nested(values.type) else values.type
    same = stored == kind or (pa.types.is_string(kind) and stored in (pa.large_string(), pa.string_view()))
    return pushdown.among(column, found) if same else None
