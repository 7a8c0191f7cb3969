"""Prints a line for each folder that is given: what PyIceberg reads of its table ml.events."""

from __future__ import annotations

import sys
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog


def line(folder: Path) -> str:
    """Read the table's rows, files and history."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    table = catalog.load_table("ml.events")
    rows = table.scan().to_arrow().sort_by("id")
    ids = rows["id"].to_pylist()
    days = [day.toordinal() - 719163 for day in rows["day"].to_pylist()]
    for i in ids:
        if table.scan(row_filter=f"id = {i}").to_arrow().num_rows != 1:
            sys.exit(f"a filter for id {i} does not find its row")
    files, snapshots = len(list(table.scan().plan_files())), len(table.history())
    order = len(table.sort_order().fields)
    return f"ids {ids}; days {days}; {files} files; {snapshots} snapshots; sorted by {order} fields"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(line(Path(given)))  # noqa: T201
