"""Reads tables with the product, as a user would: a config file and penstock cat."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

Row = dict[str, Any]

BINARY = os.environ.get("PENSTOCK_BIN", str(Path(__file__).parents[3] / "bin" / "penstock"))


class RefusedError(Exception):
    """The product gave no row, but said why."""


class Reader:
    """Reads datasets over the catalog of a folder."""

    def __init__(self, folder: Path, datasets: dict[str, Any]) -> None:
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        self._config = folder / "penstock.yaml"
        self._config.write_text(json.dumps({"catalogs": {"default": catalog}, "datasets": datasets}))

    def rows(self, dataset: str, **query: Any) -> list[Row]:
        """The rows of a query, in order.

        Raises:
            RefusedError: with what was said on standard error.
        """
        output = self._run("cat", "--format", "jsonl", "--query", json.dumps({"dataset": dataset, **query}))
        return [json.loads(line) for line in output.splitlines()]

    def plan(self, dataset: str, **query: Any) -> str:
        """The plan of a query, as text, for which no data file is opened.

        Raises:
            RefusedError: with what was said on standard error.
        """
        return self._run("explain", "--query", json.dumps({"dataset": dataset, **query}))

    def _run(self, command: str, *flags: str) -> str:
        found = subprocess.run(
            [BINARY, command, "--config", str(self._config), *flags],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if found.returncode != 0:
            raise RefusedError(found.stderr)
        return found.stdout

    def values(self, dataset: str, column: str, **query: Any) -> list[Any]:
        """One column of a query's rows."""
        return [row[column] for row in self.rows(dataset, **query)]


def staged(rule: str, order_by: list[Any] | None = None) -> Row:
    """A dataset that joins the table of six appends to one training row."""
    entry = {"table": "ml.six", "key": {"k": "k"}, "columns": ["v"], "duplicates": rule}
    if order_by is not None:
        entry["order_by"] = order_by
    return {"training": {"table": "ml.train"}, "key": ["k"], "staging": [entry]}


def kept(keep: str) -> Row:
    """A dataset that keeps one row of the table of six appends."""
    training = {"table": "ml.six", "distinct": {"by": ["k"], "keep": keep}}
    return {"training": training, "key": ["k"], "staging": []}


# What a reader of six appends asks, and what it gets: append i has v = i, and
# tie = 0 in the first three.
ORDERS: dict[str, tuple[Row, list[int]]] = {
    "first": (staged("first"), [0]),
    "last": (staged("last"), [5]),
    "first of equals": (staged("first", ["tie"]), [0]),
    "last of equals": (staged("last", ["tie"]), [5]),
    "first of the highest": (staged("first", [{"column": "tie", "order": "desc"}]), [3]),
    "last of the lowest": (staged("last", [{"column": "tie", "order": "desc"}]), [2]),
    "distinct, first": (kept("first"), [0]),
    "distinct, last": (kept("last"), [5]),
}


# How a plan is refused that needs an order which is lost.
UNKNOWN = r"files \S+ \(snapshot \d+\) and \S+ \(snapshot \d+\) of table ml\.six that is unknown"
# Where order_by orders some rows of a key, a join ends at rows that it does not order.
TIED = (
    r"rows of table ml\.six with the key k=1 that order_by does not tell apart, "
    r"and it is unknown which of their files \S+ \(snapshot \d+\)"
)

# The rows that order_by leaves beside the one that is chosen, and which row that is.
TIES = {
    "first of equals": (range(3), 0),
    "last of equals": (range(3, 6), 5),
    "first of the highest": (range(3, 6), 3),
    "last of the lowest": (range(3), 2),
}


def check_order(name: str, answer: list[int] | str, expired: int) -> None:
    """Sees that an answer is right where the first commits' order is lost.

    Args:
        name: one of ORDERS.
        answer: what the product gives.
        expired: how many commits have no known order with each other; the others are known to be later.
    """
    if name not in TIES:
        assert expired > 1
        assert re.search(UNKNOWN, str(answer)), f"{name}: {answer}"
        return
    tied, chosen = TIES[name]
    if chosen < expired and any(row < expired for row in tied if row != chosen):
        assert re.search(TIED, str(answer)), f"{name}: {answer}"
    else:
        assert answer == ORDERS[name][1], f"{name}: {answer}"


def ask_for_orders(folder: Path) -> dict[str, list[int] | str]:
    """What the product gives for each of ORDERS: values, or why it refuses."""
    reader = Reader(
        folder, {name.replace(",", "").replace(" ", "_"): dataset for name, (dataset, _) in ORDERS.items()}
    )
    found: dict[str, list[int] | str] = {}
    for name in ORDERS:
        try:
            found[name] = reader.values(name.replace(",", "").replace(" ", "_"), "v")
        except RefusedError as why:
            found[name] = str(why)
    return found


def misled(paths: list[str]) -> bool:
    """Whether names, in the order of the commits, tell neither the first nor the last of them."""
    return paths[0] != min(paths) and paths[-1] != max(paths)
