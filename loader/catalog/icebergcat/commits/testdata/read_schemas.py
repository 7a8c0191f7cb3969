"""Prints a line for each folder that it is given by standard input: the columns and the rows of its table ml.events, as PyIceberg reads them."""

from __future__ import annotations

import sys
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog


def line(folder: Path) -> str:
    """Read the table's schemas and rows."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    table = catalog.load_table("ml.events")
    columns = ", ".join(f"{f.name} {f.field_id}" for f in table.schema().fields)
    rows = [tuple(row.values()) for row in table.scan().to_arrow().sort_by("id").to_pylist()]
    operation = table.current_snapshot().summary.operation.value
    return f"{columns}; {len(table.schemas())} schemas; {rows}; {operation}"


if __name__ == "__main__":
    for given in sys.stdin:
        print(line(Path(given.rstrip("\n"))), flush=True)
