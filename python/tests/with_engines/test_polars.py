"""Lazy frames of Polars against the rows that were written, with predicates and streams that break."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_lake
import polars as pl
import pytest
from engine_lake import same
from engine_server import CUT, Asked, Served, Watched, check_example, cut, serve

import penstock
import penstock.polars


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("lake") / "lake") as started:
        yield started


def sorted_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.sort("row").to_dicts()


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a written row in the types of Polars: UUIDs are their bytes, and maps are dictionaries."""
    ident, counts = row["ident"], row["counts"]
    return {**row, "ident": ident and ident.bytes, "counts": None if counts is None else dict(counts)}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_values_of_each_type(served: Served, engine: Any) -> None:
    frame = penstock.polars.scan(served.client, "d", batch_rows=300)
    kinds = [pl.Time(), pl.Datetime("us"), pl.Datetime("us", "UTC"), pl.Binary(), pl.Binary()]
    schema = frame.collect_schema()
    assert [schema[name] for name in ("clock", "at", "atz", "ident", "fixed")] == kinds
    assert str(schema["counts"]).startswith("Map(")
    got = sorted_rows(frame.collect(engine=engine))
    want = [expected(row) for row in served.rows]
    for name in want[0]:
        assert [same(row[name]) for row in got] == [same(row[name]) for row in want], name


def test_forms_of_columns(served: Served) -> None:
    """Texts as codes are categories, a tensor is an array, and a renamed column keeps its own values."""
    frame = penstock.polars.scan(
        served.client,
        "d",
        columns=["row", {"column": "country", "name": "text", "as": "category"}],
        dense={"x": {"columns": ["row"], "fill": 0.5}},
        batch_rows=300,
    )
    assert [str(kind).partition("(")[0] for kind in frame.collect_schema().values()] == [
        "Int64",
        "Array",
        "Categorical",
    ]
    got = sorted_rows(frame.filter(pl.col("text") == "de").collect())
    want = [row["row"] for row in served.rows if row["country"] == "de"]
    assert [(row["row"], row["text"], list(row["x"])) for row in got] == [
        (at, "de", [float(at)]) for at in want
    ]


def test_only_what_a_query_needs_is_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = penstock.polars.scan(served.client, "d", filter="row >= 0", order="shuffled", seed=1)
    asked = Asked(monkeypatch, served.client)
    found = frame.filter(pl.col("l") == 7, pl.col("text").str.len_bytes() > 0).select("score").collect()
    assert found.columns == ["score"]
    (fields,) = asked.queries
    assert fields["filter"] == '(row >= 0) AND ("l" = 7)'
    assert fields["columns"] == ["l", "text", "score"]
    assert found.height == sum(r["l"] == 7 and bool(r["text"]) for r in served.rows)
    assert frame.select(pl.len()).collect().item() == len(served.rows)
    assert len(asked.queries[-1]["columns"]) == 1
    order = frame.select("row").collect()["row"].to_list()
    assert frame.select("row").head(9).collect()["row"].to_list() == order[:9]
    some = frame.filter(pl.col("i") < 5).select("row").head(11).collect()["row"].to_list()
    small = {r["row"] for r in served.rows if r["i"] is not None and r["i"] < 5}
    assert some == [at for at in order if at in small][:11]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("rows", [0, 1, 300, 1000, 5000])
def test_a_filter_of_the_first_rows(served: Served, rows: int, engine: Any) -> None:
    """Polars sends both to the source, and counts the rows before the filter."""
    frame = penstock.polars.scan(served.client, "d", batch_rows=300)
    local = pl.DataFrame(served.client.read("d", columns=["row", "i", "text"])).lazy()
    for predicate in (
        pl.col("i") == 0,
        pl.col("i") % 2 == 0,
        (pl.col("i") < 5) & pl.col("text").str.contains("a"),
    ):
        want = local.head(rows).filter(predicate).select("row").collect()["row"].to_list()
        assert (
            frame.head(rows).filter(predicate).select("row").collect(engine=engine)["row"].to_list() == want
        )
        both = (
            local.filter(predicate)
            .head(rows)
            .filter(pl.col("i") == 0)
            .select("row")
            .collect()["row"]
            .to_list()
        )
        found = (
            frame.filter(predicate).head(rows).filter(pl.col("i") == 0).select("row").collect(engine=engine)
        )
        assert found["row"].to_list() == both


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_queries_without_columns_keep_the_number_of_rows(served: Served, engine: Any) -> None:
    frame = penstock.polars.scan(served.client, "d", batch_rows=300)
    numbers = frame.with_row_index("number")
    rows = len(served.rows)
    assert numbers.select("number").collect(engine=engine)["number"].to_list() == list(range(rows))
    assert numbers.select(pl.col("number").max()).collect(engine=engine).item() == rows - 1
    assert numbers.head(7).select("number").collect(engine=engine)["number"].to_list() == list(range(7))
    kept = numbers.filter(pl.col("number") >= rows - 3).select("number").collect(engine=engine)
    assert kept["number"].to_list() == [rows - 3, rows - 2, rows - 1]
    assert (
        frame.select(pl.lit(1, pl.Int8).repeat_by(pl.len()).explode().sum()).collect(engine=engine).item()
        == rows
    )


def test_conditions_that_are_too_long_are_not_sent(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = penstock.polars.scan(served.client, "d", columns=["row", "i"])
    asked = Asked(monkeypatch, served.client)
    kept = frame.filter(pl.col("i") == 0, pl.col("row").is_in(list(range(20_000)))).collect()
    assert kept.height == sum(r["i"] == 0 for r in served.rows)
    deep = pl.col("i") == 0
    for _ in range(100):
        deep = ~(deep & (pl.col("row") < len(served.rows)))
    assert frame.filter(deep).collect().height == kept.height
    assert [fields.get("filter") for fields in asked.queries] == ['("i" = 0)', None]


def literal(rng: random.Random, name: str) -> Any:
    """Returns a value to compare a column with, of its own type or of another one."""
    day = datetime.date(2026, 10, rng.randrange(1, 30))
    noon = datetime.datetime(2026, 10, rng.randrange(1, 30), 12, 0, 0, rng.choice([0, 1]))
    values: dict[str, list[Any]] = {
        "i": [0, 1, -1, 7, 2**31 - 1, 2**40, 1.5],
        "l": [0, 7, 2**53, 2**53 + 1, 2**63 - 1, 2.0**53, 0.5, decimal.Decimal("7.5")],
        "d": [*engine_lake.DOUBLES, 1, decimal.Decimal("1.5")],
        "f": [*engine_lake.FLOATS, 0.1, 1],
        "price": [decimal.Decimal("9.99"), decimal.Decimal("10"), decimal.Decimal("9.995"), 10, 9.99],
        "big": [decimal.Decimal("0"), decimal.Decimal("1.5"), 0],
        "day": [day, noon],
        "at": [noon, day],
        "atz": [noon.replace(tzinfo=datetime.UTC)],
        "text": [*engine_lake.TEXTS, "z"],
        "country": ["de", "", "x"],
        "score": [0.5, float("nan")],
        "flag": [True, False],
        "clock": [datetime.time(12), datetime.time(0)],
    }
    return rng.choice(values[name])


NAMES = ("i", "l", "d", "f", "price", "big", "day", "at", "atz", "text", "country", "score", "flag", "clock")


def condition(rng: random.Random, depth: int = 0) -> pl.Expr:
    """Returns a random predicate."""
    kind = rng.randrange(10 if depth < 2 else 7)
    if kind == 7:
        return ~condition(rng, depth + 1)
    if kind == 8:
        return condition(rng, depth + 1) & condition(rng, depth + 1)
    if kind == 9:
        return condition(rng, depth + 1) | condition(rng, depth + 1)
    name = rng.choice(NAMES)
    column, value = pl.col(name), literal(rng, name)
    other = literal(rng, name)
    if kind == 0:
        return rng.choice([column.is_null(), column.is_not_null(), pl.col("flag")])
    if kind == 1 and type(value) is type(other) and not isinstance(value, float):
        return column.is_in([value, other])
    if kind == 2 and type(value) is type(other):
        return column.is_between(pl.lit(value), pl.lit(other), closed=rng.choice(["both", "left", "none"]))
    if kind == 3:
        return pl.col("text").str.starts_with(rng.choice(["", "a", "a%", "z"]))
    first, second = (column, pl.lit(value)) if rng.random() < 0.8 else (pl.lit(value), column)
    operators = [
        first.__eq__(second),
        first.__ne__(second),
        first.__lt__(second),
        first.__le__(second),
        first.__gt__(second),
        first.__ge__(second),
        first.eq_missing(second),
    ]
    return rng.choice(operators)


@pytest.mark.parametrize("seed", range(6))
def test_predicates_keep_the_answers_of_polars(
    served: Served, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rows of random predicates are those that Polars finds in a frame of all rows."""
    frame = penstock.polars.scan(served.client, "d", columns=["row", *NAMES])
    local = pl.DataFrame(served.client.read("d", columns=["row", *NAMES])).lazy()
    asked = Asked(monkeypatch, served.client)
    rng, some = random.Random(seed), 0
    for _ in range(60):
        predicate = condition(rng)
        try:
            want = sorted(local.filter(predicate).select("row").collect()["row"])
        except pl.exceptions.InvalidOperationError:  # is_in with values of another type
            continue
        got = sorted(frame.filter(predicate).select("row").collect()["row"])
        assert got == want, predicate
        some += 0 < len(want) < len(served.rows)
    assert some > 20
    assert sum("filter" in fields for fields in asked.queries) > 25, "most predicates are sent to the server"


def test_conditions_come_after_distinct(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query's filter comes before it, and would keep another row of a request."""
    distinct = {"by": ["request_id"], "keep": "last", "order_by": ["row"]}
    dataset = {"training": {"table": "ml.events", "distinct": distinct}, "key": ["request_id"]}
    frame = penstock.polars.scan(served.client, dataset)
    asked = Asked(monkeypatch, served.client)
    last = {row["request_id"]: row for row in served.rows}
    found = frame.filter(pl.col("i") == 0).select("row").collect()["row"]
    assert sorted(found) == sorted(row["row"] for row in last.values() if row["i"] == 0)
    assert "filter" not in asked.queries[0]


def test_collections_read_the_snapshots_of_the_frame(tmp_path: Path) -> None:
    with serve(tmp_path / "lake") as served:
        frame = penstock.polars.scan(served.client, "d")
        engine_lake.append(served.folder)
        for _ in range(2):
            assert frame.select("row", "score").collect().height == len(served.rows)
        assert (
            penstock.polars.scan(served.client, "d").select(pl.len()).collect().item() == len(served.rows) + 1
        )


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_broken_stream_raises(served: Served, engine: Any) -> None:
    with cut(served) as (address, proxy), penstock.connect(address, reconnect=0) as client:
        frame = penstock.polars.scan(client, "d", batch_rows=50)
        assert frame.collect(engine=engine).height == len(served.rows)
    with cut(served) as (address, proxy), penstock.connect(address, reconnect=0) as client:
        proxy.cut_after(CUT)
        frame = penstock.polars.scan(client, "d", batch_rows=50)
        with pytest.raises(penstock.Unavailable):
            frame.collect(engine=engine)
        assert proxy.cuts == 1


def test_memory_of_a_stream_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = penstock.polars.scan(served.client, "d", batch_rows=50)
    watched = Watched(monkeypatch)
    found = frame.group_by("country").agg(pl.col("d").max(), pl.len()).collect(engine="streaming")
    assert found["len"].sum() == len(served.rows)
    assert watched.batches >= 80
    assert watched.largest < watched.whole / 3


def test_the_example(served: Served) -> None:
    check_example("polars_scan.py", served)
