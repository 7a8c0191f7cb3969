"""Decodes fields of servers' answers that may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def texts(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Returns a list of texts; an empty one if it is missing."""
    return tuple(str(one) for one in found.get(name) or ())


def whole(found: Mapping[str, Any], name: str) -> int | None:
    """Returns a whole number; None if it is missing."""
    return int(found[name]) if found.get(name) is not None else None


def number(found: Mapping[str, Any], name: str) -> float | None:
    """Returns a number; None if it is missing."""
    return float(found[name]) if found.get(name) is not None else None


def time(found: Mapping[str, Any], name: str = "time") -> datetime | None:
    """Returns a time; None if it is missing."""
    return datetime.fromisoformat(str(found[name])) if found.get(name) else None
