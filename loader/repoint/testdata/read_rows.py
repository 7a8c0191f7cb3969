"""Prints the ids of the rows of the table ml.events in the catalog of a folder, as PyIceberg reads them."""

from __future__ import annotations

import sys
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog


def main() -> None:
    """Read the table's rows."""
    folder = Path(sys.argv[1])
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    rows = catalog.load_table("ml.events").scan().to_arrow()
    print(sorted(rows["id"].to_pylist()))


if __name__ == "__main__":
    main()
