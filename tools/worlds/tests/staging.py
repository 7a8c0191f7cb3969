"""A catalog whose tables penstock stage writes, and their rows in Spark, PyIceberg, DuckDB and the product."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from plain import plain_rows
from reading import BINARY, Row

_WORLDS = Path(__file__).parents[1]
# PyIceberg and DuckDB are not in Spark's environment.
PYTHON = os.environ.get("PENSTOCK_PYTHON", str(_WORLDS.parents[1] / ".venv" / "test" / "bin" / "python"))

Rows = list[list[Any]]


class Lake:
    """A folder with a SQL catalog that allows writes to its namespace ml."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.sources: list[Path] = []
        self.lists_of_structs: list[int] = []
        self._catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
            "writes": {"namespaces": ["ml"]},
        }
        self.datasets({})

    def datasets(self, datasets: dict[str, Any]) -> None:
        """Makes these the datasets of the config file."""
        text = json.dumps({"catalogs": {"default": self._catalog}, "datasets": datasets})
        (self.folder / "penstock.yaml").write_text(text)

    def penstock(self, *command: str) -> str:
        """What a command prints."""
        found = subprocess.run(
            [BINARY, *command, "--config", str(self.folder / "penstock.yaml")],
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert found.returncode == 0, f"penstock {' '.join(command)}: {found.stderr}"
        return found.stdout

    def stage(self, table: str, rows: pa.Table, *flags: str) -> Row:
        """The result of penstock stage with rows, which may repeat keys and be fewer than those that they replace."""
        file = self.folder / f"rows-{len(self.sources)}.parquet"
        pq.write_table(rows, file)
        self.sources.append(file)
        allowed = ("--allow-duplicates", "--allow-shrink", "--again")
        result: Row = json.loads(self.penstock("stage", table, str(file), "--json", *allowed, *flags))
        return result

    def sql(self, text: str) -> list[Row]:
        """The rows of a statement in Spark."""
        return [row.asDict() for row in self.spark.sql(text).collect()]

    def call(self, procedure: str, arguments: str) -> list[Row]:
        """The result of one of Iceberg's procedures."""
        return self.sql(f"CALL default.system.{procedure}({arguments})")

    def clean(self, table: str) -> None:
        """Has Spark expire all snapshots but the last, and remove all files that the table does not need."""
        left = self.folder / "warehouse" / Path(*table.split(".")) / "data" / "left.parquet"
        left.touch()
        past = time.time() - 3 * 24 * 3600
        for file in (self.folder / "warehouse").rglob("*"):
            if file.is_file():
                os.utime(file, (past, past))
        now = datetime.datetime.now(datetime.UTC)
        old, soon = now - datetime.timedelta(hours=25), now + datetime.timedelta(minutes=1)
        self.call("expire_snapshots", f"table => '{table}', older_than => {_literal(soon)}, retain_last => 1")
        self.call("remove_orphan_files", f"table => '{table}', older_than => {_literal(old)}")
        assert not left.exists()

    def in_spark(self, table: str, where: str = "", columns: str = "*") -> Rows:
        """Spark's rows."""
        text = f"SELECT {columns} FROM default.{table}" + (f" WHERE {where}" if where else "")
        return plain_rows(self.spark.sql(text).toArrow())

    def elsewhere(
        self, table: str, filters: list[tuple[str, str]], sources: list[Path] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of filters, as read_elsewhere.py reads them."""
        wishes = [{"pyiceberg": one, "duckdb": other} for one, other in filters]
        found = subprocess.run(
            [PYTHON, str(_WORLDS / "read_elsewhere.py"), str(self.folder), table, *map(str, sources or [])],
            input=json.dumps(wishes),
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert found.returncode == 0, found.stderr
        read: list[dict[str, Any]] = json.loads(found.stdout)
        return read

    def in_penstock(self, table: str) -> Rows:
        """The product's rows, of a table that it reads as training table."""
        self.datasets({"all": {"training": {"table": table}, "key": ["item"]}})
        output = self.folder / "read.arrow"
        self.penstock("cat", "all", "--format", "arrow", "--output", str(output))
        with pa.ipc.open_file(output) as file:
            return plain_rows(file.read_all())

    def by_pyiceberg(self, rows: Rows) -> Rows:
        """Rows as PyIceberg gives them, which reads null lists of structs as empty (its issue 3833)."""
        empty = {at: [] for at in self.lists_of_structs}  # type: dict[int, list[Any]]
        return [[empty.get(i, v) if v is None else v for i, v in enumerate(row)] for row in rows]

    def check(self, table: str, want: Rows) -> None:
        """Sees that all four read these rows, in any order."""
        assert want
        read = self.elsewhere(table, [("", "")])[0]
        same(self.in_spark(table), want, "Spark")
        same(read["pyiceberg"], self.by_pyiceberg(want), "PyIceberg")
        assert read["count"] == len(want)
        if read["duckdb"] is not None:
            same(read["duckdb"], want, "DuckDB")
        same(self.in_penstock(table), want, "Penstock")


def _literal(at: datetime.datetime) -> str:
    return f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S}'"


def same(got: Rows, want: Rows, what: str) -> None:
    """Sees that rows are the same, each as often, in any order."""
    found, wanted = (sorted(rows, key=json.dumps) for rows in (got, want))
    for one, other in zip(found, wanted, strict=False):
        assert one == other, f"{what}: {one} is not {other}"
    assert len(found) == len(wanted), what


def exchanges(plan: str) -> list[str]:
    """The nodes of a physical plan that shuffle rows."""
    return re.findall(r"^[\s:+|-]*(?:\(\d+\) )?((?:\w+ )?\w*Exchange\b.*)$", plan, re.MULTILINE)
