"""Writes worlds as Iceberg tables with PyIceberg: pyiceberg_write.py FOLDER...

exchange.py describes the contents of a folder, before and after. One process writes many worlds,
since starting one takes longer than writing several.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import exchange
import pyarrow.parquet as pq
from exchange import File, PartitionField, Step, Steps, Truth
from iceberg_types import column_type
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import NestedField
from sqlalchemy import event

_PLAIN: dict[str, Transform[Any, Any]] = {
    "identity": IdentityTransform(),
    "year": YearTransform(),
    "month": MonthTransform(),
    "day": DayTransform(),
    "hour": HourTransform(),
}


class Writer(Steps):
    """Writes the tables of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "warehouse").mkdir()
        self.catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        # The file is not needed after a crash, and waiting for the disk takes most of the time.
        event.listen(self.catalog.engine, "connect", lambda db, _: db.execute("PRAGMA synchronous = OFF"))
        self.catalog.engine.dispose()

    def close(self) -> None:
        """Closes the catalog's file."""
        self.catalog.engine.dispose()

    def write(self, table: dict[str, Any]) -> Truth:
        """Takes the steps of a table, and reads what came of them."""
        self.catalog.create_namespace_if_not_exists(table["name"].rpartition(".")[0])
        self.take(table)
        return truth(table["name"], self.catalog.load_table(table["name"]), table["id"])

    def do_create(self, name: str, step: Step) -> None:
        """Makes the table, without rows."""
        schema = Schema(
            *[
                NestedField(i, c["name"], column_type(c["type"]), required=c["required"])
                for i, c in enumerate(step["columns"], 1)
            ]
        )
        fields = [PartitionField.parse(text) for text in step["spec"]]
        spec = PartitionSpec(
            *[
                IcebergField(schema.find_field(f.source).field_id, 1000 + i, transform(f), f.name)
                for i, f in enumerate(fields)
            ]
        )
        properties = {"format-version": str(step["format"]), **step.get("properties", {})}
        self.catalog.create_table(name, schema, partition_spec=spec, properties=properties)

    def do_append(self, name: str, step: Step) -> None:
        """Commits rows."""
        self.catalog.load_table(name).append(exchange.rows(self.folder, step))

    def do_add_files(self, name: str, step: Step) -> None:
        """Takes over a file of rows that has no field ids, as tools write them that know no Iceberg."""
        table = self.catalog.load_table(name)
        path = f"{table.location()}/{step['rows']}.parquet"
        local = Path(exchange.local(path))
        local.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(exchange.rows(self.folder, step), local, row_group_size=3)
        table.add_files([path])

    def do_delete(self, name: str, step: Step) -> None:
        """Drops rows by rewriting the files that hold them."""
        self.catalog.load_table(name).delete(step["filter"])

    def do_spec(self, name: str, step: Step) -> None:
        """Changes how later rows are partitioned."""
        table = self.catalog.load_table(name)
        wanted = [PartitionField.parse(text) for text in step["spec"]]
        have = {f.name: described(f, table.schema()) for f in table.spec().fields}
        with table.update_spec() as update:
            for field_name, field in have.items():
                if field not in wanted and field.transform != "void":
                    update.remove_field(field_name)
            for field in wanted:
                if field not in have.values():
                    update.add_field(field.source, transform(field), field.name)

    def do_add_column(self, name: str, step: Step) -> None:
        """Adds an optional column, last."""
        with self.catalog.load_table(name).update_schema() as update:
            update.add_column(step["name"], column_type(step["type"]))

    def do_upgrade(self, name: str, step: Step) -> None:
        """Changes the table's format version."""
        with self.catalog.load_table(name).transaction() as change:
            change.upgrade_table_version(step["format"])


def transform(field: PartitionField) -> Transform[Any, Any]:
    """The library's transform of a partition field."""
    match field.transform:
        case "bucket":
            return BucketTransform(field.n)
        case "truncate":
            return TruncateTransform(field.n)
        case plain:
            return _PLAIN[plain]


def described(field: IcebergField, schema: Schema) -> PartitionField:
    """What a partition field of a table is made of."""
    return PartitionField.of(
        str(field.transform), schema.find_column_name(field.source_id) or "", field.field_id
    )


def truth(name: str, table: Table, id_column: str) -> Truth:
    """Reads the manifests of a table's snapshot, and the ids of its files."""
    found = Truth(
        name,
        table.metadata.format_version,
        {
            spec.spec_id: [described(f, table.schema()) for f in spec.fields]
            for spec in table.specs().values()
        },
    )
    snapshot = table.current_snapshot()
    if snapshot is None:
        return found
    known = exchange.chain(
        {s.snapshot_id: s.parent_snapshot_id for s in table.snapshots()}, snapshot.snapshot_id
    )
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            numbers, names = exchange.ids(file.file_path, id_column)
            found.files.append(
                File(
                    path=file.file_path,
                    bytes=file.file_size_in_bytes,
                    snapshot=entry.snapshot_id or 0,
                    order=known.index(entry.snapshot_id) + 1 if entry.snapshot_id in known else 0,
                    sequence=entry.sequence_number or None,
                    spec=file.spec_id,
                    partition=[exchange.plain(file.partition[i]) for i in range(len(file.partition))],
                    rows=numbers,
                    columns=names,
                )
            )
    return found


def main(folders: list[str]) -> None:
    """Writes every folder named."""
    for folder in folders:
        writer = Writer(Path(folder))
        exchange.save(writer.folder, [writer.write(table) for table in exchange.tables(writer.folder)])
        writer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
