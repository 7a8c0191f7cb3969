"""Makes the TPC-H tables that `agree.py` joins, the same for the same scale.

`tpchgen-cli` generates lineitem, orders, part and partsupp. Here they are laid
out as Iceberg tables whose buckets do not fit each other (12, 8, 7, 6 and 5),
and what TPC-H lacks is derived from their values: keys that are null or have no
match, corrections of columns, prices with a history, features by day. Nothing
is drawn at random. In one folder lie a SQLite catalog, the server's
configuration, and `tables.json` with the data files of every table.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tables
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, Transform
from pyiceberg.types import LongType

NAMESPACE = "tpch"
SOURCES = "tables.json"

# Raised when the same scale gives other rows than before.
_GENERATION = 2

_GENERATED = ("lineitem", "orders", "part", "partsupp")
_PRICES = 3  # in the history of each part of each supplier
_FIRST_DAY = datetime.date(1995, 3, 1)  # of the shipments
_DAYS = 30
_BEFORE = 10  # days of features before the first shipment
_MICROS = 86_400_000_000

Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a table is partitioned: columns and their transforms."""

    fields: tuple[tuple[str, Transform[Any, Any]], ...] = ()


def ensure(folder: Path, scale: str) -> dict[str, list[str]]:
    """Make the tables in `folder`, unless they exist with the same scale.

    Gives the paths of the data files of every table.
    """
    tables.made(folder, {"generation": _GENERATION, "scale": scale}, lambda: _write(folder, scale))
    sources: dict[str, list[str]] = json.loads((folder / SOURCES).read_text())
    return sources


def _write(folder: Path, scale: str) -> None:
    tables.write_config(folder)
    catalog = tables.open_catalog(folder)
    catalog.create_namespace(NAMESPACE)
    generated = _generate(folder / "generated", scale)
    lineitem, orders = generated["lineitem"], generated["orders"]
    # Some orders and parts are missing: their lines have no match.
    known_orders = orders.filter(pa.array(orders["o_orderkey"].to_numpy() % 50 != 7))
    known_parts = generated["part"].filter(pa.array(generated["part"]["p_partkey"].to_numpy() % 40 != 3))
    parts = [
        ("lineitem", _buckets(l_orderkey=12), lineitem),
        ("orders", _buckets(o_orderkey=8), known_orders),
        ("part", _buckets(p_partkey=7), known_parts),
        ("part_flat", Layout(), known_parts),
        ("partsupp", _buckets(ps_partkey=6, ps_suppkey=5), generated["partsupp"]),
        ("order_stats", _buckets(s_orderkey=7), _order_stats(lineitem)),
        ("corrections", _buckets(c_orderkey=8), _corrections(lineitem)),
        ("prices", _buckets(partkey=6), _prices(generated["partsupp"])),
        ("sampled", Layout(), _sampled(orders)),
        ("clerks", _buckets(clerk=5), _features("clerk", orders["o_clerk"], 15)),
        ("calendar", _buckets(day=3), _features("day", lineitem["l_shipdate"], 16)),
        ("amounts", _buckets(amount=4), _features("amount", lineitem["l_quantity"], 17)),
    ]
    shipments = _shipments(lineitem)
    suppliers = np.unique(generated["partsupp"]["ps_suppkey"].to_numpy())
    by_day: tuple[str, Transform[Any, Any]] = ("ts", DayTransform())
    parts += [
        ("shipments", Layout((by_day, ("suppkey", BucketTransform(4)))), shipments),
        ("quotes", Layout((by_day, ("suppkey", BucketTransform(3)))), _quotes(shipments, suppliers)),
        ("daily", Layout((("day", DayTransform()), ("suppkey", BucketTransform(2)))), _daily(suppliers)),
    ]
    sources = {name: _files(_create(catalog, name, layout, rows)) for name, layout, rows in parts}
    sources["orders_mixed"] = _files(_mixed_specs(catalog, orders))
    lines = lineitem.select(["l_orderkey", "l_linenumber", "l_quantity"])
    sources["lines_sorted"] = _files(_ranges(catalog, "lines_sorted", lines, 4))
    sources["orders_sorted"] = _files(_ranges(catalog, "orders_sorted", known_orders, 5))
    catalog.close()
    (folder / SOURCES).write_text(json.dumps(sources, indent=1) + "\n")


def _buckets(**counts: int) -> Layout:
    return Layout(tuple((column, BucketTransform(count)) for column, count in counts.items()))


def _generate(folder: Path, scale: str) -> dict[str, pa.Table]:
    command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "--quiet"]
    command += ["--scale-factor", scale, "--tables", ",".join(_GENERATED), "--output-dir", str(folder)]
    subprocess.run(command, check=True)
    read = {}
    for name in _GENERATED:
        table = pq.read_table(folder / f"{name}.parquet")
        plain = [_plain(field.type) for field in table.schema]
        names = table.schema.names
        read[name] = table.cast(pa.schema(list(zip(names, plain, strict=True))))
    shutil.rmtree(folder)
    return read


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(kind) else kind


def _order_stats(lineitem: pa.Table) -> pa.Table:
    """Per order: numbers of several types, and the list of its parts."""
    keyed = lineitem.select(["l_orderkey", "l_partkey", "l_quantity", "l_tax"])
    grouped = keyed.group_by("l_orderkey", use_threads=False).aggregate(
        [("l_partkey", "list"), ("l_quantity", "max"), ("l_partkey", "count")]
    )
    keys = grouped["l_orderkey"].to_numpy()
    stats = pa.table(
        {
            "s_orderkey": keys,
            "parts": grouped["l_partkey_list"].cast(pa.list_(pa.int64())),
            "lines": grouped["l_partkey_count"].cast(pa.int32()),
            "largest": grouped["l_quantity_max"],
            # Thirds have no short binary form, so comparing bit by bit is meaningful.
            "third": (_mixed(keys, 1) % 10_000_019) / 3.0,
        }
    )
    return stats.filter(pa.array(keys % 31 != 5))


def _corrections(lineitem: pa.Table) -> pa.Table:
    """For one line in eight, another discount and comment; some are null."""
    pick = _mixed(_line_ids(lineitem), 2)
    chosen = lineitem.filter(pa.array(pick % 8 == 0))
    lots = _mixed(_line_ids(chosen), 3)
    discount = pa.array((lots % 11).astype(np.int64)).cast(pa.decimal128(19, 0))
    comment = pc.binary_join_element_wise("corrected:", chosen["l_comment"], " ")
    nowhere = pa.scalar(None)
    corrections = pa.table(
        {
            "c_orderkey": chosen["l_orderkey"],
            "c_linenumber": chosen["l_linenumber"],
            "l_discount": pc.if_else(pa.array(lots % 5 == 0), nowhere, discount).cast(pa.decimal128(15, 2)),
            "l_comment": pc.if_else(pa.array(lots % 7 == 0), nowhere, comment),
            "reason": pa.array(["price", "text", "both"]).take(pa.array(lots % 3)),
        }
    )
    return _scattered(corrections, 4)


def _prices(partsupp: pa.Table) -> pa.Table:
    """A history of prices by day, at most one price per day, unordered."""
    pairs = partsupp.num_rows
    partkey = np.repeat(partsupp["ps_partkey"].to_numpy(), _PRICES)
    suppkey = np.repeat(partsupp["ps_suppkey"].to_numpy(), _PRICES)
    turn = np.tile(np.arange(_PRICES), pairs)
    lots = _mixed(np.arange(pairs * _PRICES), 5)
    # 2,557 days, 1992 to 1998, cut into one part per price.
    share = 2557 // _PRICES
    since = (np.datetime64("1992-01-01") + turn * share + lots % share).astype("datetime64[D]")
    cost = np.repeat(pc.multiply(partsupp["ps_supplycost"], pa.scalar(100)).cast(pa.int64()), _PRICES)
    prices = pa.table(
        {
            "partkey": partkey,
            "suppkey": suppkey,
            "since": since,
            "price": (cost + lots % 1000) / 100.0,
            "changes": turn.astype(np.int32),
        }
    )
    return _scattered(prices, 6)


def _sampled(orders: pa.Table) -> pa.Table:
    """The orders in the first quarter of hash space, by Iceberg's own hash.

    A sample's positions are the hash with its binary digits reversed, so that
    the quarters of hash space are the buckets 0, 2, 1 and 3 of four.
    """
    buckets = BucketTransform(4).pyarrow_transform(LongType())(orders["o_orderkey"].combine_chunks())
    return pa.table({"orderkey": orders["o_orderkey"], "quarter": buckets}).filter(pc.equal(buckets, 0))


def _shipments(lineitem: pa.Table) -> pa.Table:
    """The lines of thirty days, at a time of the day; some suppliers are null."""
    days = lineitem["l_shipdate"].cast(pa.int32()).to_numpy().astype(np.int64)
    first = _day(_FIRST_DAY)
    lines = lineitem.filter(pa.array((days >= first) & (days < first + _DAYS)))
    lots = _mixed(_line_ids(lines), 7)
    day = lines["l_shipdate"].cast(pa.int32()).to_numpy().astype(np.int64)
    unknown = pa.array(lots % 97 == 0)
    return pa.table(
        {
            "orderkey": lines["l_orderkey"],
            "linenumber": lines["l_linenumber"],
            "partkey": lines["l_partkey"],
            "suppkey": pc.if_else(unknown, pa.scalar(None), lines["l_suppkey"]),
            "ts": pa.array(day * _MICROS + lots % _MICROS, pa.timestamp("us")),
            "quantity": lines["l_quantity"],
        }
    )


def _quotes(shipments: pa.Table, suppliers: Integers) -> pa.Table:
    """Two quotes per supplier and day, and some at the very moment of a shipment."""
    first = _day(_FIRST_DAY) - _BEFORE
    days = np.arange(first, first + _BEFORE + _DAYS)
    suppkey = np.repeat(suppliers, 2 * len(days))
    day = np.tile(np.repeat(days, 2), len(suppliers))
    lots = _mixed(np.arange(len(day)), 8)
    # One supplier and day in four has none.
    kept = _mixed(suppkey * 100_000 + day, 9) % 4 != 0
    drawn = pa.table(
        {"suppkey": suppkey[kept], "ts": pa.array((day * _MICROS + lots % _MICROS)[kept], pa.timestamp("us"))}
    )
    same = shipments.filter(pa.array(_mixed(np.arange(shipments.num_rows), 10) % 6 == 0))
    same = same.filter(pc.is_valid(same["suppkey"])).select(["suppkey", "ts"])
    quotes = pa.concat_tables([drawn, same]).group_by(["suppkey", "ts"], use_threads=False).aggregate([])
    return _scattered(quotes.append_column("quote", pa.array(np.arange(quotes.num_rows) / 7.0)), 11)


def _daily(suppliers: Integers) -> pa.Table:
    """A feature per supplier and day, from before the first shipment on.

    Every fifth day has no features at all, one supplier in twenty none on a day.
    """
    first = _day(_FIRST_DAY) - _BEFORE
    days = np.array([day for day in range(first, first + _BEFORE + _DAYS) if day % 5 != 3])
    suppkey = np.tile(suppliers, len(days))
    day = np.repeat(days, len(suppliers))
    lots = _mixed(suppkey * 100_000 + day, 12)
    features = pa.table(
        {
            "day": pa.array(day.astype(np.int32)).cast(pa.date32()),
            "suppkey": suppkey,
            "feature": lots % 1_000_003,
            "score": (lots % 10_007) / 3.0,
        }
    )
    return _scattered(features.filter(pa.array(lots % 20 != 0)), 13)


def _mixed_specs(catalog: SqlCatalog, orders: pa.Table) -> Table:
    """Orders in three appends, each with a different spec; later versions of some.

    The first is bucket(8), the second bucket(12), the third has no partition.
    """
    keys = orders["o_orderkey"].to_numpy()
    lots = _mixed(keys, 14)
    narrow = orders.select(["o_orderkey", "o_totalprice", "o_orderpriority"])

    def version(number: int, chosen: npt.NDArray[np.bool_]) -> pa.Table:
        rows = narrow.filter(pa.array(chosen))
        return rows.append_column("version", pa.array(np.full(rows.num_rows, number, np.int32)))

    table = _create(catalog, "orders_mixed", _buckets(o_orderkey=8), version(0, lots % 10 < 6))
    with table.update_spec() as change:
        change.remove_field("o_orderkey_bucket")
        change.add_field("o_orderkey", BucketTransform(12), "o_orderkey_bucket_12")
    table.append(version(1, (lots % 10 >= 4) & (lots % 10 < 8)).cast(table.schema().as_arrow()))
    with table.update_spec() as change:
        change.remove_field("o_orderkey_bucket_12")
    table.append(version(2, lots % 100 < 3).cast(table.schema().as_arrow()))
    return table


def _ranges(catalog: SqlCatalog, name: str, rows: pa.Table, files: int) -> Table:
    """A table without partitions, sorted by its first column, in files that follow each other."""
    rows = rows.take(pc.sort_indices(rows, [(rows.schema.names[0], "ascending")]))
    borders = [rows.num_rows * turn // files for turn in range(files + 1)]
    table = _create(catalog, name, Layout(), rows.slice(0, borders[1]))
    for begin, end in itertools.pairwise(borders[1:]):
        table.append(rows.slice(begin, end - begin).cast(table.schema().as_arrow()))
    return table


def _features(key: str, values: pa.ChunkedArray, salt: int) -> pa.Table:
    """A feature for most values of a column, of whatever type."""
    keys = values.unique()
    lots = _mixed(np.arange(len(keys)), salt)
    return pa.table({key: keys, f"{key}_feature": lots % 1_000_003}).filter(pa.array(lots % 9 != 0))


def _day(date: datetime.date) -> int:
    return date.toordinal() - datetime.date(1970, 1, 1).toordinal()


def _line_ids(lineitem: pa.Table) -> Integers:
    ids: Integers = lineitem["l_orderkey"].to_numpy() * 8 + lineitem["l_linenumber"].to_numpy()
    return ids


def _mixed(values: Integers, salt: int) -> Integers:
    """Pseudo-random numbers from 0 up: SplitMix64 over the values."""
    state = values.astype(np.uint64) + np.uint64(salt << 48)
    state *= np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Integers = ((state ^ (state >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
    return mixed


def _scattered(rows: pa.Table, salt: int) -> pa.Table:
    return rows.take(pa.array(np.argsort(_mixed(np.arange(rows.num_rows), salt))))


def _create(catalog: SqlCatalog, name: str, layout: Layout, rows: pa.Table) -> Table:
    schema = tables.iceberg_schema(rows.schema)
    fields = [
        PartitionField(
            source_id=schema.find_field(column).field_id,
            field_id=1000 + index,
            transform=transform,
            name=f"{column}_{str(transform).partition('[')[0]}",
        )
        for index, (column, transform) in enumerate(layout.fields)
    ]
    table = catalog.create_table(
        f"{NAMESPACE}.{name}",
        schema=schema,
        partition_spec=PartitionSpec(*fields),
        properties={"format-version": "2", "write.parquet.compression-codec": "zstd"},
    )
    table.append(rows.cast(table.schema().as_arrow()))
    return table


def _files(table: Table) -> list[str]:
    """The data files of the table's current snapshot."""
    planned: Iterable[Any] = table.scan().plan_files()
    return sorted(scan.file.file_path.removeprefix("file://") for scan in planned)


def main() -> None:
    """Make the tables by hand: `python tpch.py FOLDER [--scale 0.01]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", default="0.01", help="TPC-H's scale factor")
    arguments = parser.parse_args()
    ensure(arguments.folder, arguments.scale)


if __name__ == "__main__":
    main()
