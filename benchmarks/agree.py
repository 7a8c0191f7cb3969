"""Runs the same queries in Penstock, with both wire forms, DuckDB and Polars, and compares every row.

    python benchmarks/agree.py [--full] [--scale 0.1] [--only WORDS] [--memory 96MiB] [--list]

One line per case: how many rows agree, or what differs. Exits with 1 if
anything differs, failed, or if the control is not caught: a peer's rows with
one altered value. Exits with 2 if it was called wrongly.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.flight as flight
import tables
import tpch
from agreement import multiset, of_layouts, of_rules, of_t
from agreement.case import PLACE, PLACED, Case
from inputs import Inputs
from running import Program, serving

from penstock import expand

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

_BATCH_ROWS = 65_536
# A batch may take an eighth of the budget: the usual size exceeds that of a small budget.
_FEW_ROWS = 256
_QUICK_SCALE, _FULL_SCALE = "0.01", "1"


class FailedError(Exception):
    """One of the three failed; the message is its own."""


@dataclasses.dataclass(frozen=True)
class Suite:
    """Cases over the tables of one catalog."""

    config: Path
    files: dict[str, list[str]]  # of each table, by path
    cases: list[Case]


def main() -> int:
    """Make the tables, run the queries, compare, and check that differences are detected."""
    given = _parse(sys.argv[1:])
    if not given.binary.exists():
        print("there is no bin/penstock: run `make build`", file=sys.stderr)
        return 2
    suites = _suites(given)
    if given.list:
        print(*(case.name for suite in suites for case in suite.cases), sep="\n")
        return 0
    compared = differing = spilled = 0
    for suite in suites:
        if not suite.cases:
            continue
        peers = Peers(suite.files)
        settings = (("memory", given.memory),) if given.memory else ()
        with serving(Program(given.binary, settings).command(suite.config, "127.0.0.1:0")) as server:
            penstock = Penstock(server.first, _FEW_ROWS if given.memory else 0)
            for case in suite.cases:
                found = compare(case, penstock, peers)
                compared, differing = compared + 1, differing + bool(found.lines)
                print(found, flush=True)
            control = control_is_caught(suite.cases[0], penstock, peers)
            differing += bool(control.lines)
            print(control, flush=True)
            spilled += penstock.spilled
    print(f"{compared} cases, {differing} differ; {spilled:,} bytes went through local disk")
    in_vain = given.memory and not spilled
    if in_vain:
        print(f"{given.memory} are enough for all: no staging table was spilled")
    return 1 if differing or not compared or in_vain else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Do Penstock, DuckDB and Polars give the same rows?")
    parser.add_argument("--full", action="store_true", help="TPC-H at scale 1 and the whole of T")
    parser.add_argument("--scale", help=f"TPC-H's scale factor ({_QUICK_SCALE}; full: {_FULL_SCALE})")
    parser.add_argument("--only", default="", help="cases whose name has these words")
    parser.add_argument("--memory", default="", help="the server's budget, as 96MiB: build sides then spill")
    parser.add_argument("--list", action="store_true", help="name the cases and ask nothing")
    parser.add_argument(
        "--binary", type=Path, default=os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock")
    )
    given = parser.parse_args(arguments)
    given.scale = given.scale or (_FULL_SCALE if given.full else _QUICK_SCALE)
    return given


def _suites(given: argparse.Namespace) -> list[Suite]:
    home = ROOT / ".bench"
    of_tpch = home / f"tpch-{given.scale}"
    bench = home / ("full" if given.full else "quick")
    chosen: list[list[Case]] = [
        [case for case in cases if given.only in case.name]
        for cases in (of_rules.cases() + of_layouts.cases(), of_t.cases())
    ]
    files = tpch.ensure(of_tpch, given.scale)
    tables.ensure(bench, tables.Sizes() if given.full else tables.QUICK)
    return [
        Suite(tables.config_path(of_tpch), files, chosen[0]),
        Suite(tables.config_path(bench), _files_of_t(bench), chosen[1]),
    ]


def _files_of_t(folder: Path) -> dict[str, list[str]]:
    files = {}
    for dataset in tables.DATASETS:
        inputs = Inputs.load(tables.inputs_path(folder, dataset))
        files[dataset] = inputs.training.files
        files["staging"] = inputs.staging.files
    return files


class Penstock:
    """A server, read by a plain Flight client; indexed batches are expanded."""

    def __init__(self, address: str, batch_rows: int) -> None:
        self._batch_rows = batch_rows  # 0: the server's default
        self._client = flight.FlightClient(f"grpc://{address}")
        self._client.wait_for_available(timeout=30)
        self.spilled = 0  # bytes that streams wrote to local disk so far

    def _asked(self, query: dict[str, Any]) -> dict[str, Any]:
        return {"batch_rows": self._batch_rows, **query} if self._batch_rows else query

    def schema(self, query: dict[str, Any]) -> pa.Schema:
        """The schema that the server planned."""
        try:
            return self._client.get_flight_info(_descriptor(self._asked(query))).schema
        except (flight.FlightError, pa.ArrowException) as failed:
            raise FailedError(_first_line(failed)) from None

    def read(self, query: dict[str, Any], wire: str = "plain") -> Iterator[pa.RecordBatch]:
        """Every row."""
        try:
            asked = self._asked({**query, "wire": wire})
            planned = self._client.get_flight_info(_descriptor(asked))
            for endpoint in planned.endpoints:
                for chunk in self._client.do_get(endpoint.ticket):
                    if chunk.data is not None:
                        yield expand(chunk.data)
                    elif chunk.app_metadata is not None:
                        report = json.loads(chunk.app_metadata.to_pybytes())["report"]
                        self.spilled += sum(one["spilled_bytes"] for one in report["staging"].values())
        except (flight.FlightError, pa.ArrowException) as failed:
            raise FailedError(_first_line(failed)) from None


def _descriptor(query: dict[str, Any]) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(json.dumps(query).encode())


def _first_line(failed: Exception) -> str:
    return str(failed).partition(". gRPC client debug context")[0]


class Peers:
    """DuckDB and Polars over the same data files."""

    def __init__(self, files: dict[str, list[str]]) -> None:
        self._files = files
        self._database = duckdb.connect()
        self._database.execute("SET preserve_insertion_order = false")
        for name, paths in files.items():
            source = "read_parquet([{}], hive_partitioning = false{})"
            quoted = ", ".join(f"'{path}'" for path in paths)
            view, placed = source.format(quoted, ""), source.format(quoted, ", filename = true")
            self._database.execute(f"CREATE VIEW {name} AS FROM {view}")
            order = "row_number() OVER (ORDER BY filename, file_row_number)"
            self._database.execute(
                f"CREATE VIEW {name}{PLACED} AS SELECT *, {order} AS {PLACE} FROM {placed}"
            )

    def duckdb(self, case: Case) -> Iterator[pa.RecordBatch]:
        """DuckDB's answer."""
        yield from self._database.cursor().sql(case.sql).to_arrow_reader(_BATCH_ROWS)

    def polars(self, case: Case, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Polars' answer, with columns in the order of the names."""
        joined = case.frame(self._frame).select(names)
        for frame in joined.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=False, engine="streaming"):
            # Arrow's ordinary types instead of views, which cannot be cast everywhere.
            yield from frame.to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks().to_batches()

    def schema(self, case: Case) -> pa.Schema:
        """The columns in DuckDB's form."""
        return self._database.sql(f"FROM ({case.sql}) LIMIT 0").to_arrow_table().schema

    def _frame(self, name: str) -> pl.LazyFrame:
        table = name.removesuffix(PLACED)
        place = PLACE if name != table else None
        return pl.scan_parquet(
            sorted(self._files[table]), hive_partitioning=False, glob=False, row_index_name=place
        )


@dataclasses.dataclass(frozen=True)
class Found:
    """The result of one case: the number of equal rows, or lines that describe differences."""

    name: str
    rows: int
    lines: list[str]
    word: str = "agrees"

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.word}: {self.rows:,} rows: {self.name}"
        return "\n  ".join([f"DIFFERS: {self.name}", *self.lines])


Answers = dict[str, Callable[[], Iterator[pa.RecordBatch]]]


def compare(case: Case, penstock: Penstock, peers: Peers) -> Found:
    """Run the query in all of them.

    Values are cast to the types of Penstock's schema. If Penstock refuses, the
    peers are compared all the same, so that a wrong case is not mistaken for that.
    """
    lines: list[str] = []
    try:
        schema = peers.schema(case)
        names = schema.names
        answers: Answers = {
            "DuckDB": lambda: peers.duckdb(case),
            "Polars": lambda: peers.polars(case, names),
        }
        pairs = [("DuckDB", "Polars")]
        try:
            schema = penstock.schema(case.query)
            answers["Penstock"] = lambda: penstock.read(case.query)
            answers["Penstock, indexed"] = lambda: penstock.read(case.query, "indexed")
            pairs = [("Penstock", "DuckDB"), ("Penstock", "Polars"), ("Penstock", "Penstock, indexed")]
            if schema.names != names:
                return Found(case.name, 0, [f"columns {schema.names} instead of {names}"])
        except FailedError as refused:
            lines.append(f"Penstock: {refused}")
        rows = {name: multiset.rows_of(schema, answer()) for name, answer in answers.items()}
    except (FailedError, multiset.DifferentColumnsError, duckdb.Error, pl.exceptions.PolarsError) as failed:
        return Found(case.name, 0, [*lines, f"{type(failed).__name__}: {failed}"])
    for one, other in pairs:
        if np.array_equal(rows[one], rows[other]):
            continue
        lines.append(f"{one} gave {len(rows[one]):,} rows, {other} {len(rows[other]):,}")
        for here, there in ((one, other), (other, one)):
            surplus = multiset.only_in(rows[here], rows[there])
            lines += multiset.describe(here, schema, answers[here], surplus) if surplus else []
    if len(rows["DuckDB"]) == 0:
        lines.append("no rows: the case says nothing")
    return Found(case.name, len(rows["DuckDB"]), lines)


def control_is_caught(case: Case, penstock: Penstock, peers: Peers) -> Found:
    """One altered value of each column in turn, a lost and a doubled row: each must be detected."""
    schema = penstock.schema(case.query)
    answer = pa.Table.from_batches(
        [multiset.conform(schema, batch) for batch in peers.duckdb(case)], schema=_nullable(schema)
    )
    ours = multiset.rows_of(schema, penstock.read(case.query))
    missed = []
    altered = {f"a value of {name}": _altered(answer, name) for name in schema.names}
    altered["a lost row"] = answer.slice(1)
    altered["a doubled row"] = pa.concat_tables([answer, answer.slice(answer.num_rows // 2, 1)])
    untouched = multiset.rows_of(schema, answer.to_batches())
    if not np.array_equal(ours, untouched):
        missed.append("the control's own rows differ")
    for what, rows in altered.items():
        if np.array_equal(ours, multiset.rows_of(schema, rows.to_batches())):
            missed.append(f"not seen: {what}")
    return Found(f"{len(altered)} alterations of '{case.name}'", answer.num_rows, missed, "caught")


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _altered(table: pa.Table, name: str) -> pa.Table:
    """The table with one value of the middle row changed or set to null."""
    index, place = table.schema.get_field_index(name), table.num_rows // 2
    column = table.column(index)
    value = column[place]
    other = next(
        (v for v in column.slice(0, 10_000) if v != value and v.is_valid), pa.scalar(None, column.type)
    )
    changed = [column.slice(0, place), pa.chunked_array([pa.array([other.as_py()], column.type)])]
    changed.append(column.slice(place + 1))
    chunks = [chunk for part in changed for chunk in part.chunks]
    return table.set_column(index, table.schema.field(index), pa.chunked_array(chunks, column.type))


if __name__ == "__main__":
    sys.exit(main())
