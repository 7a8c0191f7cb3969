"""Prints the columns and the rows of the table ml.events in the catalog of a folder, as PyIceberg reads them."""

from __future__ import annotations

import sys
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog


def main() -> None:
    """Read the table's schemas and rows."""
    folder = Path(sys.argv[1])
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    table = catalog.load_table("ml.events")
    columns = ", ".join(f"{f.name} {f.field_id}" for f in table.schema().fields)
    rows = [tuple(row.values()) for row in table.scan().to_arrow().sort_by("id").to_pylist()]
    operation = table.current_snapshot().summary.operation.value
    print(f"{columns}; {len(table.schemas())} schemas; {rows}; {operation}")


if __name__ == "__main__":
    main()
