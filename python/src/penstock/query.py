"""From keyword arguments to the JSON of a query.

Only the forms are looked at here: which fields there are, and what they may
say, is the server's to decide, and it names what it refuses.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import Fault, Invalid
from penstock.fields import Cursor

Dataset = str | Mapping[str, Any]


# Fields that may be pairs, and what the first of the two is.
_PAIRS = {"shard": "index", "every": "step"}


def name(dataset: Dataset) -> str:
    """What people call a dataset: its name, or its training table's."""
    if isinstance(dataset, str):
        return dataset
    if not isinstance(dataset, Mapping):
        raise invalid("dataset", f"must be a name, or a dataset as a mapping, not {type(dataset).__name__}")
    training = dataset.get("training")
    return str(training.get("table", "")) if isinstance(training, Mapping) else ""


def encode(dataset: Dataset, fields: Mapping[str, Any]) -> bytes:
    """Makes the JSON of a query, see `form`."""
    return text(form(dataset, fields))


def text(query: Mapping[str, Any]) -> bytes:
    """The JSON of what `form` made."""
    return json.dumps(query, ensure_ascii=False, separators=(",", ":")).encode()


def form(dataset: Dataset, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copies a query into what JSON knows, so that it can be sent, and sent again later.

    Args:
        dataset: the name of one that the server knows, or a dataset as a mapping.
        fields: the query's other fields. None leaves one out; `shard` may be a pair
            (index, of), and `every` one (step, of); `cursor` may be a mapping, JSON text, or a list of these.
    """
    out: dict[str, Any] = {"dataset": _plain("dataset", dataset)}
    for field, value in fields.items():
        if value is None:
            continue
        if field == "cursor":
            out[field] = cursor(value)
        elif field in _PAIRS and isinstance(value, (tuple, list)):
            first = _PAIRS[field]
            if len(value) != 2:
                raise invalid(field, f"must be ({first}, of)")
            out[field] = _plain(field, {first: value[0], "of": value[1]})
        else:
            out[field] = _plain(field, value)
    return out


def cursor(value: Any) -> Cursor | list[Cursor]:
    """Brings a cursor, or several, from any form it is kept in into plain dictionaries."""
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
    """Copies a value into what JSON knows. Whole numbers of any type stay exact."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as e:
            raise invalid(at, f"{value!r} holds half a character, and is no text for others") from e
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise invalid(at, f"has the key {key!r}, which is not text")
        return {key: _plain(f"{at}.{key}", item) for key, item in value.items()}
    try:
        return operator.index(value)
    except TypeError:
        pass  # arrays have an index only where they hold one whole number
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise invalid(at, f"must be finite, not {value}")
        return value
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, set, frozenset)):
        return [_plain(f"{at}[{i}]", item) for i, item in enumerate(value)]
    raise invalid(at, f"a value of type {type(value).__name__} has no form in JSON")


def invalid(field: str, message: str) -> Invalid:
    """Makes the exception of one field that is wrong."""
    return Invalid(f"{field}: {message}", faults=(Fault(field=field, message=message),))
