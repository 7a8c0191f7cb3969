"""Writes worlds as Iceberg tables with Spark: spark_write.py FOLDER...

exchange.py describes the contents of a folder, before and after. Steps that Spark's SQL lacks use
Iceberg's Java API.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import exchange
import pyarrow.parquet as pq
from exchange import File, PartitionField, Step, Steps, Truth
from pyspark.sql import SparkSession
from spark_session import attach, java_table, start

_TYPES = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "list": "array"}


class Writer(Steps):
    """Writes the tables of one folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark.newSession()
        self.folder = folder
        attach(self.spark, folder, "default")

    def write(self, table: dict[str, Any]) -> Truth:
        """Takes the steps of a table, and reads what came of them."""
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS default.{table['name'].rpartition('.')[0]}")
        self.take(table)
        return truth(self.spark, table["name"], table["id"])

    def do_create(self, name: str, step: Step) -> None:
        """Makes the table, without rows."""
        columns = ", ".join(
            f"`{c['name']}` {column_type(c['type'])}{' NOT NULL' if c['required'] else ''}"
            for c in step["columns"]
        )
        properties = {"format-version": str(step["format"]), **step.get("properties", {})}
        spelled = ", ".join(f"'{k}' = '{v}'" for k, v in properties.items())
        self.spark.sql(f"CREATE TABLE default.{name} ({columns}) USING iceberg TBLPROPERTIES ({spelled})")
        self.do_spec(name, step)

    def do_append(self, name: str, step: Step) -> None:
        """Commits rows."""
        path = self.folder / f"{step['rows']}.parquet"
        pq.write_table(exchange.rows(self.folder, step), path)
        self.spark.read.parquet(str(path)).repartition(step.get("partitions", 1)).writeTo(
            f"default.{name}"
        ).append()

    def do_delete(self, name: str, step: Step) -> None:
        """Drops rows by rewriting the files that hold them."""
        self.spark.sql(f"DELETE FROM default.{name} WHERE {step['filter']}")

    def do_spec(self, name: str, step: Step) -> None:
        """Changes how later rows are partitioned."""
        table = java_table(self.spark, f"default.{name}")
        wanted = [PartitionField.parse(text) for text in step["spec"]]
        have = {f.name(): described(f, table) for f in table.spec().fields()}
        update = table.updateSpec()
        for field_name, field in have.items():
            if field not in wanted and field.transform != "void":
                update = update.removeField(field_name)
        for field in wanted:
            if field not in have.values():
                update = update.addField(field.name, self._term(field))
        update.commit()

    def _term(self, field: PartitionField) -> Any:
        expressions = self.spark._jvm.org.apache.iceberg.expressions.Expressions
        if field.transform == "identity":
            return expressions.ref(field.source)
        make = getattr(expressions, field.transform)
        return make(field.source, field.n) if field.n else make(field.source)

    def do_add_column(self, name: str, step: Step) -> None:
        """Adds an optional column, last. SQL has no word for a default of rows that are there already."""
        if "default" in step:
            api = self.spark._jvm.org.apache.iceberg
            kind = api.types.Types.fromPrimitiveString(step["type"])
            default = api.expressions.Literal.of(step["default"])
            java_table(self.spark, f"default.{name}").updateSchema().addColumn(
                step["name"], kind, None, default
            ).commit()
            return
        self.spark.sql(f"ALTER TABLE default.{name} ADD COLUMN `{step['name']}` {column_type(step['type'])}")

    def do_upgrade(self, name: str, step: Step) -> None:
        """Changes the table's format version."""
        self.spark.sql(
            f"ALTER TABLE default.{name} SET TBLPROPERTIES ('format-version' = '{step['format']}')"
        )


def column_type(text: str) -> str:
    """Spark's name of an Iceberg type."""
    word, out = "", ""
    for letter in text + " ":
        if letter.isalnum() or letter == "_":
            word += letter
            continue
        out, word = out + _TYPES.get(word, word) + letter, ""
    return out.strip()


def described(field: Any, table: Any) -> PartitionField:
    """What a partition field of a table is made of."""
    return PartitionField.of(
        field.transform().toString(), table.schema().findColumnName(field.sourceId()), field.fieldId()
    )


def truth(spark: SparkSession, name: str, id_column: str) -> Truth:
    """Reads the files of a table's snapshot through Iceberg's own scan, and the ids in them."""
    table = java_table(spark, f"default.{name}")
    specs = table.specs()
    found = Truth(
        name,
        table.operations().current().formatVersion(),
        {spec: [described(f, table) for f in specs[spec].fields()] for spec in specs},
    )
    if table.currentSnapshot() is None:
        return found
    snapshots = {s.snapshotId(): s for s in table.snapshots()}
    known = exchange.chain(
        {i: s.parentId() for i, s in snapshots.items()}, table.currentSnapshot().snapshotId()
    )
    added = {f.location(): i for i in known for f in snapshots[i].addedDataFiles(table.io())}
    scans = table.newScan().planFiles().iterator()
    while scans.hasNext():
        file = scans.next().file()
        numbers, names = exchange.ids(file.location(), id_column)
        found.files.append(
            File(
                path=file.location(),
                bytes=file.fileSizeInBytes(),
                snapshot=added[file.location()],
                order=known.index(added[file.location()]) + 1,
                sequence=file.dataSequenceNumber() or None,
                spec=file.specId(),
                partition=_values(spark, file, specs[file.specId()]),
                rows=numbers,
                columns=names,
            )
        )
    return found


def _values(spark: SparkSession, file: Any, spec: Any) -> list[Any]:
    """The partition values of a file, as JSON has them."""
    jvm = spark._jvm
    anything = jvm.java.lang.Class.forName("java.lang.Object")
    values = []
    for i, field in enumerate(spec.partitionType().fields()):
        value = file.partition().get(i, anything)
        if value is not None and field.type().toString() == "string":
            value = str(value.toString() if hasattr(value, "toString") else value)
        elif value is not None and field.type().toString() == "binary":
            value = bytes(jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(value))
        values.append(exchange.plain(value))
    return values


def main(folders: list[str]) -> None:
    """Writes every folder named."""
    with tempfile.TemporaryDirectory() as scratch:
        spark = start(Path(scratch))
        for folder in folders:
            writer = Writer(spark, Path(folder))
            exchange.save(writer.folder, [writer.write(table) for table in exchange.tables(writer.folder)])
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
