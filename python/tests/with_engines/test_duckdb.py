"""Streams in DuckDB against the rows that were written, with memory that is bounded and streams that break."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from engine_lake import same
from engine_server import CUT, Served, Watched, check_example, cut, serve

import penstock

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("lake") / "lake") as started:
        yield started


@pytest.fixture
def session() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def fetched(session: Any, text: str) -> list[dict[str, Any]]:
    found = session.execute(text)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_values_of_each_type(served: Served, session: Any) -> None:
    session.register("rows", served.client.read("d", batch_rows=300))
    described = {row[0]: row[1] for row in session.execute("DESCRIBE rows").fetchall()}
    kinds = ("TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID", "BLOB", "MAP(VARCHAR, BIGINT)")
    names = ("clock", "at", "atz", "ident", "fixed", "counts")
    assert tuple(described[name] for name in names) == kinds
    # Without pytz, DuckDB gives no timestamps with time zones to Python.
    got = fetched(session, "SELECT * REPLACE (epoch_us(atz) AS atz) FROM rows ORDER BY row")
    for name in served.rows[0]:
        want = [row[name] for row in served.rows]
        if name == "counts":
            want = [None if one is None else dict(one) for one in want]
        if name == "atz":
            want = [one and (one - EPOCH) // datetime.timedelta(microseconds=1) for one in want]
        assert [same(row[name]) for row in got] == [same(one) for one in want], name


def test_forms_of_columns(served: Served, session: Any) -> None:
    """Texts as codes are enumerations or texts, and a tensor is an array."""
    stream = served.client.read(
        "d",
        columns=["row", {"column": "country", "as": "category"}],
        dense={"x": {"columns": ["row"], "fill": 0.5}},
        batch_rows=300,
    )
    session.register("rows", stream)
    assert session.execute("DESCRIBE rows").fetchall()[1][:2] == ("x", "FLOAT[1]")
    got = fetched(session, "FROM rows ORDER BY row")
    want = [(row["row"], row["country"], [float(row["row"])]) for row in served.rows]
    assert [(row["row"], row["country"], list(row["x"])) for row in got] == want


def test_a_stream_is_read_once(served: Served, session: Any) -> None:
    """A second query over a stream fails; it does not find an empty table."""
    session.register("rows", served.client.read("d", columns=["row"]))
    assert fetched(session, "SELECT count(*) AS n FROM rows") == [{"n": len(served.rows)}]
    with pytest.raises(Exception, match="already read to its end"):
        fetched(session, "SELECT count(*) AS n FROM rows")


def test_a_stream_that_was_read_in_part_is_refused(served: Served, session: Any) -> None:
    """After a query that did not need all rows, the next one fails; it does not count the rest as if it were the whole."""
    stream = served.client.read("d", columns=["row"], batch_rows=100)
    session.register("rows", stream)
    assert len(fetched(session, "FROM rows LIMIT 5")) == 5
    with pytest.raises(Exception, match="another query has read a part of the stream"):
        fetched(session, "SELECT count(*) AS n FROM rows")
    assert len(list(stream)) > 0, "its own loop goes on"


def test_a_broken_stream_raises(served: Served, session: Any) -> None:
    with cut(served) as (address, proxy), penstock.connect(address, reconnect=0) as client:
        proxy.cut_after(CUT)
        session.register("rows", client.read("d", batch_rows=50))
        with pytest.raises(Exception, match=r"Unavailable|Stream removed"):
            fetched(session, "SELECT count(*), max(d) FROM rows")
        assert proxy.cuts == 1


def test_memory_of_a_stream_is_bounded(served: Served, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute("SET threads = 2")
    watched = Watched(monkeypatch)
    session.register("rows", served.client.read("d", batch_rows=50))
    found = fetched(session, "SELECT country, count(*) AS n, max(d) FROM rows GROUP BY country")
    assert sum(row["n"] for row in found) == len(served.rows)
    assert watched.batches >= 80
    assert watched.largest < watched.whole / 3


def test_the_example(served: Served) -> None:
    check_example("duckdb_stream.py", served)
