"""A catalog to whose namespace `features` servers write, and rows for its table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

TABLE = "features.history"


class House:
    """A catalog, and a server that writes to its namespace features."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        self.catalog.create_namespace("features")
        self.config = folder / "penstock.yaml"
        self.config.write_text(
            f"catalogs: {{default: {{type: sql, uri: 'sqlite:///{folder}/catalog.db',"
            f" warehouse: 'file://{folder}/warehouse', writes: {{namespaces: [features]}}}}}}\n"
            "datasets: {history: {training: {table: features.history}, key: [id]}}\n"
        )

    def rows(self) -> list[dict[str, Any]]:
        """All rows of main, read by another program."""
        found = self.catalog.load_table(TABLE).scan().to_arrow()
        return sorted(found.to_pylist(), key=lambda row: (row["id"], str(row.get("country"))))

    def snapshots(self) -> int:
        return len(self.catalog.load_table(TABLE).snapshots())


def table(start: int = 0, stop: int = 10) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, stop), pa.int64()),
            "country": pa.array(["CH", "DE"] * ((stop - start) // 2), pa.string()),
        }
    )


def batches(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    for one in tables:
        yield from one.to_batches()
