"""Combines the reports of streams over several connections, shards or epochs. docs/reports.md lists their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock import answers

# The counts of a staging table that can be added up.
_COUNTS = ("rows", "matched", "missing", "null_keys", "duplicates", "duplicates_resolved", "defaults_filled")

# The fields of the last connection's report that apply to the whole stream.
_OF_STREAM = ("cursor", "leftover", "sample", "unread", "promoted", "indexed")


def unbroken(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the report of a stream that used one connection."""
    return {**report, "staging": _tables(report), "partial": False}


def resumed(
    counts: Mapping[str, int], last: Mapping[str, Any], parts: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Returns the report of a resumed stream.

    Args:
        counts: the numbers of rows and batches over all connections.
        last: the server's report of the last connection.
        parts: the report of each connection.
    """
    said = {name: last[name] for name in _OF_STREAM if name in last}
    return {**counts, **said, "staging": _tables(last), "partial": True, "parts": list(parts)}


def _tables(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the statistics of each staging table that a stream used. Unknown counts, of promoted entries, are None."""
    promoted = {name: dict.fromkeys(_COUNTS) for name in report.get("promoted", ())}
    return {**promoted, **report.get("staging", {})}


def unreported(cursor: Mapping[str, Any], tables: Iterable[str]) -> dict[str, Any]:
    """Returns the report of a last connection that was not opened because no rows were left, with zero counts."""
    return {"cursor": cursor, "staging": {name: dict.fromkeys(_COUNTS, 0) for name in tables}}


def total(each: str, reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the combined report of several streams.

    Args:
        each: the name of the field with the streams' reports, such as "shards".
        reports: the report of each stream.
    """
    sums = [name for name in ("rows", "requests", "batches") if all(name in r for r in reports)]
    return {
        **{name: sum(r[name] for r in reports) for name in sums},
        "staging": _added([r["staging"] for r in reports]),
        "partial": any(r["partial"] for r in reports),
        each: list(reports),
    }


def _added(reports: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, int | None]]:
    """Returns the counts of each staging table over several streams; a count is None if any stream does not have it."""
    names = dict.fromkeys(name for tables in reports for name in tables)
    return {
        name: {
            count: answers.total(tables[name].get(count, 0) for tables in reports if name in tables)
            for count in _COUNTS
        }
        for name in names
    }
