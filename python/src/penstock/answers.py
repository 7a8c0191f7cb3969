"""Decodes servers' answers: their JSON, and fields that may be missing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

T = TypeVar("T")


def parsed(text: bytes | str) -> Any:
    """Decodes JSON from a server. All numbers are finite.

    Raises:
        ValueError: the text is not JSON, has a number that no float can represent, or is nested too deeply.
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not finite")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def texts(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Returns a list of texts; an empty one if it is missing."""
    return tuple(str(one) for one in found.get(name) or ())


def whole(found: Mapping[str, Any], name: str) -> int | None:
    """Returns a whole number; None if it is missing."""
    return int(found[name]) if found.get(name) is not None else None


def number(found: Mapping[str, Any], name: str) -> float | None:
    """Returns a number; None if it is missing."""
    return float(found[name]) if found.get(name) is not None else None


def known(number: Any) -> int | None:
    """Returns a count; None if it is negative, which means that the server does not know it."""
    return None if int(number) < 0 else int(number)


def total(counts: Iterable[int | None]) -> int | None:
    """Returns the sum of counts; None if one is unknown."""
    every = list(counts)
    of_known = [count for count in every if count is not None]
    return sum(of_known) if len(of_known) == len(every) else None


def part(found: Mapping[str, Any], name: str, decode: Callable[[Any], T]) -> T | None:
    """Returns a part, decoded; None if it is missing."""
    return decode(found[name]) if found.get(name) is not None else None


def time(found: Mapping[str, Any], name: str = "time") -> datetime | None:
    """Returns a time; None if it is missing."""
    return datetime.fromisoformat(str(found[name])) if found.get(name) else None
