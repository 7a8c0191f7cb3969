"""Rows that DuckDB computes from tables of a server, and that are staged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from server import Server

import penstock
from penstock.sqlrows import names_in

CASES = Path(__file__).parents[2] / "cmd" / "penstock" / "duckdb" / "testdata" / "names.json"
CASES_OF_SQL = json.loads(CASES.read_text())  # of the command line, too


@pytest.mark.parametrize("case", CASES_OF_SQL, ids=[case["sql"] for case in CASES_OF_SQL])
def test_names_are_those_that_the_command_line_finds(case: dict[str, Any]) -> None:
    if case.get("refused"):
        with pytest.raises(penstock.Invalid):
            names_in(case["sql"], duckdb.connect())
        return
    names = names_in(case["sql"], duckdb.connect())
    assert sorted(names.tables) == case["tables"]
    assert names.pinned == case["pinned"]
    if names.tables:
        assert names.needs(["a", "B", "c"]) == case["needs"]


class House:
    """A catalog with the table features.history, and a server that writes to its namespace."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        self.catalog.create_namespace("features")
        table = self.catalog.create_table("features.history", self.table().schema)
        table.append(self.table())
        self.config = folder / "penstock.yaml"
        self.config.write_text(
            f"catalogs: {{default: {{type: sql, uri: 'sqlite:///{folder}/catalog.db',"
            f" warehouse: 'file://{folder}/warehouse', writes: {{namespaces: [features]}}}}}}\n"
        )

    @staticmethod
    def table() -> pa.Table:
        return pa.table(
            {
                "id": pa.array([1, 2, 3, 4], pa.int64()),
                "country": ["CH", "CH", "DE", None],
                "clicks": pa.array([3, 4, None, 5], pa.int64()),
                "unread": pa.array([[1.5], None, [], [2.5]], pa.list_(pa.float64())),
            }
        )

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table, read by another program."""
        found = self.catalog.load_table(name).scan().to_arrow().to_pylist()
        return sorted(found, key=str)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


SUMS = (
    "SELECT country, sum(clicks) AS clicks, count(*)::UTINYINT AS n FROM features.history GROUP BY country;"
)


def test_rows_of_sql_are_staged(house: House, client: penstock.Client, tmp_path: Path) -> None:
    """The SQL reads tables of the server, by each of their names and as often as it names them, and files.

    spec: stage-180, stage-181, stage-183
    """
    staged = client.stage("features.sums", sql=SUMS, key=["country"], buckets=2)
    assert (staged.rows, staged.existed) == (3, False)
    assert house.rows("features.sums") == [
        {"country": "CH", "clicks": 7, "n": 2},
        {"country": "DE", "clicks": None, "n": 1},
        {"country": None, "clicks": 5, "n": 1},
    ]
    again = client.stage("features.sums", sql=SUMS, key=["country"])
    assert (again.existed, again.snapshot) == (True, staged.snapshot)
    house.catalog.load_table("features.history").append(house.table().slice(3))
    assert not client.stage("features.sums", sql=SUMS, key=["country"], allow_duplicates=True).existed

    pq.write_table(pa.table({"id": [1, 4], "factor": [10, 100]}), tmp_path / "factors.parquet")
    client.stage(
        "features.products",
        sql=f"""WITH h AS (SELECT * FROM "default".features.history)
            SELECT a.id, min(a.clicks * factor) AS clicks, count(*) AS pairs, any_value(a) AS whole
            FROM h a JOIN features.history b USING (id) JOIN '{tmp_path}/factors.parquet' f ON f.id = a.id GROUP BY a.id""",
        key=["id"],
        buckets=2,
    )
    products = house.rows("features.products")
    assert [(row["id"], row["clicks"], row["pairs"]) for row in products] == [(1, 30, 1), (4, 500, 4)]
    assert products[0]["whole"] == {"id": 1, "country": "CH", "clicks": 3, "unread": [1.5]}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", 'DuckDB: syntax error at or near "SELEC"'),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT clikcs FROM features.history", 'Referenced column "clikcs" not found'),
        ("SELECT id, country AS ID FROM features.history", "several columns named ID"),
        ("SELECT CAST(country AS BIGINT) AS id FROM features.history", "Conversion Error"),
        ("SELECT list(n) AS id FROM (SELECT sum(id) AS n FROM features.history)", "HUGEINT"),
        ("SELECT id FROM features.history AT (VERSION => 1)", "read with AT"),
        (
            "SELECT 170141183460469231731687303715884105727::HUGEINT AS id FROM features.history",
            "out of range",
        ),
    ],
)
def test_wrong_sql_writes_nothing(house: House, client: penstock.Client, sql: str, message: str) -> None:
    """Errors of DuckDB have its text.

    spec: stage-180, stage-186
    """
    with pytest.raises(penstock.Invalid, match=message):
        client.stage("features.wrong", sql=sql, key=["id"], buckets=2)
    assert not house.catalog.table_exists("features.wrong")


def test_failures_of_tables_are_raised_as_they_are(client: penstock.Client) -> None:
    """A table that the server does not have is its error, not DuckDB's.

    spec: stage-181
    """
    with pytest.raises(penstock.NotFound, match="histroy"):
        client.stage("features.wrong", sql="SELECT * FROM features.histroy", key=["id"], buckets=2)
    with pytest.raises(penstock.Invalid, match="or sql must be given"):
        client.stage("features.wrong")
