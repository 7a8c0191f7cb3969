"""What penstock promote --print spark prints, run by Spark, and the join that the product reads before."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from reading import BINARY, Reader, Row
from test_spark_joins import _LAYOUTS, Lake

pytestmark = pytest.mark.timeout(300)  # the first test starts Spark

_BY = {"table": "ml.stage", "key": {"k": "k"}}
# By name: entries of a dataset, and the columns that the training table gets from them.
_ENTRIES: dict[str, Row] = {
    "last": {"duplicates": "last", "order_by": ["version", "row"], "columns": [{"column": "v", "name": "v_last"}]},
    "first": {"duplicates": "first", "order_by": [{"column": "version", "order": "desc"}], "columns": [{"column": "row", "name": "row_first"}]},
    "written": {"duplicates": "last", "columns": [{"column": "row", "name": "row_written"}, {"column": "ts", "name": "ts_written"}]},
    "default": {"duplicates": "first", "columns": [{"column": "v", "name": "v_or_9"}], "missing": {"default": {"v_or_9": 9}}, "matched_as": "known"},
    "keep": {"duplicates": "last", "order_by": ["row"], "join": "overlay", "columns": ["label"], "nulls": "keep"},
    "replace": {"duplicates": "first", "order_by": ["row"], "join": "overlay", "columns": ["label"], "nulls": "replace"},
}  # fmt: skip
_SHOWN = ["item", "k", "label", "v_last", "row_first", "row_written", "ts_written", "v_or_9", "known"]


class Promotion(Reader):
    """A dataset over the tables of a lake, which is promoted."""

    def __init__(self, lake: Lake, staging: list[Row]) -> None:
        super().__init__(
            lake.folder, {"d": {"training": {"table": "ml.train"}, "key": ["k"], "staging": staging}}
        )
        self._lake = lake

    def run(self, *entries: str) -> str:
        """Has Spark run the printed SQL, which is returned."""
        command = [BINARY, "promote", "d", *entries, "--print", "spark", "--spark-catalog", "default"]
        found = subprocess.run(
            [*command, "--config", str(self._config)], capture_output=True, text=True, timeout=60
        )
        assert found.returncode == 0, found.stderr
        for statement in found.stdout.split(";\n"):
            if any(line and not line.startswith("--") for line in statement.splitlines()):
                self._lake.sql(statement)
        return found.stdout


def by_item(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["item"])


# spec: promote-60, promote-61
@pytest.mark.parametrize("layout", list(_LAYOUTS))
def test_the_table_has_what_is_read(jvm: Any, tmp_path: Path, layout: str) -> None:
    """Six entries in one statement: all rows have the values that reading gives."""
    lake = Lake(jvm, tmp_path, layout)
    promotion = Promotion(lake, [{**_BY, "name": name, **entry} for name, entry in _ENTRIES.items()])
    want = by_item(promotion.rows("d", columns=_SHOWN))
    assert len(want) == 180
    assert all(len({json.dumps(row[name]) for row in want}) > 1 for name in _SHOWN)
    promotion.run(*_ENTRIES)
    after = Promotion(lake, [])
    assert by_item(after.rows("d", columns=_SHOWN)) == want
    assert lake.sql("SELECT count(*) AS rows FROM default.ml.train") == [{"rows": len(want)}]
    # Of older partition specs, no file stays.
    assert len(lake.sql("SELECT DISTINCT spec_id FROM default.ml.train.files")) == 1


# spec: promote-60
def test_the_day_before(jvm: Any, tmp_path: Path) -> None:
    """An aligned entry takes the rows of the partition that the dataset names."""
    lake = Lake(jvm, tmp_path, "days")
    entry = {**_BY, **_ENTRIES["last"], "align": {"training": "day", "staging": "day", "lag": "1d"}}
    promotion = Promotion(lake, [entry])
    want = by_item(promotion.rows("d", columns=_SHOWN[:4]))
    assert {row["v_last"] for row in want} != {None}
    promotion.run("stage")
    assert by_item(Promotion(lake, []).rows("d", columns=_SHOWN[:4])) == want


# spec: promote-61
@pytest.mark.parametrize("rule", ["duplicates", "missing"])
def test_the_statement_fails_where_reading_does(jvm: Any, tmp_path: Path, rule: str) -> None:
    """Several rows of a key, or none, that the dataset does not allow end the statement."""
    lake = Lake(jvm, tmp_path, "no partitions")
    entry = {**_BY, "columns": ["v"]}
    entry |= {"duplicates": "error"} if rule == "duplicates" else {"duplicates": "last", "missing": "error"}
    before = lake.sql("SELECT * FROM default.ml.train ORDER BY item")
    with pytest.raises(Exception, match=r"entry stage has (several rows|no row) of a key"):
        Promotion(lake, [entry]).run("stage")
    assert lake.sql("SELECT item, k, day, ts, label FROM default.ml.train ORDER BY item") == [
        {name: row[name] for name in ("item", "k", "day", "ts", "label")} for row in before
    ]
