"""The cases over TPC-H about rules: the results of one match, several, or none."""

from __future__ import annotations

from typing import Any

import polars as pl

from agreement.case import PLACE, PLACED, Case, Frames, dataset

_BY_ORDER = {"l_orderkey": "o_orderkey"}
_FEW = ["o_orderstatus", "o_shippriority", "o_clerk"]
_JOIN_ORDERS = "ON l_orderkey = o_orderkey"
_URGENT = "o_orderpriority = '1-URGENT'"


def cases() -> list[Case]:
    """All of them."""
    return [*_kinds(), *_missing(), *_duplicates(), *_overlays(), *_distinct(), *_filters(), *_samples()]


def lineitem(*staging: dict[str, Any]) -> dict[str, Any]:
    """A dataset with lineitem as its training table."""
    return dataset("tpch.lineitem", *staging, key=["l_orderkey"])


def orders(**rules: Any) -> dict[str, Any]:
    """Orders as a staging table of lineitem."""
    return {"table": "tpch.orders", "key": _BY_ORDER, **rules}


def with_orders(frames: Frames, how: str = "left") -> pl.LazyFrame:
    """Lineitem joined with orders."""
    return frames("lineitem").join(frames("orders"), left_on="l_orderkey", right_on="o_orderkey", how=how)


def _kinds() -> list[Case]:
    def urgent(frames: Frames) -> pl.LazyFrame:
        return frames("orders").filter(pl.col("o_orderpriority") == "1-URGENT")

    def kept(frames: Frames, how: str) -> pl.LazyFrame:
        return frames("lineitem").join(urgent(frames), left_on="l_orderkey", right_on="o_orderkey", how=how)

    return [
        Case(
            "left: 12 buckets against 8",
            {"dataset": lineitem(orders())},
            f"SELECT l.*, o.* EXCLUDE o_orderkey FROM lineitem l LEFT JOIN orders o {_JOIN_ORDERS}",
            with_orders,
        ),
        Case(
            "inner",
            {"dataset": lineitem(orders(join="inner"))},
            f"SELECT l.*, o.* EXCLUDE o_orderkey FROM lineitem l JOIN orders o {_JOIN_ORDERS}",
            lambda frames: with_orders(frames, "inner"),
        ),
        Case(
            "semi, with a filter of the staging table",
            {"dataset": lineitem(orders(join="semi", filter=_URGENT))},
            f"SELECT l.* FROM lineitem l SEMI JOIN (FROM orders WHERE {_URGENT}) o {_JOIN_ORDERS}",
            lambda frames: kept(frames, "semi"),
        ),
        Case(
            "anti, with a filter of the staging table",
            {"dataset": lineitem(orders(join="anti", filter=_URGENT))},
            f"SELECT l.* FROM lineitem l ANTI JOIN (FROM orders WHERE {_URGENT}) o {_JOIN_ORDERS}",
            lambda frames: kept(frames, "anti"),
        ),
    ]


def _missing() -> list[Case]:
    defaults = {"default": {"o_orderstatus": "?", "o_shippriority": -1}}
    known = pl.col("known").fill_null(False)

    def marked(frames: Frames) -> pl.LazyFrame:
        right = frames("orders").with_columns(known=pl.lit(True))
        return frames("lineitem").join(right, left_on="l_orderkey", right_on="o_orderkey", how="left")

    return [
        Case(
            "missing: a default for two columns of three",
            {"dataset": lineitem(orders(columns=_FEW, missing=defaults))},
            f"""SELECT l.*, CASE WHEN o_orderkey IS NULL THEN '?' ELSE o_orderstatus END AS o_orderstatus,
                CASE WHEN o_orderkey IS NULL THEN -1 ELSE o_shippriority END::INT AS o_shippriority, o_clerk
                FROM lineitem l LEFT JOIN orders o {_JOIN_ORDERS}""",
            lambda frames: marked(frames).with_columns(
                pl.when(known).then("o_orderstatus").otherwise(pl.lit("?")).alias("o_orderstatus"),
                pl.when(known).then("o_shippriority").otherwise(pl.lit(-1)).alias("o_shippriority"),
            ),
        ),
        Case(
            "matched_as, with min_match",
            {"dataset": lineitem(orders(columns=["o_clerk"], matched_as="has_order", min_match=0.9))},
            f"""SELECT l.*, o_clerk, o_orderkey IS NOT NULL AS has_order
                FROM lineitem l LEFT JOIN orders o {_JOIN_ORDERS}""",
            lambda frames: marked(frames).with_columns(has_order=known),
        ),
    ]


def _duplicates() -> list[Case]:
    def lines(**rules: Any) -> dict[str, Any]:
        columns = ["l_linenumber", "l_extendedprice", "l_comment"]
        staging = {"table": "tpch.lineitem", "key": {"o_orderkey": "l_orderkey"}, "columns": columns, **rules}
        return {"dataset": dataset("tpch.orders", staging, key=["o_orderkey"])}

    def all_lines(frames: Frames) -> pl.LazyFrame:
        return frames("orders").join(
            frames("lineitem"), left_on="o_orderkey", right_on="l_orderkey", how="left"
        )

    def winner(frames: Frames, order: list[str], descending: list[bool]) -> pl.LazyFrame:
        best = (
            frames(f"lineitem{PLACED}")
            .sort(order, descending=descending)
            .unique("l_orderkey", keep="first", maintain_order=True)
        )
        return frames("orders").join(best, left_on="o_orderkey", right_on="l_orderkey", how="left")

    def sql(order: str, table: str = "lineitem") -> str:
        return f"""SELECT o.*, l_linenumber, l_extendedprice, l_comment FROM orders o LEFT JOIN
            (FROM {table} QUALIFY row_number() OVER (PARTITION BY l_orderkey ORDER BY {order}) = 1)
            ON o_orderkey = l_orderkey"""

    price = {"column": "l_extendedprice", "order": "desc"}
    fixed = {"table": "tpch.corrections", "key": {"o_orderkey": "c_orderkey"}, "columns": ["reason"]}
    product = lines(duplicates="all", columns=["l_linenumber"], join="inner")
    product["dataset"]["staging"].append({**fixed, "duplicates": "all"})
    return [
        Case(
            "duplicates: all",
            lines(duplicates="all"),
            """SELECT o.*, l_linenumber, l_extendedprice, l_comment
               FROM orders o LEFT JOIN lineitem ON o_orderkey = l_orderkey""",
            all_lines,
        ),
        Case(
            "duplicates: all of two tables, a product",
            product,
            """SELECT o.*, l_linenumber, reason FROM orders o JOIN lineitem ON o_orderkey = l_orderkey
               LEFT JOIN corrections ON o_orderkey = c_orderkey""",
            lambda frames: (
                all_lines(frames)
                .filter(pl.col("l_linenumber").is_not_null())
                .join(
                    frames("corrections").select("c_orderkey", "reason"),
                    left_on="o_orderkey",
                    right_on="c_orderkey",
                    how="left",
                )
            ),
        ),
        Case(
            "duplicates: first by price, falling",
            lines(duplicates="first", order_by=[price, "l_linenumber"]),
            sql("l_extendedprice DESC, l_linenumber"),
            lambda frames: winner(frames, ["l_extendedprice", "l_linenumber"], [True, False]),
        ),
        Case(
            "duplicates: last by date and number",
            lines(duplicates="last", order_by=["l_shipdate", "l_linenumber"]),
            sql("l_shipdate DESC, l_linenumber DESC"),
            lambda frames: winner(frames, ["l_shipdate", "l_linenumber"], [True, True]),
        ),
        Case(
            "duplicates: first as stored",
            lines(duplicates="first"),
            sql(PLACE, f"lineitem{PLACED}"),
            lambda frames: winner(frames, [PLACE], [False]),
        ),
    ]


def _overlays() -> list[Case]:
    keys = {"l_orderkey": "c_orderkey", "l_linenumber": "c_linenumber"}

    def corrected(**rules: Any) -> dict[str, Any]:
        return lineitem({"table": "tpch.corrections", "key": keys, "join": "overlay", **rules})

    def sql(discount: str, comment: str) -> str:
        return f"""SELECT l.* REPLACE ({discount} AS l_discount, {comment} AS l_comment), reason
            FROM lineitem l LEFT JOIN corrections c ON l_orderkey = c_orderkey AND l_linenumber = c_linenumber"""

    def laid(frames: Frames, keep: bool) -> pl.LazyFrame:
        right = frames("corrections").with_columns(known=pl.lit(True))
        both = frames("lineitem").join(
            right, left_on=list(keys), right_on=list(keys.values()), how="left", suffix="_new"
        )

        def chosen(column: str) -> pl.Expr:
            new = pl.col(f"{column}_new")
            other = pl.when(pl.col("known").is_not_null()).then(new).otherwise(pl.col(column))
            return (pl.coalesce(new, column) if keep else other).alias(column)

        return both.with_columns(chosen("l_discount"), chosen("l_comment"))

    def matched(column: str) -> str:
        return f"CASE WHEN c_orderkey IS NULL THEN l.{column} ELSE c.{column} END"

    def kept(column: str) -> str:
        return f"coalesce(c.{column}, l.{column})"

    replaced = sql(matched("l_discount"), matched("l_comment"))
    return [
        Case(
            "overlay: nulls replace",
            {"dataset": corrected()},
            replaced,
            lambda frames: laid(frames, keep=False),
        ),
        Case(
            "overlay: nulls keep",
            {"dataset": corrected(nulls="keep")},
            sql(kept("l_discount"), kept("l_comment")),
            lambda frames: laid(frames, keep=True),
        ),
        Case(
            "overlay: a filter of an overlaid column comes after it",
            {"dataset": corrected(), "filter": "l_comment LIKE 'corrected: f%' OR l_discount IS NULL"},
            f"FROM ({replaced}) WHERE l_comment LIKE 'corrected: f%' OR l_discount IS NULL",
            lambda frames: laid(frames, keep=False).filter(
                pl.col("l_comment").str.starts_with("corrected: f") | pl.col("l_discount").is_null()
            ),
        ),
    ]


def _distinct() -> list[Case]:
    def asked(**rules: Any) -> dict[str, Any]:
        training = {"table": "tpch.lineitem", "distinct": rules}
        return {"dataset": dataset(training, orders(columns=["o_clerk"]), key=["l_orderkey"])}

    moment = ["ts", "orderkey", "linenumber"]
    scoped = {"by": ["suppkey"], "scope": "partition", "keep": "last", "order_by": moment}

    def daily(frames: Frames) -> pl.LazyFrame:
        left = frames("shipments").with_columns(today=pl.col("ts").cast(pl.Date))
        left = left.sort(moment, descending=True)
        return left.unique(["suppkey", "today"], keep="first", maintain_order=True)

    def sql(by: str, order: str) -> str:
        return f"""SELECT l.*, o_clerk FROM (FROM lineitem
            QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY {order}) = 1) l
            LEFT JOIN orders o {_JOIN_ORDERS}"""

    def winner(frames: Frames, by: list[str], order: list[str], descending: bool) -> pl.LazyFrame:
        left = frames("lineitem").sort(order, descending=descending)
        left = left.unique(by, keep="first", maintain_order=True)
        return left.join(frames("orders"), left_on="l_orderkey", right_on="o_orderkey", how="left")

    latest = ["l_shipdate", "l_linenumber"]
    return [
        Case(
            "distinct: the last by date of each order",
            asked(by=["l_orderkey"], keep="last", order_by=latest),
            sql("l_orderkey", "l_shipdate DESC, l_linenumber DESC"),
            lambda frames: winner(frames, ["l_orderkey"], latest, True),
        ),
        Case(
            "distinct: the first of each order and mode",
            asked(by=["l_shipmode", "l_orderkey"], order_by=["l_linenumber"]),
            sql("l_shipmode, l_orderkey", "l_linenumber"),
            lambda frames: winner(frames, ["l_shipmode", "l_orderkey"], ["l_linenumber"], False),
        ),
        Case(
            "distinct: the last of each supplier in each partition, null suppliers too",
            {"dataset": dataset({"table": "tpch.shipments", "distinct": scoped}, key=["suppkey"])},
            """FROM shipments QUALIFY row_number() OVER (PARTITION BY suppkey, ts::DATE
               ORDER BY ts DESC, orderkey DESC, linenumber DESC) = 1""",
            daily,
        ),
    ]


def _filters() -> list[Case]:
    both = "o_orderdate < DATE '1995-06-01' AND l_quantity > 25"
    either = "o_orderpriority IS NULL OR l_returnflag = 'R'"
    day = pl.date(1995, 6, 1)
    base = f"SELECT l.*, o.* EXCLUDE o_orderkey FROM lineitem l LEFT JOIN orders o {_JOIN_ORDERS}"
    return [
        Case(
            "filter: columns of both sides, each",
            {"dataset": lineitem(orders()), "filter": both},
            f"FROM ({base}) WHERE {both}",
            lambda frames: with_orders(frames).filter(
                (pl.col("o_orderdate") < day) & (pl.col("l_quantity") > 25)
            ),
        ),
        Case(
            "filter: columns of both sides, either",
            {"dataset": lineitem(orders()), "filter": either},
            f"FROM ({base}) WHERE {either}",
            lambda frames: with_orders(frames).filter(
                pl.col("o_orderpriority").is_null() | (pl.col("l_returnflag") == "R")
            ),
        ),
        Case(
            "filter: a prefix, some columns of each side",
            {
                "dataset": lineitem(orders()),
                "filter": "l_comment LIKE 'fu%'",
                "columns": ["l_orderkey", "l_comment", "o_comment"],
            },
            f"SELECT l_orderkey, l_comment, o_comment FROM ({base}) WHERE l_comment LIKE 'fu%'",
            lambda frames: with_orders(frames).filter(pl.col("l_comment").str.starts_with("fu")),
        ),
    ]


def _samples() -> list[Case]:
    def asked(start: float, end: float) -> dict[str, Any]:
        sample = {"hash": [start, end], "by": "request"}
        return {"dataset": lineitem(orders(columns=["o_clerk"])), "sample": sample}

    def sql(how: str) -> str:
        return f"""SELECT l.*, o_clerk FROM (FROM lineitem {how} JOIN sampled ON l_orderkey = orderkey) l
            LEFT JOIN orders o {_JOIN_ORDERS}"""

    def part(frames: Frames, how: str) -> pl.LazyFrame:
        left = frames("lineitem").join(frames("sampled"), left_on="l_orderkey", right_on="orderkey", how=how)
        return left.join(frames("orders"), left_on="l_orderkey", right_on="o_orderkey", how="left")

    return [
        Case("sample: a quarter", asked(0, 0.25), sql("SEMI"), lambda frames: part(frames, "semi")),
        Case("sample: its complement", asked(0.25, 0), sql("ANTI"), lambda frames: part(frames, "anti")),
    ]
