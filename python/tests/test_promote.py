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
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType
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
            "features.history",
            {"key": LongType(), "history": LONGS, "country": StringType()},
            ("key", 8),
            self.features,
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

    def forbid(self) -> Tables:
        """Allows no writes."""
        self.allow("other")
        return self

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


# spec: promote-1, promote-3, promote-5, promote-8
def test_promoted_columns_are_those_of_the_join(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    before, history = pages(tables.training), len(tables.training.snapshots())
    got = tables.promote()
    assert got["rows"] == 600
    assert got["files"] == len(before)
    assert got["rows_compared"] == 600
    now = tables.reload()
    assert [f.name for f in now.schema().fields] == ["row", "key", "score", "history", "country"]
    assert tables.read() == join(tables.rows, tables.features, ("key", "key"))
    assert pages(now) == before
    made = [s.summary for s in now.snapshots()[history:]]
    assert made
    assert all(s is not None and s.operation.value == "replace" for s in made)
    again = tables.promote()
    assert again["existed"]
    assert len(tables.reload().snapshots()) == len(now.snapshots())


# spec: promote-12
def test_demoted_columns_are_gone_and_come_back(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.promote()
    want = tables.read()
    assert "has no columns history, country any more" in tables.run("demote", "ml.rows", "country", "--yes")
    assert tables.read() == tables.rows
    extra = {"row": 1000, "key": 2, "score": 0.5}
    tables.reload().append(pa.Table.from_pylist([extra], tables.reload().schema().as_arrow()))
    again = tables.promote()
    assert again["continued"]
    assert again["rows"] == 1
    assert tables.read() == want + join([extra], tables.features, ("key", "key"))


# spec: promote-13
def test_overlaid_columns_are_swapped_and_swapped_back(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    scores = [
        {"key": r["key"], "fixed": None if r["key"] == 4 else -r["key"] / 2, "history": [1]}
        for r in tables.features[:-1]
    ]
    tables.lake.write(
        "features.scores", {"key": LongType(), "fixed": DoubleType(), "history": LONGS}, ("key", 2), scores
    )
    entry = {
        "table": "features.scores",
        "join": "overlay",
        "columns": [{"column": "fixed", "name": "score"}, "history"],
    }
    tables.config = tables.lake.config(
        {"home": {"training": {"table": "ml.rows"}, "key": ["key"], "staging": [entry]}}
    )
    tables.allow("ml")
    got = json.loads(tables.run("promote", "home", "scores", "--json"))
    assert got["columns"][0]["old"] == "score__before_promotion"
    fixed = {r["key"]: r for r in scores}
    want = [
        {
            "row": r["row"],
            "key": r["key"],
            "score__before_promotion": r["score"],
            "score": fixed[r["key"]]["fixed"] if r["key"] in fixed else r["score"],
            "history": [1] if r["key"] in fixed else None,
        }
        for r in tables.rows
    ]
    assert tables.read() == want
    assert "names again: score" in tables.run("demote", "ml.rows", "score", "--yes")
    assert tables.read() == tables.rows


# spec: promote-1, promote-4
@pytest.mark.parametrize("version", ["1", "2"])
def test_files_of_several_specs_and_schemas_are_promoted(tmp_path: Path, version: str) -> None:
    tables = Tables(tmp_path)
    tables.lake.catalog.drop_table("ml.rows")
    schema = Schema(
        NestedField(1, "row", LongType()),
        NestedField(2, "key", LongType()),
        NestedField(3, "gone", StringType()),
    )
    table = tables.lake.catalog.create_table("ml.rows", schema, properties={"format-version": version})

    def append(rows: list[Row]) -> None:
        table.append(pa.Table.from_pylist(rows, schema_to_pyarrow(table.schema())))

    append([{"row": i, "key": i, "gone": "x"} for i in range(10)])
    with table.update_spec() as spec:
        spec.add_field("key", BucketTransform(4), "by_key")
    append([{"row": i, "key": i - 10, "gone": "y"} for i in range(10, 40)])
    with table.update_schema() as update:
        update.delete_column("gone")
        update.rename_column("row", "number")
        update.add_column("extra", StringType())
    with table.update_spec() as spec:
        spec.add_identity("extra")
    append([{"number": i, "key": i, "extra": f"e{i % 2}"} for i in range(40, 60)])
    rows = tables.reload().scan().to_arrow().sort_by("number").to_pylist()
    assert len(rows) == 60
    history = tables.features
    got = tables.promote()
    assert got["rows"] == 60
    assert got["rows_compared"] == 60
    now = tables.reload().scan().to_arrow().sort_by("number").to_pylist()
    assert now == join(rows, history, ("key", "key"))
    files = tables.reload().inspect.files().to_pylist()
    assert {f["spec_id"] for f in files} == {0, 1, 2}
    swiss = tables.reload().scan(row_filter="country == 'c2'").to_arrow().sort_by("number").to_pylist()
    assert swiss == [r for r in now if r["country"] == "c2"]


# spec: promote-14
def test_files_without_field_ids_get_those_of_the_name_mapping(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.lake.catalog.drop_table("ml.rows")
    schema = Schema(
        NestedField(1, "row", LongType()),
        NestedField(2, "key", LongType()),
        NestedField(3, "tags", ListType(4, StringType(), element_required=False)),
        NestedField(
            5, "place", StructType(NestedField(6, "x", LongType()), NestedField(7, "y", DoubleType()))
        ),
    )
    table = tables.lake.catalog.create_table("ml.rows", schema)
    rows = [
        {"row": i, "key": i, "tags": None if i % 3 else [f"t{i}", None], "place": {"x": i, "y": i / 2}}
        for i in range(50)
    ]
    plain = pa.schema(
        {
            "row": pa.int64(),
            "key": pa.int64(),
            "tags": pa.list_(pa.string()),
            "place": pa.struct({"x": pa.int64(), "y": pa.float64()}),
        }
    )
    path = Path(table.location().removeprefix("file://")) / "data" / "plain.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, plain), path)
    table.add_files([str(path)])
    assert tables.promote()["rows_compared"] == 50
    assert tables.read() == join(rows, tables.features, ("key", "key"))
    file = next(iter(tables.reload().scan().plan_files())).file.file_path.removeprefix("file://")
    stored = pq.read_schema(file)
    want = schema_to_pyarrow(tables.reload().schema())
    for given, known in [
        (stored.field("tags"), want.field("tags")),
        (stored.field("tags").type.value_field, want.field("tags").type.value_field),
        (stored.field("place").type.field("y"), want.field("place").type.field("y")),
    ]:
        assert given.metadata[b"PARQUET:field_id"] == known.metadata[b"PARQUET:field_id"]


# spec: promote-5
def test_readers_of_new_rows_see_none(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    since = tables.training.current_snapshot()
    assert since is not None
    tables.promote()
    query = {"dataset": {"training": {"table": "ml.rows"}}, "since": str(since.snapshot_id)}
    assert tables.run("cat", "--query", json.dumps(query), "--format", "jsonl") == ""


# spec: promote-2, promote-11
def test_entries_that_do_not_keep_each_row_are_refused(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"join": "inner"}, "drops training rows"),
        ({"join": "semi"}, "drops training rows"),
        ({"duplicates": "all"}, "repeats training rows"),
        ({"missing": "error"}, "missing"),
        ({"min_match": 0.99}, "min_match"),
    ]
    for entry, why in refused:
        tables = Tables(tmp_path / str(why.replace(" ", "")) / entry.get("join", "x"), entry)
        before = tables.reload().metadata_location
        errors = tables.run("promote", "home", "history", fails=True)
        assert why in errors
        now = tables.reload()
        if "join" in entry or "duplicates" in entry:
            assert now.metadata_location == before
        assert [f.name for f in now.schema().fields] == ["row", "key", "score"]
    assert "writes" in Tables(tmp_path / "forbidden").forbid().run("promote", "home", "history", fails=True)


# spec: promote-15
def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    before = tables.reload().metadata_location, sorted(tmp_path.rglob("*.parquet"))
    got = tables.promote("--dry-run")
    assert got["rows"] == 600
    assert got["bytes_written"] > got["bytes_copied"] > 0
    assert got["estimate"]["staging_bytes_per_epoch"] > 0
    assert before == (tables.reload().metadata_location, sorted(tmp_path.rglob("*.parquet")))
