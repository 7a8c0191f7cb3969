"""Another process that commits to tables, as their owners do: python committer.py CATALOG WAREHOUSE.

It reads commits from its input, a line of JSON each time, and answers when they are made.

What it does is PyIceberg's, save that files which no snapshot has any more are removed here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

SECOND = 1_000_000
DONE = "done\n"


def append(table: Table) -> None:
    """Adds rows that no other row is like."""
    table.append(_shifted(table, SECOND))


def overwrite(table: Table) -> None:
    """Puts other rows in the place of some."""
    table.overwrite(_shifted(table, 2 * SECOND), overwrite_filter="row < 40")


def delete(table: Table) -> None:
    """Rewrites the files without some rows."""
    table.delete("row < 80")


def compact(table: Table) -> None:
    """Writes all rows into other files."""
    table.overwrite(table.scan().to_arrow())


def evolve(table: Table) -> None:
    """Renames a column, drops one and adds one."""
    with table.update_schema() as change:
        change.rename_column("number", "figure")
        change.delete_column("note")
        change.add_column("later", StringType())


def divide(table: Table) -> None:
    """Gives the table another partition spec."""
    with table.update_spec() as change:
        change.add_field("row", BucketTransform(3), "row_bucket")


def expire(table: Table, *ids: int) -> None:
    """Lets snapshots expire, and removes the files that no other one has."""
    table.maintenance.expire_snapshots().by_ids(list(ids)).commit()
    kept = {str(table.metadata_location)}
    for snapshot in table.refresh().snapshots():
        kept.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            kept.add(manifest.manifest_path)
            kept |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io)}
    folder = Path(table.location().removeprefix("file://"))
    paths = {location.removeprefix("file://") for location in kept}
    for path in folder.rglob("*"):
        if path.suffix in (".parquet", ".avro") and str(path) not in paths:
            path.unlink()


def _shifted(table: Table, by: int) -> pa.Table:
    rows = table.scan(row_filter="row < 100").to_arrow()
    return rows.set_column(0, rows.schema.field(0), pc.add(rows.column(0), pa.scalar(by, pa.int64())))


COMMITS: dict[str, Callable[..., None]] = {
    f.__name__: f for f in (append, overwrite, delete, compact, evolve, divide, expire)
}


class Committer:
    """The other process; leaving the block ends it. It stays, as importing PyIceberg takes seconds."""

    def __init__(self, catalog: str, warehouse: str) -> None:
        self._command = [sys.executable, __file__, catalog, warehouse]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def commit(self, *commits: tuple[str, str] | tuple[str, str, list[int]]) -> None:
        """Makes commits: each is a table, what is done, and snapshots that expire."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(commits) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == DONE, "the commits failed"

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.communicate()


if __name__ == "__main__":
    uri, warehouse = sys.argv[1:]
    catalog = SqlCatalog("default", uri=uri, warehouse=warehouse)
    for line in sys.stdin:
        for name, what, *ids in json.loads(line):
            COMMITS[what](catalog.load_table(name), *(ids[0] if ids else []))
        sys.stdout.write(DONE)
        sys.stdout.flush()
