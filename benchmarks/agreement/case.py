"""One query, in the languages of Penstock, DuckDB and Polars."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import polars as pl

# Tables by name, and the same with `_placed` after it for a table that has
# `PLACE` too, the place of the row in the table: files by path, then rows as
# stored.
Frames = Callable[[str], pl.LazyFrame]

PLACED = "_placed"
PLACE = "place"


@dataclasses.dataclass(frozen=True)
class Case:
    """A query of Penstock's, and the same for the others.

    `sql` runs over views with the tables' names; it gives the columns in the
    order in which they are expected, and Polars' are taken in that order.
    `frame` does the same with frames.
    """

    name: str
    query: dict[str, Any]
    sql: str
    frame: Callable[[Frames], pl.LazyFrame]


def dataset(training: str | dict[str, Any], *staging: dict[str, Any], key: list[str]) -> dict[str, Any]:
    """A dataset as a query carries it."""
    table = {"table": training} if isinstance(training, str) else training
    return {"training": table, "key": key, "staging": list(staging)}
