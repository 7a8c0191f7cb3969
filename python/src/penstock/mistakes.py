"""Common mistakes, refused with the correct Python code.

The server refuses unsupported fields by name, but it cannot know what a user of another library
meant, or suggest Python code.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, SupportsIndex, get_type_hints

from penstock.errors import Fault, Invalid
from penstock.fields import Query

# Fields that take whole numbers.
_WHOLE = [name for name, form in get_type_hints(Query).items() if form == SupportsIndex | None]


def refuse(fields: Mapping[str, Any]) -> None:
    """Refuses query fields with common mistakes.

    Args:
        fields: the fields as passed by the caller; None leaves one out.

    Raises:
        Invalid: with the correct code as the remedy.
    """
    said = {name: value for name, value in fields.items() if value is not None}
    shuffle = said.get("shuffle")
    if isinstance(shuffle, bool):
        raise _invalid(
            "shuffle",
            f"{shuffle} does not say what to shuffle",
            'write order="shuffled", seed=1; shuffle may then be "requests", "rows" or "splits"'
            if shuffle
            else "leave shuffle out: rows come in stored order by default",
        )
    columns = said.get("columns")
    if isinstance(columns, str):
        raise _invalid("columns", f"{columns!r} is one name, not a list", f"write columns=[{columns!r}]")
    shard = said.get("shard")
    if isinstance(shard, int):
        raise _invalid(
            "shard", f"{shard!r} lacks the number of shards", f"write shard=({int(shard)}, 4) for one of 4"
        )
    if isinstance(said.get("filter"), list | tuple):
        raise _invalid(
            "filter", "must be a string in SQL syntax", "write filter=\"label = 1 AND country = 'de'\""
        )
    for name in _WHOLE:
        if name in said:
            whole(name, said[name])
    if said.get("seed") and said.get("order", "stored") == "stored" and "cursor" not in said:
        raise _invalid(
            "seed",
            'has no effect without order="shuffled"',
            f'write order="shuffled", seed={said["seed"]}, or leave seed out',
        )


def whole(name: str, value: Any, form: str = "{name}={value}", minimum: int | None = None) -> int:
    """Checks a whole number of any type, and returns it as an int.

    Args:
        name: the argument's name.
        value: the value passed.
        form: how to write the argument, for the remedy.
        minimum: the smallest value allowed; None leaves that to the server.

    Raises:
        Invalid: with the number that was probably meant.
    """
    try:
        found = operator.index(value)
    except TypeError:
        pass
    else:
        if minimum is not None and found < minimum:
            raise _invalid(
                name,
                f"must be at least {minimum}, not {found}",
                f"write {form.format(name=name, value=minimum)}",
            )
        return found
    meant = _nearest(value)
    written = form.format(name=name, value=max(0, 1 if meant is None else meant))
    remedy = f"write {written}" if meant is not None else f"write a whole number, such as {written}"
    raise _invalid(name, f"{value!r} is not a whole number", remedy)


def names(field: str, value: Any) -> list[str] | None:
    """Checks a list of names; None for None.

    Raises:
        Invalid: it is one text, or has something else.
    """
    if value is None:
        return None
    if isinstance(value, str):
        raise _invalid(field, f"{value!r} is one name, not a list", f"write {field}=[{value!r}]")
    found = list(value)
    for one in found:
        if not isinstance(one, str):
            raise _invalid(field, f"{one!r} is not a name", f"write texts in {field}")
    return found


def _nearest(value: Any) -> int | None:
    """Returns the whole number that was probably meant, if any. Text is parsed exactly, since ids exceed floats."""
    for form in (int, float):
        try:
            return int(form(value))
        except (TypeError, ValueError, OverflowError):
            continue
    return None


def _invalid(field: str, message: str, remedy: str) -> Invalid:
    return Invalid(f"{field}: {message}", remedy=remedy, faults=(Fault(field=field, message=message),))
