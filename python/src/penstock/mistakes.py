"""Rejects common mistakes and suggests the correct Python code.

The server rejects unsupported fields by name, but it cannot recognize habits from other libraries or suggest Python
code.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex, get_args, get_type_hints

from penstock.fields import Query
from penstock.query import invalid

# Fields that take whole numbers, and those of them that also take text.
_WHOLE = [name for name, form in get_type_hints(Query).items() if SupportsIndex in get_args(form)]
_OR_TEXT = [name for name in _WHOLE if str in get_args(get_type_hints(Query)[name])]


def refuse(fields: Mapping[str, Any]) -> None:
    """Rejects query fields with common mistakes.

    Args:
        fields: the fields as passed by the caller; None values are left out.

    Raises:
        Invalid: there is a mistake; the remedy has the correct code.
    """
    said = {name: value for name, value in fields.items() if value is not None}
    shuffle = said.get("shuffle")
    if isinstance(shuffle, bool):
        raise invalid(
            "shuffle",
            f"{shuffle} does not say what to shuffle",
            'write order="shuffled", seed=1; shuffle may then be "requests", "rows" or "splits"'
            if shuffle
            else "leave shuffle out: rows come in stored order by default",
        )
    columns = said.get("columns")
    if isinstance(columns, str):
        raise invalid("columns", f"{columns!r} is one name, not a list", f"write columns=[{columns!r}]")
    shard = said.get("shard")
    if isinstance(shard, int):
        raise invalid(
            "shard", f"{shard!r} lacks the number of shards", f"write shard=({int(shard)}, 4) for one of 4"
        )
    if isinstance(said.get("filter"), list | tuple):
        raise invalid(
            "filter", "must be a string in SQL syntax", "write filter=\"label = 1 AND country = 'de'\""
        )
    for name in _WHOLE:
        if name in said and not (name in _OR_TEXT and isinstance(said[name], str)):
            whole(name, said[name])
    if said.get("seed") and said.get("order", "stored") == "stored" and "cursor" not in said:
        raise invalid(
            "seed",
            'has no effect without order="shuffled"',
            f'write order="shuffled", seed={said["seed"]}, or leave seed out',
        )


def whole(name: str, value: Any, form: str = "{name}={value}", minimum: int | None = None) -> int:
    """Checks a whole number of any type, and returns it as an int.

    Args:
        name: the argument's name.
        value: the value passed.
        form: the format of the argument in the remedy.
        minimum: the smallest value allowed; None leaves that to the server.

    Raises:
        Invalid: the value is not a whole number or is too small; the remedy has a likely correction.
    """
    try:
        found = operator.index(value)
    except TypeError:
        pass
    else:
        if minimum is not None and found < minimum:
            raise invalid(
                name,
                f"must be at least {minimum}, not {found}",
                f"write {form.format(name=name, value=minimum)}",
            )
        return found
    meant = _nearest(value)
    written = form.format(name=name, value=max(0, 1 if meant is None else meant))
    remedy = f"write {written}" if meant is not None else f"write a whole number, such as {written}"
    raise invalid(name, f"{value!r} is not a whole number", remedy)


def names(field: str, value: Any) -> list[str] | None:
    """Checks and returns a list of names; returns None for None.

    Raises:
        Invalid: the value is a single string, or an element is not a string.
    """
    if value is None:
        return None
    if isinstance(value, str):
        raise invalid(field, f"{value!r} is one name, not a list", f"write {field}=[{value!r}]")
    found = list(value)
    for one in found:
        if not isinstance(one, str):
            raise invalid(field, f"{one!r} is not a name", f"write texts in {field}")
    return found


def arguments(field: str, values: Sequence[Any]) -> list[str]:
    """Checks and returns names that were passed as separate arguments.

    Raises:
        Invalid: one of them is not a string; for a list, the remedy says how to pass its elements.
    """
    for one in values:
        if isinstance(one, str):
            continue
        if isinstance(one, list | tuple):
            written = ", ".join(repr(name) for name in one)
            raise invalid(
                field,
                f"{one!r} is a list, not a name",
                f"pass each name as an argument of its own: {written}",
            )
        raise invalid(field, f"{one!r} is not a name", "pass each name as a text")
    return list(values)


def _nearest(value: Any) -> int | None:
    """Returns the probable whole number, if any. Text is parsed as an int first, because ids exceed the precision of floats."""
    for form in (int, float):
        try:
            return int(form(value))
        except (TypeError, ValueError, OverflowError):
            continue
    return None
