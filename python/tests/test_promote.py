"""Promoted columns beside the join by definition, as PyIceberg reads them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake import Lake, Row, join
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, ListType, LongType, StringType
from server import BINARY

LONGS = ListType(element_id=900, element_type=LongType(), element_required=False)


class Tables:
    """A training table, a table of features, and the command line."""

    def __init__(self, folder: Path, entry: dict[str, Any] | None = None) -> None:
        self.lake = Lake(folder / "lake")
        self.rows: list[Row] = [
            {"row": i, "key": None if i % 50 == 7 else i // 3, "score": i / 4} for i in range(600)
        ]
        self.features: list[Row] = [
            {"key": k, "history": None if k % 9 == 0 else list(range(k % 5)), "country": f"c{k % 7}"}
            for k in range(0, 200, 2)
        ] + [{"key": None, "history": [1], "country": "null"}]
        self.training = self.lake.write(
            "ml.rows", {"row": LongType(), "key": LongType(), "score": DoubleType()}, ("key", 4), self.rows, 3
        ).table
        self.staging = self.lake.write(
            "features.history", {"key": LongType(), "history": LONGS, "country": StringType()}, ("key", 8), self.features
        ).table
        entry = {"table": "features.history", **(entry or {})}
        self.config = self.lake.config(
            {"home": {"training": {"table": "ml.rows"}, "key": ["key"], "staging": [entry]}}
        )
        self.allow("ml")

    def allow(self, *namespaces: str) -> None:
        """Allows the command line to write."""
        config = json.loads(self.config.read_text())
        config["catalogs"]["default"]["writes"] = {"namespaces": list(namespaces)}
        self.config.write_text(json.dumps(config))

    def run(self, *args: str, fails: bool = False) -> str:
        """Runs a command; returns its output, or its errors if it must fail."""
        command = [str(BINARY), *args, "--config", str(self.config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    def promote(self, *args: str) -> dict[str, Any]:
        """Promotes the entry."""
        result: dict[str, Any] = json.loads(self.run("promote", "home", "history", "--json", *args))
        return result

    def reload(self) -> Table:
        """The training table as it is now."""
        return self.lake.catalog.load_table("ml.rows")

    def read(self) -> list[Row]:
        """The rows of the training table as PyIceberg reads them."""
        found: list[Row] = self.reload().scan().to_arrow().sort_by("row").to_pylist()
        return found


def pages(table: Table) -> dict[str, list[bytes]]:
    """The stored pages of the table's first three columns, by the rows in them."""
    out: dict[str, list[bytes]] = {}
    for task in table.scan().plan_files():
        path = Path(task.file.file_path.removeprefix("file://"))
        content, meta = path.read_bytes(), pq.ParquetFile(path).metadata
        chunks = []
        for g in range(meta.num_row_groups):
            for c in range(3):
                column = meta.row_group(g).column(c)
                begin = min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
                chunks.append(content[begin : begin + column.total_compressed_size])
        key = pq.read_table(path, columns=["row"])["row"].to_pylist()
        out[str(key)] = chunks
    return out


def test_promoted_columns_are_those_of_the_join(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    before, history = pages(tables.training), len(tables.training.snapshots())
    got = tables.promote()
    assert got["rows"] == 600 and got["files"] == len(before) and got["rows_compared"] == 600
    now = tables.reload()
    assert [f.name for f in now.schema().fields] == ["row", "key", "score", "history", "country"]
    assert tables.read() == join(tables.rows, tables.features, ("key", "key"))
    assert pages(now) == before
    made = [s.summary for s in now.snapshots()[history:]]
    assert made and all(s is not None and s.operation.value == "replace" for s in made)
    again = tables.promote()
    assert again["existed"] and len(tables.reload().snapshots()) == len(now.snapshots())


def test_demoted_columns_are_gone_and_come_back(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.promote()
    want = tables.read()
    assert "has no columns history, country any more" in tables.run("demote", "ml.rows", "country")
    assert tables.read() == tables.rows
    extra = {"row": 1000, "key": 2, "score": 0.5}
    tables.reload().append(pa.Table.from_pylist([extra], tables.reload().schema().as_arrow()))
    again = tables.promote()
    assert again["continued"] and again["rows"] == 1
    assert tables.read() == want + join([extra], tables.features, ("key", "key"))
