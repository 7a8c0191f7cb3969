"""Random tables that Spark and PyIceberg changed in every mode are promoted, restored and compacted: every engine reads the same rows after as before.

PENSTOCK_RANDOM_CHANGES is the number of tables, PENSTOCK_RANDOM_SEED the first seed. With several seeds, separated by commas, each
is the first one of as many tables.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from plain import plain_rows
from spark_session import attach
from staging import PYTHON, Lake, Rows, same

_COUNT = int(os.environ.get("PENSTOCK_RANDOM_CHANGES", "6"))
_FIRST = [int(seed) for seed in os.environ.get("PENSTOCK_RANDOM_SEED", "0").split(",")]
_FEATURES = "ml.features"
pytestmark = pytest.mark.timeout(300 + 60 * _COUNT * len(_FIRST))

_PYICEBERG = """
import sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
folder, table, verb, first = sys.argv[1:]
t = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse").load_table(table)
first = int(first)
schema = t.schema().as_arrow()
columns = {"item": range(first, first + 10), "k": [i % 30 for i in range(10)], "day": [20455] * 10, "v": ["python"] * 10}
arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(10, f.type) for f in schema]
rows = pa.Table.from_arrays(arrays, schema=schema)
if verb == "append":
    t.append(rows)
elif verb == "delete":
    t.delete("k = 7")
else:
    t.overwrite(rows, overwrite_filter="k = 11")
"""


class Changed:
    """A table that is changed at random."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.draw, self.seed = lake, random.Random(seed), seed
        self.version = 1 + seed % 3
        self.name = f"ml.t{seed}"
        self.next = 0
        self.done: list[str] = []
        mode = "copy-on-write" if self.version == 1 else self.draw.choice(["copy-on-write", "merge-on-read"])
        granularity = self.draw.choice(["file", "partition"])
        properties = {"format-version": str(self.version), "write.delete.granularity": granularity}
        properties |= {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        partition = self.draw.choice(["", "PARTITIONED BY (day)", "PARTITIONED BY (bucket(3, k))", "PARTITIONED BY (day, bucket(2, k))"])  # fmt: skip
        text = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.sql(
            f"CREATE TABLE {{t}} (item bigint, k bigint, day date, v string) USING iceberg {partition} TBLPROPERTIES ({text})"
        )
        self.partitioned, self.fields = bool(partition), 0
        self.done.append(f"v{self.version} {mode} {granularity} {partition}")
        for _ in range(2):
            self.append()

    def sql(self, text: str) -> list[dict[str, Any]]:
        return self.lake.sql(text.replace("{t}", f"default.{self.name}"))

    def append(self) -> None:
        """Rows whose keys are null, match a feature or none."""
        first, self.next = self.next, self.next + 40
        rows = f"id AS item, if(id % 9 = 0, NULL, id % 50) AS k, date'2026-01-01' + CAST(id % 2 AS int) AS day, 'first' AS v FROM range({first}, {self.next})"
        names = [row["col_name"] for row in self.sql("DESCRIBE TABLE {t}") if row["col_name"] == "extra"]
        self.sql(f"INSERT INTO {{t}} (item, k, day, v{', extra' * len(names)}) SELECT item, k, day, v{', 7' * len(names)} FROM (SELECT {rows})")  # fmt: skip

    def python(self, verb: str) -> None:
        """PyIceberg, which does not write tables of format version 3."""
        if self.version == 3:
            return self.append()
        first, self.next = self.next, self.next + 10
        found = subprocess.run(
            [PYTHON, "-c", _PYICEBERG, str(self.lake.folder), self.name, verb, str(first)],
            capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        return None

    def change(self, evolve: bool = True) -> None:
        """One change in a mode that is drawn."""
        key, first = self.draw.randrange(30), self.draw.randrange(60)
        changes: dict[str, Any] = {
            "append": self.append,
            "update": lambda: self.sql(f"UPDATE {{t}} SET v = 'updated' WHERE k = {key}"),
            "update many": lambda: self.sql("UPDATE {t} SET v = concat(v, '+') WHERE item % 3 = 1"),
            "delete": lambda: self.sql(f"DELETE FROM {{t}} WHERE item BETWEEN {first} AND {first + 5}"),
            "delete a day": lambda: self.sql("DELETE FROM {t} WHERE day = date'2026-01-02' AND k < 20"),
            "merge": lambda: self.sql(
                f"MERGE INTO {{t}} t USING (SELECT id FROM range({first}, {first + 12})) s ON t.item = s.id "
                f"WHEN MATCHED AND t.item % 2 = 0 THEN UPDATE SET v = 'merged' WHEN MATCHED AND t.item % 5 = 1 THEN DELETE"
            ),
            "overwrite": lambda: self.sql(
                "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE item % 7 <> 3 OR day IS NULL"
            ),
            "compaction": lambda: self.lake.call(
                "rewrite_data_files", f"table => '{self.name}', options => map('rewrite-all', 'true')"
            ),
            "manifests": lambda: self.lake.call("rewrite_manifests", f"table => '{self.name}'"),
            **{
                f"python {verb}": lambda verb=verb: self.python(verb)
                for verb in ("append", "delete", "overwrite")
            },
        }
        if evolve:
            changes |= {
                "add a column": self.add_column,
                "rename a column": self.rename_column,
                "add a field": self.add_field,
            }
        name = self.draw.choice(sorted(changes))
        self.done.append(name)
        changes[name]()

    def add_column(self) -> None:
        if not [row for row in self.sql("DESCRIBE TABLE {t}") if row["col_name"] == "extra"]:
            self.sql("ALTER TABLE {t} ADD COLUMN extra int")
            self.append()  # DuckDB finds columns by name: a file must have this one

    def rename_column(self) -> None:
        self.sql("ALTER TABLE {t} RENAME COLUMN v TO w")
        self.sql("ALTER TABLE {t} RENAME COLUMN w TO v")

    def add_field(self) -> None:
        self.fields += 1
        self.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD bucket({2 + self.fields}, item)")

    def rows(self, at: int = 0) -> Rows:
        """Spark's rows, with their lineage in tables of format version 3."""
        lineage = ", _row_id, _last_updated_sequence_number" if self.version == 3 else ""
        of = f" VERSION AS OF {at}" if at else ""
        return plain_rows(self.lake.spark.sql(f"SELECT *{lineage} FROM default.{self.name}{of}").toArrow())

    def snapshot(self) -> int:
        return int(self.sql("SELECT snapshot_id FROM {t}.refs WHERE name = 'main'")[0]["snapshot_id"])

    def bare(self, rows: Rows) -> Rows:
        """Rows without their lineage."""
        return [row[:-2] for row in rows] if self.version == 3 else rows

    def read(self, want: Rows, by_name: bool = True) -> None:
        """Sees that every engine reads the rows, and that no row id is given twice.

        DuckDB finds columns by name in read_elsewhere.py, where a file may still have an older column of the name.
        """
        rows = self.bare(want)
        if by_name:
            self.lake.check(self.name, rows)
        else:
            same(self.lake.elsewhere(self.name, [("", "")])[0]["pyiceberg"], rows, "PyIceberg")
            same(self.lake.in_penstock(self.name), rows, "Penstock")
        if self.version == 3:
            ids = [row[-2] for row in self.rows()]
            assert None not in ids
            assert len(set(ids)) == len(ids)


def promoted(t: Changed) -> None:
    """The rows are those from before, with the values of a join and the same lineage; demoted and promoted again."""
    before = t.rows()
    width = len(t.bare(before[:1])[0])
    values = {row[0]: row[1] for row in t.lake.in_spark(_FEATURES)}
    want = [
        [*row[:width], values.get(row[1]) if row[1] is not None else None, *row[width:]] for row in before
    ]
    config = {
        "d": {
            "training": {"table": t.name},
            "key": ["k"],
            "staging": [{"table": _FEATURES, "columns": ["f"]}],
        }
    }
    t.lake.datasets(config)
    t.lake.penstock("promote", "d", "features", "--dry-run")
    t.lake.penstock("promote", "d", "features")
    same(t.rows(), want, "Spark, with lineage")
    t.read(want)
    if t.draw.random() < 0.5:
        t.change(evolve=False)
        after = t.rows()
        t.lake.penstock("demote", t.name, "f", "--yes")
        t.lake.datasets(config)
        t.lake.penstock("promote", "d", "features")
        want = [
            [*row[:width], values.get(row[1]) if row[1] is not None else None, *row[width + 1 :]]
            for row in after
        ]
        same(t.rows(), want, "Spark, promoted again")
        t.read(want, by_name=False)


def restored(t: Changed) -> None:
    """The rows of a snapshot come back, with their ids."""
    then, want = t.snapshot(), t.rows()
    for _ in range(t.draw.randrange(1, 4)):
        t.change(evolve=False)
    t.lake.penstock("restore", t.name, "--snapshot", str(then), "--dry-run")
    t.lake.penstock("restore", t.name, "--snapshot", str(then))
    cut = (lambda rows: [row[:-1] for row in rows]) if t.version == 3 else (lambda rows: rows)
    same(cut(t.rows()), cut(want), "Spark, with ids")
    t.read(want)


def compacted(t: Changed) -> None:
    """The rows and their lineage stay, and a second call finds nothing to do."""
    want = t.rows()
    flags = ["--json"] + (["--any-order"] if t.draw.random() < 0.5 else ["--key", "k"])
    t.lake.datasets({})
    t.lake.penstock("compact", t.name, "--dry-run", *flags)
    t.lake.penstock("compact", t.name, *flags)
    same(t.rows(), want, "Spark, with lineage")
    t.read(want)
    again = json.loads(t.lake.penstock("compact", t.name, *flags))
    assert again["commits"] == 0, again


# spec: promote-1, promote-15, promote-17, compact-1, compact-5, compact-9, compact-20, compact-22
def test_rows_stay(jvm: Any, tmp_path: Path) -> None:
    spark = jvm.newSession()
    attach(spark, tmp_path, "default")
    spark.sql("CREATE NAMESPACE default.ml")
    lake = Lake(spark, tmp_path)
    features = pa.table({"k": pa.array(range(25), pa.int64()), "f": pa.array([f"f{i}" for i in range(25)])})
    lake.stage(_FEATURES, features, "--key", "k", "--buckets", "2")
    wrong: list[str] = []
    for seed in (first + i for first in _FIRST for i in range(_COUNT)):
        done: list[str] = []
        try:
            t = Changed(lake, seed)
            done = t.done
            for _ in range(t.draw.randrange(2, 5)):
                t.change()
            check = (promoted, restored, compacted, promoted)[seed // 3 % 4]
            done.append(check.__name__)
            if t.rows():
                check(t)
            t.sql("DROP TABLE {t}")
        except Exception as why:
            wrong.append(f"seed {seed}, {done}: {str(why)[:1500]}")
            print(wrong[-1], flush=True)
        print(f"{seed}: {done}", flush=True)
    assert not wrong, "\n\n".join(wrong)
