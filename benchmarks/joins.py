"""The data sets of the harness: T, T-scattered, lineitem with orders of TPC-H, and `wide`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import expected
import pyarrow as pa
import pyarrow.parquet as pq
import tables
import tpch
import wide
from inputs import Inputs
from pyiceberg.catalog.sql import SqlCatalog

T = "t"
T_SCATTERED = "t_scattered"
TPCH = "tpch"
WIDE = wide.DATASET
NAMES = (T, T_SCATTERED, TPCH, WIDE)


@dataclasses.dataclass(frozen=True)
class Join:
    """One data set on disk: what the contenders are given, and the server's configuration."""

    inputs: Path
    config: Path


def ensure(name: str, bench: Path, quick: bool) -> Join:
    """Make a data set in its folder below `bench`, unless it exists there."""
    if name == TPCH:
        return _tpch(bench, "0.01" if quick else "1")
    if name == WIDE:
        folder = bench / ("wide-quick" if quick else "wide")
        wide.ensure(folder, wide.QUICK if quick else wide.Sizes())
    else:
        folder = bench / ("quick" if quick else "full")
        tables.ensure(folder, tables.QUICK if quick else tables.Sizes())
    return Join(tables.inputs_path(folder, name), tables.config_path(folder))


def _tpch(bench: Path, scale: str) -> Join:
    """The tables lie where `agree.py` has them; what the contenders are given lies beside."""
    home = bench / f"tpch-{scale}"
    tpch.ensure(home, scale)
    folder = bench / f"tpch-{scale}-join"
    join = Join(tables.inputs_path(folder, TPCH), tables.config_path(folder))
    made = (home / tables.FINISHED).read_text()
    tables.made(folder, {"generation": 1, "of": made}, lambda: _write_tpch(home.resolve(), join))
    return join


def _write_tpch(home: Path, join: Join) -> None:
    catalog = SqlCatalog("default", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}/warehouse")
    lineitem, orders = (
        tables.source(catalog.load_table(f"{tpch.NAMESPACE}.{name}")) for name in ("lineitem", "orders")
    )
    catalog.close()
    rows, features = (
        pa.concat_tables([pq.read_table(path, partitioning=None) for path in source.files])
        for source in (lineitem, orders)
    )
    keys = ("l_orderkey", "o_orderkey")
    answer = expected.of_tables(rows, features, keys, ("l_partkey", "o_custkey"))
    Inputs(TPCH, keys[0], lineitem, orders, answer, keys[1]).save(join.inputs)
    join.config.write_text(tpch.config_path(home).read_text() + _TPCH)


_TPCH = """\
datasets:
  tpch:
    training:
      table: tpch.lineitem
    key: [l_orderkey]
    staging:
      - table: tpch.orders
        key: {l_orderkey: o_orderkey}
"""
