"""Converts keyword arguments to the JSON of a query.

This module checks only the JSON forms. The server decides which fields and values are supported, and rejects others by
name.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from penstock.errors import Fault, Invalid
from penstock.fields import Cursor

Dataset = str | Mapping[str, Any]

T = TypeVar("T")


# Fields that may be pairs, and the name of the first element.
_PAIRS = {"shard": "index", "every": "step"}


def name(dataset: Dataset) -> str:
    """Returns a dataset's name, or the name of its training table if it is inline."""
    if isinstance(dataset, str):
        return dataset
    if not isinstance(dataset, Mapping):
        raise invalid("dataset", f"must be a name, or a dataset as a mapping, not {type(dataset).__name__}")
    training = dataset.get("training")
    return str(training.get("table", "")) if isinstance(training, Mapping) else ""


def text(fields: Mapping[str, Any]) -> bytes:
    """Returns the JSON of a query that `form` returned, or of an action's fields. None values are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()


def in_smallest_form(form: Mapping[str, Any], ask: Callable[[dict[str, Any]], T]) -> T:
    """Sends a query with its own wire form, or with the smallest form that works if it sets none.

    Indexed batches have columns named after staging tables, so they are impossible if other columns have the same
    names.
    """
    if "wire" in form:
        return ask({**form})
    try:
        return ask({**form, "wire": "auto"})
    except Invalid as e:
        if [fault.field for fault in e.faults] != ["wire"]:
            raise
    return ask({**form, "wire": "plain"})


def form(dataset: Dataset, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copies a query to plain JSON values, to send it now or again later.

    Args:
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        fields: the query's other fields. None values are left out; `shard` may be a pair (index, of), and `every` a
            pair (step, of); `cursor` may be a mapping, JSON text, or a list of these; `with_` is `with` in JSON.
    """
    out: dict[str, Any] = {"dataset": _plain("dataset", dataset)}
    for field, value in fields.items():
        if value is None:
            continue
        if field == "cursor":
            out[field] = cursor(value)
        elif field == "with_":
            out["with"] = _entries(value)
        elif field in _PAIRS and isinstance(value, (tuple, list)):
            first = _PAIRS[field]
            if len(value) != 2:
                raise invalid(field, f"must be ({first}, of)")
            out[field] = _plain(field, {first: value[0], "of": value[1]})
        else:
            out[field] = _plain(field, value)
    return out


def _entries(value: Any) -> list[Any]:
    """Converts added staging entries to plain JSON values. A bare name means a table."""
    if isinstance(value, (str, Mapping)):
        raise invalid(
            "with_", f"must be a list of staging entries, such as [{{'table': {'features.new'!r}}}]"
        )
    entries = _plain("with_", value)
    if not isinstance(entries, list):
        raise invalid("with_", f"must be a list of staging entries, not {type(value).__name__}")
    return [{"table": entry} if isinstance(entry, str) else entry for entry in entries]


def cursor(value: Any) -> Cursor | list[Cursor]:
    """Converts one or several cursors from any stored form to plain dictionaries."""
    if isinstance(value, (str, bytes, bytearray)):
        try:
            value = json.loads(value)
        except ValueError as e:
            raise invalid("cursor", f"is not JSON: {e}") from e
    if isinstance(value, Mapping):
        plain: Cursor = _plain("cursor", value)
        return plain
    if isinstance(value, (list, tuple)):
        out: list[Cursor] = []
        for one in value:
            each = cursor(one)
            out.extend(each if isinstance(each, list) else [each])
        return out
    raise invalid("cursor", f"must be a mapping, JSON text, or a list of these, not {type(value).__name__}")


def _plain(at: str, value: Any) -> Any:
    """Copies a value to plain JSON values. Whole numbers of any type stay exact."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as e:
            raise invalid(at, f"{value!r} contains half of a surrogate pair, and is not valid text") from e
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise invalid(at, f"has the key {key!r}, which is not text")
        return {key: _plain(f"{at}.{key}", item) for key, item in value.items()}
    try:
        return operator.index(value)
    except TypeError:
        pass  # arrays support operator.index only if they contain a single whole number
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise invalid(at, f"must be finite, not {value}")
        return value
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, set, frozenset)):
        return [_plain(f"{at}[{i}]", item) for i, item in enumerate(value)]
    raise invalid(at, f"a value of type {type(value).__name__} cannot be written as JSON")


def invalid(field: str, message: str, remedy: str = "") -> Invalid:
    """Creates the exception for a mistake in one field."""
    return Invalid(f"{field}: {message}", remedy=remedy, faults=(Fault(field=field, message=message),))
