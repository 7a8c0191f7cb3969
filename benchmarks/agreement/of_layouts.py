"""The cases over TPC-H about layouts and time: which files match."""

from __future__ import annotations

from typing import Any

import polars as pl

from agreement.case import Case, Frames, dataset
from agreement.of_rules import lineitem, orders

_PARTS: dict[str, Any] = {"table": "tpch.part", "key": {"l_partkey": "p_partkey"}}
_STATS: dict[str, Any] = {"table": "tpch.order_stats", "key": {"l_orderkey": "s_orderkey"}}
_SUPPLIED: dict[str, Any] = {
    "table": "tpch.partsupp",
    "key": {"l_partkey": "ps_partkey", "l_suppkey": "ps_suppkey"},
}


def cases() -> list[Case]:
    """All of them."""
    return [*_chains(), *_others(), *_keys(), *_aligned(), *_points_in_time()]


def _with(left: pl.LazyFrame, right: pl.LazyFrame, key: dict[str, str], how: str = "left") -> pl.LazyFrame:
    return left.join(right, left_on=list(key), right_on=list(key.values()), how=how)


def _chains() -> list[Case]:
    """Joins of three, four and five tables, with 12, 8, 7 and more buckets."""

    def three(frames: Frames) -> pl.LazyFrame:
        left = _with(frames("lineitem"), frames("orders"), orders()["key"])
        return _with(left, frames("order_stats"), _STATS["key"], "inner")

    sql = """SELECT l.*, o.* EXCLUDE o_orderkey, s.* EXCLUDE s_orderkey{more} FROM lineitem l
        LEFT JOIN orders o ON l_orderkey = o_orderkey JOIN order_stats s ON l_orderkey = s_orderkey{joins}"""
    parts = " LEFT JOIN part p ON l_partkey = p_partkey"
    supplied = " JOIN partsupp ps ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey"
    stats = {**_STATS, "join": "inner"}
    few = {**_PARTS, "columns": ["p_name", "p_size"]}

    def by_strategy(strategy: str) -> Case:
        chosen = [{**entry, "strategy": strategy} for entry in (orders(), stats, few)]
        return Case(
            f"four tables: 12, 8, 7 and 7, all by {strategy}",
            {"dataset": lineitem(*chosen)},
            sql.format(more=", p_name, p_size", joins=parts),
            lambda frames: _with(three(frames), frames("part"), _PARTS["key"]),
        )

    return [
        Case(
            "three tables: 12, 8 and 7 buckets of one key",
            {"dataset": lineitem(orders(), stats)},
            sql.format(more="", joins=""),
            three,
        ),
        Case(
            "five tables: 12, 8, 7, 7 of another key, 6 x 5 of two keys",
            {
                "dataset": lineitem(
                    orders(), stats, few, {**_SUPPLIED, "join": "inner", "columns": ["ps_availqty"]}
                )
            },
            sql.format(more=", p_name, p_size, ps_availqty", joins=parts + supplied),
            lambda frames: _with(
                _with(three(frames), frames("part"), _PARTS["key"]),
                frames("partsupp"),
                _SUPPLIED["key"],
                "inner",
            ),
        ),
        *[by_strategy(strategy) for strategy in ("index", "merge", "zip")],
    ]


def _others() -> list[Case]:
    """Layouts other than the training table's."""

    def shaped(column: str, **rules: Any) -> dict[str, Any]:
        return {"column": column, **rules}

    latest = (
        "(FROM orders_mixed QUALIFY row_number() OVER (PARTITION BY o_orderkey ORDER BY version DESC) = 1)"
    )
    mixed: dict[str, Any] = {"table": "tpch.orders_mixed", "key": {"l_orderkey": "o_orderkey"}}
    cut = [
        shaped("parts", last=2),
        shaped("parts", name="first_part", first=1),
        shaped("lines", **{"as": "long"}),
        "third",
    ]
    by_part = """SELECT l.*, p.* EXCLUDE p_partkey FROM lineitem l
        LEFT JOIN part p ON l_partkey = p_partkey"""
    supplied = """SELECT p.*, ps_suppkey, ps_availqty FROM part_flat p
        JOIN partsupp ON p_partkey = ps_partkey"""
    versions = ["o_totalprice", "o_orderpriority", "version"]

    def newest(frames: Frames) -> pl.LazyFrame:
        chosen = frames("orders_mixed").sort("version", descending=True)
        return chosen.unique("o_orderkey", keep="first", maintain_order=True)

    return [
        Case(
            "a key that the training table is not bucketed on",
            {"dataset": lineitem(_PARTS)},
            by_part,
            lambda frames: _with(frames("lineitem"), frames("part"), _PARTS["key"]),
        ),
        Case(
            "a staging table without partitions",
            {"dataset": lineitem({**_PARTS, "table": "tpch.part_flat"})},
            by_part,
            lambda frames: _with(frames("lineitem"), frames("part_flat"), _PARTS["key"]),
        ),
        Case(
            "a staging table without partitions, broadcast",
            {"dataset": lineitem({**_PARTS, "table": "tpch.part_flat", "strategy": "broadcast"})},
            by_part,
            lambda frames: _with(frames("lineitem"), frames("part_flat"), _PARTS["key"]),
        ),
        Case(
            "a training table without partitions",
            {
                "dataset": dataset(
                    "tpch.part_flat",
                    {
                        "table": "tpch.partsupp",
                        "key": {"p_partkey": "ps_partkey"},
                        "columns": ["ps_suppkey", "ps_availqty"],
                        "join": "inner",
                        "duplicates": "all",
                    },
                    key=["p_partkey"],
                )
            },
            supplied,
            lambda frames: _with(
                frames("part_flat"), frames("partsupp"), {"p_partkey": "ps_partkey"}, "inner"
            ),
        ),
        Case(
            "a key of two columns",
            {"dataset": lineitem({**_SUPPLIED, "join": "inner"})},
            """SELECT l.*, ps.* EXCLUDE (ps_partkey, ps_suppkey) FROM lineitem l
               JOIN partsupp ps ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey""",
            lambda frames: _with(frames("lineitem"), frames("partsupp"), _SUPPLIED["key"], "inner"),
        ),
        Case(
            "staging files of three specs, the newest version wins",
            {"dataset": lineitem({**mixed, "columns": versions, "duplicates": "last"})},
            f"""SELECT l.*, o_totalprice, o_orderpriority, version
                FROM lineitem l LEFT JOIN {latest} ON l_orderkey = o_orderkey""",
            lambda frames: _with(frames("lineitem"), newest(frames), mixed["key"]),
        ),
        Case(
            "training files of three specs",
            {
                "dataset": dataset(
                    "tpch.orders_mixed", {"table": "tpch.orders", "columns": ["o_clerk"]}, key=["o_orderkey"]
                )
            },
            """SELECT m.*, o_clerk FROM orders_mixed m LEFT JOIN orders o ON m.o_orderkey = o.o_orderkey""",
            lambda frames: _with(
                frames("orders_mixed"),
                frames("orders").select("o_orderkey", "o_clerk"),
                {"o_orderkey": "o_orderkey"},
            ),
        ),
        Case(
            "lists cut, a number widened",
            {"dataset": lineitem({**_STATS, "columns": cut})},
            """SELECT l.*, parts[-2:] AS parts, parts[:1] AS first_part, lines::BIGINT AS lines, third
               FROM lineitem l LEFT JOIN order_stats ON l_orderkey = s_orderkey""",
            lambda frames: _with(frames("lineitem"), frames("order_stats"), _STATS["key"]).with_columns(
                pl.col("parts").list.tail(2),
                pl.col("parts").list.head(1).alias("first_part"),
                pl.col("lines").cast(pl.Int64),
            ),
        ),
    ]


def _keys() -> list[Case]:
    """Keys of other types, keys bucketed on one of their columns, sorted keys."""
    types = {"l_shipdate": "day", "l_quantity": "amount"}
    tables = {"day": "calendar", "amount": "amounts"}
    by_type = [{"table": f"tpch.{tables[key]}", "key": {column: key}} for column, key in types.items()]
    clerks = {"table": "tpch.clerks", "key": {"o_clerk": "clerk"}}
    both = {"partkey": "ps_partkey", "suppkey": "ps_suppkey"}
    supplied = {"table": "tpch.partsupp", "key": both, "columns": ["ps_availqty", "ps_comment"]}
    following: dict[str, Any] = {"table": "tpch.orders_sorted", "key": {"l_orderkey": "o_orderkey"}}
    return [
        Case(
            "a key of dates, a key of decimals",
            {"dataset": lineitem(*by_type)},
            """SELECT l.*, day_feature, amount_feature FROM lineitem l
               LEFT JOIN calendar ON l_shipdate = day LEFT JOIN amounts ON l_quantity = amount""",
            lambda frames: _with(
                _with(frames("lineitem"), frames("calendar"), {"l_shipdate": "day"}),
                frames("amounts"),
                {"l_quantity": "amount"},
            ),
        ),
        Case(
            "a key of strings",
            {"dataset": dataset("tpch.orders", clerks, key=["o_orderkey"])},
            "SELECT o.*, clerk_feature FROM orders o LEFT JOIN clerks ON o_clerk = clerk",
            lambda frames: _with(frames("orders"), frames("clerks"), {"o_clerk": "clerk"}),
        ),
        Case(
            "a key of two columns, one with nulls and 4 buckets against 6 x 5",
            {"dataset": dataset("tpch.shipments", supplied, key=["suppkey"])},
            """SELECT s.*, ps_availqty, ps_comment FROM shipments s
               LEFT JOIN partsupp ON partkey = ps_partkey AND suppkey = ps_suppkey""",
            lambda frames: _with(frames("shipments"), frames("partsupp"), both),
        ),
        Case(
            "both sides without partitions, sorted by the key",
            {"dataset": dataset("tpch.lines_sorted", following, key=["l_orderkey"])},
            """SELECT l.*, o.* EXCLUDE o_orderkey FROM lines_sorted l
               LEFT JOIN orders_sorted o ON l_orderkey = o_orderkey""",
            lambda frames: _with(frames("lines_sorted"), frames("orders_sorted"), following["key"]),
        ),
    ]


def _aligned() -> list[Case]:
    def asked(**rules: Any) -> dict[str, Any]:
        staging = {"table": "tpch.daily", "align": {"training": "ts", "staging": "day", **rules}}
        return {"dataset": dataset("tpch.shipments", staging, key=["suppkey"])}

    def sql(day: str) -> str:
        return f"""SELECT s.*, d.day, d.feature, d.score FROM shipments s
            LEFT JOIN daily d ON s.suppkey = d.suppkey AND d.day = {day}"""

    def on(frames: Frames, left: pl.LazyFrame) -> pl.LazyFrame:
        right = frames("daily").with_columns(wanted=pl.col("day"))
        return left.join(right, on=["suppkey", "wanted"], how="left")

    def lagging(frames: Frames, days: int) -> pl.LazyFrame:
        wanted = pl.col("ts").cast(pl.Date).dt.offset_by(f"-{days}d")
        return on(frames, frames("shipments").with_columns(wanted=wanted))

    def latest(frames: Frames) -> pl.LazyFrame:
        days = frames("daily").select(wanted="day").unique().sort("wanted")
        left = frames("shipments").with_columns(today=pl.col("ts").cast(pl.Date)).sort("today")
        dated = left.join_asof(
            days,
            left_on="today",
            right_on="wanted",
            strategy="backward",
            allow_exact_matches=False,
            coalesce=False,
        )
        return on(frames, dated)

    return [
        Case("align: the same day", asked(), sql("s.ts::DATE"), lambda frames: lagging(frames, 0)),
        Case(
            "align: the day before",
            asked(lag="1d"),
            sql("s.ts::DATE - 1"),
            lambda frames: lagging(frames, 1),
        ),
        Case(
            "align: three days before",
            asked(lag="3d"),
            sql("s.ts::DATE - 3"),
            lambda frames: lagging(frames, 3),
        ),
        Case(
            "align: the latest day before",
            asked(rule="latest_before"),
            """WITH days AS (SELECT today, max(day) AS wanted FROM (SELECT DISTINCT ts::DATE AS today FROM shipments)
                JOIN (SELECT DISTINCT day FROM daily) ON day < today GROUP BY today)
               SELECT s.*, d.day, d.feature, d.score FROM shipments s LEFT JOIN days ON today = s.ts::DATE
               LEFT JOIN daily d ON s.suppkey = d.suppkey AND d.day = wanted""",
            latest,
        ),
    ]


def _points_in_time() -> list[Case]:
    priced = {"l_partkey": "partkey", "l_suppkey": "suppkey"}

    def prices(tolerance: str, **rules: Any) -> dict[str, Any]:
        time = {"training": "l_shipdate", "staging": "since", "tolerance": tolerance}
        return {"dataset": lineitem({"table": "tpch.prices", "key": priced, "point_in_time": time, **rules})}

    def quoted(tolerance: str, exact: bool) -> dict[str, Any]:
        time = {"training": "ts", "staging": "ts", "tolerance": tolerance, "exact": exact}
        columns = [{"column": "ts", "name": "quoted"}, "quote"]
        staging = {"table": "tpch.quotes", "columns": columns, "point_in_time": time}
        return {"dataset": dataset("tpch.shipments", staging, key=["suppkey"])}

    def since(frames: Frames, tolerance: str) -> pl.LazyFrame:
        return (
            frames("lineitem")
            .sort("l_shipdate")
            .join_asof(
                frames("prices").sort("since"),
                left_on="l_shipdate",
                right_on="since",
                by_left=list(priced),
                by_right=list(priced.values()),
                tolerance=tolerance,
                coalesce=False,
                check_sortedness=False,
            )
        )

    def latest(frames: Frames, tolerance: str, exact: bool) -> pl.LazyFrame:
        right = frames("quotes").with_columns(quoted=pl.col("ts")).select("suppkey", "quoted", "quote")
        return (
            frames("shipments")
            .sort("ts")
            .join_asof(
                right.sort("quoted"),
                left_on="ts",
                right_on="quoted",
                by="suppkey",
                tolerance=tolerance,
                allow_exact_matches=exact,
                coalesce=False,
                check_sortedness=False,
            )
        )

    def sql_prices(days: int, more: str = "") -> str:
        fresh = f"since >= l_shipdate - {days}"
        return f"""SELECT l.*, CASE WHEN {fresh} THEN since END AS since, CASE WHEN {fresh} THEN price END AS price,
            CASE WHEN {fresh} THEN changes END AS changes FROM lineitem l ASOF LEFT JOIN prices p
            ON l_partkey = partkey AND l_suppkey = suppkey AND l_shipdate >= since{more}"""

    def sql_quotes(hours: int, comparison: str) -> str:
        fresh = f"q.ts >= s.ts - INTERVAL {hours} HOUR"
        return f"""SELECT s.*, CASE WHEN {fresh} THEN q.ts END AS quoted, CASE WHEN {fresh} THEN quote END AS quote
            FROM shipments s ASOF LEFT JOIN quotes q ON s.suppkey = q.suppkey AND s.ts {comparison} q.ts"""

    by_part = {"l_partkey": "partkey"}
    ties = {"duplicates": "last", "order_by": ["suppkey"], "key": by_part}

    def of_any_supplier(frames: Frames) -> pl.LazyFrame:
        best = frames("prices").sort("suppkey", descending=True)
        best = best.unique(["partkey", "since"], keep="first", maintain_order=True)
        left = frames("lineitem").sort("l_shipdate")
        return left.join_asof(
            best.sort("since"),
            left_on="l_shipdate",
            right_on="since",
            by_left="l_partkey",
            by_right="partkey",
            tolerance="300d",
            coalesce=False,
            check_sortedness=False,
        )

    fresh = "since >= l_shipdate - 300"
    tied = ", ".join(
        f"CASE WHEN {fresh} THEN p.{c} END AS {c}" for c in ("suppkey", "since", "price", "changes")
    )
    return [
        Case(
            "point in time: of prices of one day the last by supplier",
            prices("300d", **ties),
            f"""SELECT l.*, {tied} FROM lineitem l ASOF LEFT JOIN (FROM prices
                QUALIFY row_number() OVER (PARTITION BY partkey, since ORDER BY suppkey DESC) = 1) p
                ON l_partkey = partkey AND l_shipdate >= since""",
            of_any_supplier,
        ),
        Case(
            "point in time: dates, 500 days at most",
            prices("500d"),
            sql_prices(500),
            lambda frames: since(frames, "500d"),
        ),
        Case(
            "point in time: dates, 100 days at most, matched rows only",
            prices("100d", join="inner"),
            f"FROM ({sql_prices(100)}) WHERE since IS NOT NULL",
            lambda frames: since(frames, "100d").filter(pl.col("since").is_not_null()),
        ),
        Case(
            "point in time: timestamps over several days, the same moment counts",
            quoted("36h", exact=True),
            sql_quotes(36, ">="),
            lambda frames: latest(frames, "36h", True),
        ),
        Case(
            "point in time: timestamps over several days, the same moment does not count",
            quoted("36h", exact=False),
            sql_quotes(36, ">"),
            lambda frames: latest(frames, "36h", False),
        ),
    ]
