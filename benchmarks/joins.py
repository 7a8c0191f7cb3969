"""The data sets of the harness: T, T-scattered, lineitem with orders of TPC-H, and `wide`.

T and TPC-H are joined twice, by left joins and by inner joins of the same files.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import expected
import pyarrow as pa
import pyarrow.parquet as pq
import tables
import tpch
import wide
from inputs import Inputs, JoinKind

T = "t"
T_INNER = tables.INNER
T_SCATTERED = "t_scattered"
TPCH = "tpch"
TPCH_INNER = "tpch_inner"
WIDE = wide.DATASET
NAMES = (T, T_INNER, T_SCATTERED, TPCH, TPCH_INNER, WIDE)
# Those of inner joins; the others are left joins.
INNER = (T_INNER, TPCH_INNER)


@dataclasses.dataclass(frozen=True)
class Join:
    """One data set on disk: what the contenders are given, and the server's configuration."""

    inputs: Path
    config: Path


def ensure(name: str, bench: Path, quick: bool) -> Join:
    """Make a data set in its folder below `bench`, unless it exists there."""
    if name in (TPCH, TPCH_INNER):
        return _tpch(name, bench, "0.01" if quick else "1")
    if name == WIDE:
        folder = bench / ("wide-quick" if quick else "wide")
        wide.ensure(folder, wide.QUICK if quick else wide.Sizes())
    else:
        folder = bench / ("quick" if quick else "full")
        tables.ensure(folder, tables.QUICK if quick else tables.Sizes())
    return Join(tables.inputs_path(folder, name), tables.config_path(folder))


def _tpch(name: str, bench: Path, scale: str) -> Join:
    """The tables lie where `agree.py` has them; what the contenders are given lies beside."""
    home = bench / f"tpch-{scale}"
    tpch.ensure(home, scale)
    folder = bench / f"tpch-{scale}-join"
    made = (home / tables.FINISHED).read_text()
    tables.made(folder, {"generation": 2, "of": made}, lambda: _write_tpch(home.resolve(), folder))
    return Join(tables.inputs_path(folder, name), tables.config_path(folder))


def _write_tpch(home: Path, folder: Path) -> None:
    catalog = tables.open_catalog(home)
    lineitem, orders = (
        tables.source(catalog.load_table(f"{tpch.NAMESPACE}.{name}")) for name in ("lineitem", "orders")
    )
    catalog.close()
    rows, features = (
        pa.concat_tables([pq.read_table(path, partitioning=None) for path in source.files])
        for source in (lineitem, orders)
    )
    keys = ("l_orderkey", "o_orderkey")
    joins: dict[str, JoinKind] = {TPCH: "left", TPCH_INNER: "inner"}
    for name, join in joins.items():
        answer = expected.of_tables(rows, features, keys, ("l_partkey", "o_custkey"), join)
        inputs = Inputs(name, keys[0], lineitem, orders, answer, keys[1], join)
        inputs.save(tables.inputs_path(folder, name))
    tables.config_path(folder).write_text(tables.config_path(home).read_text() + _TPCH)


_TPCH = """\
datasets:
  tpch:
    training:
      table: tpch.lineitem
    key: [l_orderkey]
    staging:
      - table: tpch.orders
        key: {l_orderkey: o_orderkey}
  tpch_inner:
    training:
      table: tpch.lineitem
    key: [l_orderkey]
    staging:
      - table: tpch.orders
        key: {l_orderkey: o_orderkey}
        join: inner
"""
