"""Random stages of what real programs send, and what PyIceberg, DuckDB and pyarrow then read.

stage_worlds.py FOLDER SEED STAGES [TENTH]

The rows that a table must have are computed from what was sent, by pyarrow and the model in this file alone.
With a folder TENTH, about each tenth stage leaves the rows of its snapshot there, for Spark.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import stage_statistics
from iceberg_types import column_type
from plain import Plain, plain
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo, IsNull, Reference
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform
from pyiceberg.types import NestedField
from read_elsewhere import Elsewhere, path
from stage_columns import FLAT, Kind, build, draw_form, draw_kind
from stage_lake import Lake, Report
from stage_rows import FOREIGN, Refusal, appended, emptied, fits_parquet, given, in_parquet, same, spelled
from stage_ways import Options, RefusedError

_BUCKETED = (
    "int",
    "long",
    "decimal(9,2)",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "uuid",
    "binary",
)
# How much of a time's ISO form a partition has.
_PREFIX = {"year": 4, "month": 7, "day": 10, "hour": 13}
_ROWS = [(1, 8), (8, 200), (200, 3_000), (20_000, 100_001)]
_COLUMNS = 7
_OF_SPARK = 5  # of that many stages that Spark can read, one is left for it: about a tenth of all

Row = dict[str, Plain]


class World:
    """A table, and the rows that it must have."""

    def __init__(self, lake: Lake, draw: np.random.Generator, number: int) -> None:
        self._lake, self._draw = lake, draw
        self.name = f"ml.t{number}"
        self._kinds: dict[str, Kind] = {"n": FLAT["long"]}
        self._rows: dict[int, Row] = {}
        self._places: dict[int, tuple[Plain, ...]] = {}
        self._next = 0
        self._key = self._column(FLAT[str(draw.choice(_BUCKETED))])
        self._fields: list[tuple[str, str]] = []  # transforms and columns, in front of the buckets
        for _ in range(draw.integers(0, 3)):
            self._partition()
        for _ in range(draw.integers(1, _COLUMNS)):
            self._column(draw_kind(draw))
        self._coarse = [(t, c) for t, c in self._fields if not t.startswith("truncate")]
        self._exists = False
        self._seen: set[int] = set()
        self._files: dict[str, list[Row]] = {}
        if draw.random() < 0.5:
            self._create()

    def _column(self, kind: Kind) -> str:
        name = f"c{len(self._kinds)}"
        self._kinds[name] = kind
        return name

    def _partition(self) -> None:
        """Adds a partition field, of a new column. Two of one length are refused: stage-83."""
        lengths = ("decimal", "uuid", "fixed")
        has = any(self._kinds[c].name.startswith(lengths) for _, c in self._fields)
        kinds = [k for k in FLAT if not (has and k.startswith(lengths))]
        kind = str(self._draw.choice(kinds))
        transforms = ["identity"]
        if kind in ("date", "timestamp", "timestamptz"):
            transforms = [t for t in _PREFIX if t != "hour" or kind != "date"]
        elif kind in ("int", "long", "string", "binary"):
            transforms.append("truncate[2]")
        self._fields.append((str(self._draw.choice(transforms)), self._column(FLAT[kind])))

    def _create(self) -> None:
        """Has PyIceberg create the table."""
        draw, names = self._draw, list(self._kinds)
        draw.shuffle(names)
        schema = Schema(
            *[
                NestedField(
                    i, n, column_type(self._kinds[n].name), required=n == "n" and bool(draw.random() < 0.5)
                )
                for i, n in enumerate(names, 1)
            ]
        )
        buckets = f"bucket[{draw.integers(1, 4)}]"
        fields = [*self._fields, *([(buckets, self._key)] if draw.random() < 0.8 or not self._fields else [])]
        spec = PartitionSpec(
            *[
                PartitionField(
                    schema.find_field(c).field_id,
                    1000 + i,
                    parse_transform(t),
                    c if t == "identity" else f"{c}_p",
                )
                for i, (t, c) in enumerate(fields)
            ]
        )
        version = str(draw.choice(["1", "2"]))
        self._lake.catalog.create_table(
            self.name, schema, partition_spec=spec, properties={"format-version": version}
        )
        self._exists = True

    def _table(self) -> Table:
        return self._lake.catalog.load_table(self.name)

    # ---- what is sent

    def _sizes(self) -> list[int]:
        """The rows of each chunk."""
        low, high = _ROWS[self._draw.choice(4, p=[0.38, 0.45, 0.162, 0.008])]
        rows = int(self._draw.integers(low, high))
        if rows > 10_000:
            return [10_000] * (rows // 10_000) + [rows % 10_000]
        cuts = np.sort(self._draw.integers(0, rows + 1, self._draw.integers(0, 5)))
        return [int(n) for n in np.diff([0, *cuts, rows])]

    def _input(self, names: list[str], kinds: dict[str, Kind], *, in_files: bool) -> pa.Table:
        """New rows with some of the columns, in random forms."""
        draw = self._draw
        few = {c for _, c in self._fields}
        types = {n: draw_form(draw, kinds[n].arrow, widened=self._exists and n in self._kinds) for n in names}
        types["n"] = pa.int64()
        if in_files:
            types = {n: of if in_parquet(of) else kinds[n].arrow for n, of in types.items()}
        nulls = dict.fromkeys([*few, self._key], 0.1)
        batches = []
        for count in self._sizes():
            columns = []
            for name in names:
                if name == "n":
                    numbers = draw.permutation(np.arange(self._next, self._next + count))
                    columns.append(pa.array(numbers, pa.int64()))
                else:
                    columns.append(build(draw, types[name], count, 2 if name in few else 0, nulls.get(name)))
            self._next += count
            batches.append(
                pa.RecordBatch.from_arrays(columns, schema=pa.schema([(n, types[n]) for n in names]))
            )
        return pa.Table.from_batches(batches)

    def _take(self, rows: pa.Table, kinds: dict[str, Kind], *, replace: bool, beside: bool = False) -> None:
        """Makes rows part of the table that must be."""
        names = rows.column_names
        columns = [[plain(v, c.type) for v in c.to_pylist()] for c in rows.columns]
        if beside:
            columns = self._written_beside(names, columns, [c.type for c in rows.columns])
        self._kinds = kinds
        new: dict[int, Row] = {}
        for values in zip(*columns, strict=True):
            row = dict(zip(names, values, strict=True))
            new[row["n"]] = row
        places = {n: self._place(row) for n, row in new.items()}
        if replace:
            touched = set(places.values())
            gone = [n for n, at in self._places.items() if at in touched]
            for n in gone:
                del self._rows[n], self._places[n]
        self._rows |= new
        self._places |= places

    def _place(self, row: Row) -> tuple[Plain, ...]:
        """The partition of a row, whatever its bucket."""
        out = []
        for transform, column in self._coarse:
            value = row.get(column)
            out.append(value[: _PREFIX[transform]] if value is not None and transform in _PREFIX else value)
        return tuple(out)

    # ---- a stage

    def stage(self) -> None:
        """Makes a random stage, and sees what came of it."""
        draw, report = self._draw, self._lake.report
        names = [
            n for n in self._kinds if n == "n" or not self._exists or n == self._key or draw.random() < 0.7
        ]
        kinds, options = dict(self._kinds), self._options()
        options |= {"allow_duplicates": True, "allow_shrink": True, "again": True}  # the rows are drawn
        if options.get("evolve"):
            for _ in range(draw.integers(0, 3)):
                names.append(f"c{len(kinds)}")
                kinds[names[-1]] = draw_kind(draw)
        draw.shuffle(names)
        way = str(draw.choice(["client", "flight", "file"], p=[0.45, 0.35, 0.2]))
        rows = self._input(names, kinds, in_files=way == "file")
        rows, refusal = self._spoiled(rows, options)
        # Files have lists of texts of a fixed length as lists, which are not refused.
        typed = refusal is not None and refusal.sentence == "stage-21"
        if way == "file" and (typed or not fits_parquet(rows)):
            way = "flight"
        report.stages += 1
        report.ways[way] += 1
        beside: dict[int, pa.Table] = {}
        meanwhile = (
            (lambda: self._beside(beside)) if self._exists and draw.random() < 0.15 else (lambda: None)
        )
        try:
            snapshot = getattr(self._lake.ways, f"by_{way}")(draw, self.name, rows, options, meanwhile)
        except RefusedError as why:
            if refusal is None or refusal.text not in str(why):
                raise AssertionError(f"refused, where this is to be: {refusal}") from why
            report.refused[refusal.sentence] += 1
            snapshot = 0
        else:
            assert refusal is None, f"not refused: {refusal}"
            assert bool(snapshot) == (rows.num_rows > 0), "rows without a snapshot"
        if snapshot or self._exists:
            self._exists = True
            self._check(snapshot, rows, kinds, beside, replace=options.get("mode") == "replace")

    def _options(self) -> Options:
        draw = self._draw
        if not self._exists:
            options: Options = {"key": [self._key], "buckets": int(draw.integers(1, 4))}
            fields = [c if t == "identity" else spelled(t, c) for t, c in self._fields]
            if fields:
                options["partition"] = fields
            if draw.random() < 0.3:
                options["sort"] = ["n desc"]
            return options
        options = {}
        if draw.random() < 0.3 and self._coarse:
            options["mode"] = "replace"
        if draw.random() < 0.3:
            options["evolve"] = True
        return options

    def _spoiled(self, rows: pa.Table, options: Options) -> tuple[pa.Table, Refusal | None]:
        """For some stages, makes them such as must be refused."""
        draw = self._draw
        if rows.num_rows == 0 or draw.random() > 0.12:
            return rows, None
        kind = str(draw.choice(["type", "column", "other", "replace"]))
        many = pa.array(np.arange(rows.num_rows))
        if kind == "column" and self._exists and not options.get("evolve"):
            return rows.append_column("unknown", many), Refusal("stage-34", "unknown")
        if kind == "other" and self._exists and self._kinds[self._key].name not in ("int", "long"):
            at = rows.column_names.index(self._key)
            return rows.set_column(at, self._key, many), Refusal("stage-34", f'column "{self._key}"')
        if kind == "replace" and self._exists and not self._coarse:
            options["mode"] = "replace"
            return rows, Refusal("stage-37", "only buckets")
        if kind != "type":
            return rows, None
        if self._exists:
            options["evolve"] = True
        foreign = FOREIGN[draw.integers(len(FOREIGN))]
        chunk = pa.concat_arrays([foreign] * (rows.num_rows // len(foreign) + 1)).slice(0, rows.num_rows)
        return rows.append_column("foreign", chunk), Refusal("stage-21", "foreign")

    def _beside(self, beside: dict[int, pa.Table]) -> None:
        """Has PyIceberg append rows, while a stage is under way."""
        if any("uuid" in k.name and k.name != "uuid" for k in self._kinds.values()):
            return  # pyarrow makes no arrays of nested uuids
        table = self._table()
        arrow = appended(table.schema())
        few = {c for _, c in self._fields}
        count = int(self._draw.integers(1, 30))
        columns = [pa.array(range(self._next, self._next + count), pa.int64())]
        for f in arrow:
            if f.name != "n":
                made = build(self._draw, self._kinds[f.name].arrow, count, 2 if f.name in few else 0, 0.1)
                columns.append(pa.array(given(made), f.type))
        names = ["n", *(f.name for f in arrow if f.name != "n")]
        self._next += count
        rows = pa.Table.from_arrays(columns, schema=pa.schema([arrow.field(name) for name in names]))
        before = {s.snapshot_id for s in table.snapshots()}
        try:
            table.append(rows)
        except CommitFailedException:
            self._lake.report.beside["conflict"] += 1
            return
        except Exception as why:
            self._lake.report.beside[
                f"PyIceberg does not write it: {type(why).__name__}: {str(why)[:80]}"
            ] += 1
            return
        self._lake.report.beside["appended"] += 1
        added = {s.snapshot_id for s in self._table().snapshots()} - before
        beside.update(dict.fromkeys(added, rows))

    # ---- what is read

    def _check(
        self,
        staged: int,
        rows: pa.Table,
        kinds: dict[str, Kind],
        beside: dict[int, pa.Table],
        *,
        replace: bool,
    ) -> None:
        table = self._table()
        line, at = [], table.current_snapshot()
        while at is not None and at.snapshot_id not in self._seen:
            line.append(at.snapshot_id)
            at = table.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
        for snapshot in reversed(line):
            self._seen.add(snapshot)
            if snapshot == staged:
                self._take(rows, kinds, replace=replace)
                self._lake.report.rows += rows.num_rows
            elif snapshot in beside:
                self._take(beside[snapshot], self._kinds, replace=False, beside=True)
            else:
                assert set(line) - {staged} <= set(beside) | {snapshot}, "a snapshot of an unknown writer"
                self._take(next(iter(beside.values())), self._kinds, replace=False, beside=True)
        assert not staged or staged in self._seen, "the snapshot is not of main"
        if staged:
            self._read(table, staged)

    def _read(self, table: Table, staged: int) -> None:
        report, names = self._lake.report, [f.name for f in table.schema().fields]
        elsewhere = Elsewhere(self._lake.folder, self.name)
        read = elsewhere.read({"pyiceberg": "", "duckdb": ""})
        elsewhere.close()
        want = [[row.get(n) for n in names] for _, row in sorted(self._rows.items())]
        at = names.index("n")
        kinds = {n: self._kinds[n] for n in names}
        types = [kind.arrow for kind in kinds.values()]
        assert sorted(names) == sorted(self._kinds), f"columns {names}"
        assert read["count"] == len(want), f"{read['count']} rows, not {len(want)}"
        lenient = [[emptied(v, t) for v, t in zip(row, types, strict=True)] for row in want]
        got = [[emptied(v, t) for v, t in zip(row, types, strict=True)] for row in read["pyiceberg"]]
        same(got, lenient, at, kinds, "PyIceberg")
        assert read["duckdb"] is not None, "there are delete files"
        same(read["duckdb"], want, at, kinds, "DuckDB")
        stored = [self._stored(table, task.file) for task in table.scan().plan_files()]
        same([[row.get(n) for n in names] for rows in stored for row in rows], want, at, kinds, "pyarrow")
        report.reads += 3
        self._filter(table)
        if self._lake.tenth is not None and self._spark_reads():
            self._lake.for_spark += 1
            if self._lake.for_spark % _OF_SPARK == 0:
                text = json.dumps({"table": self.name, "snapshot": staged, "columns": names, "rows": want})
                (self._lake.tenth / f"{self.name}-{staged}.json").write_text(text)

    def _written_beside(
        self, names: list[str], columns: list[list[Plain]], types: list[pa.DataType]
    ) -> list[list[Plain]]:
        """The values of PyIceberg's rows as its files have them, where some nulls have become empty lists and maps."""
        files = [task.file for task in self._table().scan().plan_files()]
        files = [f for f in files if not f.file_path.rpartition("/")[2].startswith("penstock-")]
        stored = {row["n"]: row for f in files for row in self._stored(self._table(), f)}
        written: list[list[Plain]] = []
        for name, of, column in zip(names, types, columns, strict=True):
            now = [
                stored[n].get(name) if n in stored else v
                for n, v in zip(columns[names.index("n")], column, strict=True)
            ]
            assert [emptied(v, of) for v in now] == [emptied(v, of) for v in column], (
                f"{name} as PyIceberg wrote it"
            )
            written.append(now)
        return written

    def _spark_reads(self) -> bool:
        """Whether Spark reads such a table: it has no times of day, and no partitions of bytes of a fixed length."""
        times = any("time" in k.name.replace("timestamp", "") for k in self._kinds.values())
        return not times and not any(self._kinds[c].name.startswith("fixed") for _, c in self._fields)

    def _stored(self, table: Table, file: DataFile) -> list[Row]:
        """The rows of a data file, whose statistics are looked at once."""
        known = self._files.get(file.file_path)
        if known is None:
            read = pq.read_table(path(file.file_path))
            columns = [[plain(v, c.type) for v in c.to_pylist()] for c in read.columns]
            known = [dict(zip(read.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
            self._files[file.file_path] = known
            if file.file_path.rpartition("/")[2].startswith("penstock-") and file.record_count < 5_000:
                stage_statistics.check(table.schema(), file)
                self._lake.report.files += 1
        return known

    def _filter(self, table: Table) -> None:
        """Reads the rows of one value, so that bounds prune."""
        names = [n for n, k in self._kinds.items() if k.name in ("int", "long", "string") and n != "n"]
        if not names or not self._rows:
            return
        name = str(self._draw.choice(names))
        value = list(self._rows.values())[self._draw.integers(len(self._rows))].get(name)
        term = Reference(name)
        where = IsNull(term=term) if value is None else EqualTo(term=term, value=value)
        found = table.scan(row_filter=where, selected_fields=("n",)).to_arrow()["n"].to_pylist()
        want = sorted(n for n, row in self._rows.items() if row.get(name) == value)
        assert sorted(found) == want, f"rows of {where}: {len(found)}, not {len(want)}"
        self._lake.report.filters += 1


def run(folder: Path, seed: int, stages: int, tenth: Path | None = None) -> Report:
    """Makes random stages; each table has a few of them."""
    lake = Lake(folder, tenth)
    try:
        number = 0
        while lake.report.stages < stages:
            draw = np.random.default_rng([seed, number])
            try:
                world = World(lake, draw, number)
                for _ in range(draw.integers(2, 7)):
                    world.stage()
            except Exception:
                lake.report.wrong.append(f"seed {seed}, table {number}: {traceback.format_exc(limit=-3)}")
                lake.report.stages += 1
            number += 1
    finally:
        lake.close()
    return lake.report


def main() -> None:
    """Prints the report."""
    tenth = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    report = run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), tenth)
    print(json.dumps(report.__dict__, indent=1))
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
