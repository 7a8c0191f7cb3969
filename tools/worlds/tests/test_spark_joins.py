"""Joins over tables that Spark wrote, with the answers of Spark's SQL, row by row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from reading import Reader, Row
from spark_session import attach

# By name: how the training table is partitioned, and the staging table, whose
# partitions change from commit to commit; and the type of the key.
_LAYOUTS: dict[str, tuple[list[str], list[str], str]] = {
    "8 and 12 buckets": (["bucket(8, k)"], ["bucket(12, k)"], "bigint"),
    "buckets that grew": (["bucket(4, k)"], ["bucket(4, k)", "bucket(16, k)", "bucket(6, k)"], "string"),
    "days": (["day, bucket(2, k)"], ["day, bucket(6, k)"], "bigint"),
    "no partitions": ([], [], "string"),
}
_ORDER = ["version", "row"]
# The first and the last of a key by (version, row): nulls stand last.
_FIRST = "version ASC NULLS LAST, row ASC"
_LAST = "version DESC NULLS FIRST, row DESC"


def one(order: str) -> str:
    """The staging rows, one of each key."""
    return (
        f"(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY {order}) AS nth "
        "FROM default.ml.stage) WHERE nth = 1)"
    )


def beside(kind: str, staging: str, on: str = "t.k = s.k") -> str:
    """Staging columns beside the training table's."""
    return f"SELECT t.item, t.k, t.label, s.row, s.v FROM default.ml.train t {kind} JOIN {staging} s ON {on}"


def only(kind: str) -> str:
    """Training rows with a match, or without."""
    return f"SELECT t.item, t.k, t.label FROM default.ml.train t LEFT {kind} JOIN default.ml.stage s ON t.k = s.k"


def over(label: str) -> str:
    """Training rows with another label."""
    return (
        f"SELECT t.item, t.k, {label} AS label FROM default.ml.train t LEFT JOIN {one(_LAST)} s ON t.k = s.k"
    )


# The latest staging row of the last 30 hours; of several, the one of the highest number.
_IN_TIME = """SELECT item, k, label, row, v FROM (
  SELECT t.item, t.k, t.label, s.row, s.v,
    row_number() OVER (PARTITION BY t.item ORDER BY s.ts DESC, s.row DESC) AS nth
  FROM default.ml.train t LEFT JOIN default.ml.stage s
  ON t.k = s.k AND s.ts <= t.ts AND s.ts >= t.ts - INTERVAL 30 HOURS) WHERE nth = 1"""

_SHOWN = ["row", "v"]
_STAGE = "default.ml.stage"
# By name: what a staging entry says beside table and key, and Spark's words for it.
_RULES: dict[str, tuple[Row, str]] = {
    "left, all": ({"duplicates": "all", "columns": _SHOWN}, beside("LEFT", _STAGE)),
    "inner, all": ({"join": "inner", "duplicates": "all", "columns": _SHOWN}, beside("INNER", _STAGE)),
    "left, first": (
        {"duplicates": "first", "order_by": _ORDER, "columns": _SHOWN},
        beside("LEFT", one(_FIRST)),
    ),
    "left, last": ({"duplicates": "last", "order_by": _ORDER, "columns": _SHOWN}, beside("LEFT", one(_LAST))),
    "inner, last": (
        {"join": "inner", "duplicates": "last", "order_by": _ORDER, "columns": _SHOWN},
        beside("INNER", one(_LAST)),
    ),
    "left, filtered": (
        {"duplicates": "all", "columns": _SHOWN, "filter": "v >= 5 OR v IS NULL"},
        beside("LEFT", f"(SELECT * FROM {_STAGE} WHERE v >= 5 OR v IS NULL)"),
    ),
    "semi": ({"join": "semi"}, only("SEMI")),
    "anti": ({"join": "anti"}, only("ANTI")),
    "overlay, nulls replace": (
        {
            "join": "overlay",
            "duplicates": "last",
            "order_by": _ORDER,
            "columns": ["label"],
            "nulls": "replace",
        },
        over("CASE WHEN s.row IS NULL THEN t.label ELSE s.label END"),
    ),
    "overlay, nulls keep": (
        {"join": "overlay", "duplicates": "last", "order_by": _ORDER, "columns": ["label"], "nulls": "keep"},
        over("coalesce(s.label, t.label)"),
    ),
    "in time": (
        {
            "duplicates": "last",
            "order_by": ["row"],
            "columns": _SHOWN,
            "point_in_time": {"training": "ts", "staging": "ts", "tolerance": "30h"},
        },
        _IN_TIME,
    ),
}
_ALIGNED: Row = {
    "duplicates": "all",
    "columns": _SHOWN,
    "align": {"training": "day", "staging": "day", "lag": "1d"},
}


class Lake:
    """Two tables in a layout."""

    def __init__(self, spark: Any, folder: Path, layout: str) -> None:
        self.spark, self.folder, self._draw = spark.newSession(), folder, random.Random(layout)
        attach(self.spark, folder, "default")
        self.sql("CREATE NAMESPACE default.ml")
        training, staging, self._key = _LAYOUTS[layout]
        columns = f"k {self._key}, day date, ts timestamp_ntz, label bigint"
        self._write("train", f"item bigint NOT NULL, {columns}", training, self._train)
        self._write(
            "stage", f"row bigint NOT NULL, {columns}, v bigint, version bigint", staging, self._stage
        )

    def sql(self, text: str) -> list[Row]:
        return [row.asDict() for row in self.spark.sql(text).collect()]

    def _write(self, name: str, columns: str, specs: list[str], row: Any) -> None:
        """Makes a table and appends to it three times, in one spec after the other."""
        partitioned = f"PARTITIONED BY ({specs[0]})" if specs else ""
        self.sql(
            f"CREATE TABLE default.ml.{name} ({columns}) USING iceberg {partitioned} "
            "TBLPROPERTIES ('format-version' = '2')"
        )
        for commit in range(3):
            if 0 < commit < len(specs):
                self.sql(
                    f"ALTER TABLE default.ml.{name} REPLACE PARTITION FIELD {specs[commit - 1]} WITH {specs[commit]}"
                )
            rows = ", ".join(row(100 * commit + i) for i in range(60))
            self.sql(f"INSERT INTO default.ml.{name} VALUES {rows}")

    def _maybe(self, text: str) -> str:
        return "NULL" if self._draw.randrange(8) == 0 else text

    def _key_columns(self) -> str:
        key = self._draw.randrange(40)
        hour = self._draw.randrange(96)
        return ", ".join(
            [
                self._maybe(f"'k{key}'" if self._key == "string" else str(key - 20)),
                f"date'1969-12-30' + {hour // 24}",
                f"timestamp_ntz'1969-12-30 00:00:00' + INTERVAL {hour} HOURS",
                self._maybe(str(self._draw.randrange(3))),
            ]
        )

    def _train(self, item: int) -> str:
        return f"({item}, {self._key_columns()})"

    def _stage(self, row: int) -> str:
        v, version = self._draw.randrange(10), self._draw.randrange(4)
        return f"({row}, {self._key_columns()}, {self._maybe(str(v))}, {self._maybe(str(version))})"


@pytest.fixture(scope="module", params=list(_LAYOUTS))
def lake(request: pytest.FixtureRequest, jvm: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(jvm, tmp_path_factory.mktemp("lake"), request.param)


def agree(lake: Lake, entry: Row, sql: str) -> None:
    """The product gives Spark's rows, each as often."""
    staging = {"table": "ml.stage", "key": {"k": "k"}, **entry}
    dataset = {"training": {"table": "ml.train"}, "key": ["k"], "staging": [staging]}
    want = sorted(lake.sql(sql), key=_by_number)
    got = Reader(lake.folder, {"d": dataset}).rows("d", columns=list(want[0]))
    assert sorted(got, key=_by_number) == want


def _by_number(row: Row) -> tuple[int, int]:
    number = row.get("row")
    return row["item"], -1 if number is None else number


@pytest.mark.parametrize("rule", list(_RULES))
def test_joins(lake: Lake, rule: str) -> None:
    agree(lake, *_RULES[rule])


def test_the_day_before(jvm: Any, tmp_path: Path) -> None:
    lake = Lake(jvm, tmp_path, "days")
    agree(lake, _ALIGNED, beside("LEFT", _STAGE, "t.k = s.k AND s.day = date_sub(t.day, 1)"))
