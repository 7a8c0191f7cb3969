"""What is written wrong most often, refused with what to write in Python.

The server refuses by name whatever it does not serve. It cannot know what a caller of another
library meant, nor say it in the words of Python.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from penstock.errors import Fault, Invalid

# Fields whose values are counted, or count.
_WHOLE = (
    "since",
    "shuffle_window",
    "seed",
    "epoch",
    "lanes",
    "batch_rows",
    "global_batch_rows",
    "batch_requests",
    "limit",
)


def refuse(fields: Mapping[str, Any]) -> None:
    """Refuses fields of a query that mean something else than they say.

    Args:
        fields: as they were given; None leaves one out.

    Raises:
        Invalid: with what to write.
    """
    said = {name: value for name, value in fields.items() if value is not None}
    shuffle = said.get("shuffle")
    if isinstance(shuffle, bool):
        raise _invalid(
            "shuffle",
            f"{shuffle} says not what is permuted",
            'write order="shuffled", seed=1; shuffle may then be "requests", "rows" or "splits"'
            if shuffle
            else "leave shuffle out: rows come as they are stored",
        )
    columns = said.get("columns")
    if isinstance(columns, str):
        raise _invalid("columns", f"{columns!r} is one name, not a list", f"write columns=[{columns!r}]")
    shard = said.get("shard")
    if isinstance(shard, int):
        raise _invalid(
            "shard", f"{shard!r} says not of how many", f"write shard=({int(shard)}, 4) for one of 4"
        )
    if isinstance(said.get("filter"), list | tuple):
        raise _invalid(
            "filter", "it is text, in SQL's words", "write filter=\"label = 1 AND country = 'de'\""
        )
    for name in _WHOLE:
        if name in said:
            whole(name, said[name])
    if said.get("seed") and said.get("order", "stored") == "stored" and "cursor" not in said:
        raise _invalid(
            "seed",
            "it permutes nothing, as rows come in the order in which they are stored",
            f'write order="shuffled", seed={said["seed"]}, or leave seed out',
        )


def whole(name: str, value: Any, form: str = "{name}={value}", least: int | None = None) -> int:
    """A whole number of any type.

    Args:
        name: of the argument.
        value: what was given.
        form: how the argument is written.
        least: what it must be; None for the server to say.

    Raises:
        Invalid: with the number that may be meant.
    """
    try:
        found = operator.index(value)
    except TypeError:
        pass
    else:
        if least is not None and found < least:
            raise _invalid(
                name, f"must be at least {least}, not {found}", f"write {form.format(name=name, value=least)}"
            )
        return found
    meant = _nearest(value)
    written = form.format(name=name, value=max(0, 1 if meant is None else meant))
    remedy = f"write {written}" if meant is not None else f"write a whole number, such as {written}"
    raise _invalid(name, f"{value!r} is no whole number", remedy)


def _nearest(value: Any) -> int | None:
    """The whole number that may be meant, if one is. Of text it is exact, as ids are beyond floats."""
    for form in (int, float):
        try:
            return int(form(value))
        except (TypeError, ValueError, OverflowError):
            continue
    return None


def _invalid(field: str, message: str, remedy: str) -> Invalid:
    return Invalid(f"{field}: {message}", remedy=remedy, faults=(Fault(field=field, message=message),))
