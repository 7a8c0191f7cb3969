"""A backfill of table T from the first stage to the last undo, by pages alone, while all that takes part is killed.

With PENSTOCK_LONG, T has 4,000,000 rows, and otherwise 40,000.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import Browser
from pyiceberg.catalog.sql import SqlCatalog
from server import BINARY
from test_changes_by_pages import CONFIRM, Ui
from test_promotions_by_pages import RUN, child_of, done, gone, until

LONG = "PENSTOCK_LONG" in os.environ
TABLES = Path(__file__).parents[3] / "benchmarks" / "tables.py"
STAGED = "bench.scores"
CONFIG = """
catalogs:
  default: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse", writes: {{namespaces: [bench]}}}}
datasets:
  t:
    training: {{table: bench.t}}
    key: [request_id]
    staging: [{{table: bench.staging}}, {{table: bench.scores, name: scores}}]
"""
# Of a row: whether a request has a score, which rows are staged to main before the backfill, and the score.
SCORE = (
    "CASE WHEN abs(hash(request_id)::HUGEINT) % 10 < {below} THEN (hash(request_id) % 1000003)::BIGINT END"
)


class T:
    """Table T, and files with the scores of its requests."""

    def __init__(self, folder: Path) -> None:
        made = [sys.executable, str(TABLES), str(folder), *([] if LONG else ["--quick"])]
        subprocess.run(made, check=True, cwd=TABLES.parent)
        self.folder = folder
        self.config = folder / "changing.yaml"
        self.config.write_text(CONFIG.format(folder=folder))
        self.catalog = SqlCatalog(
            "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        with duckdb.connect() as db:
            db.register("t", self.rows("bench.t", "request_id"))
            for name, below, above in (("first", 1, 0), ("more", 9, 1)):
                found = db.sql(
                    f"SELECT DISTINCT request_id, {SCORE.format(below=below)} AS score FROM t"
                    f" WHERE abs(hash(request_id)::HUGEINT) % 10 BETWEEN {above} AND {below - 1}"
                )
                pq.write_table(found.to_arrow_table(), folder / f"{name}.parquet")

    def rows(self, table: str, *columns: str) -> pa.Table:
        """The rows of main, as PyIceberg reads them."""
        found = self.catalog.load_table(table).scan(selected_fields=columns or ("*",)).to_arrow()
        self.catalog.engine.dispose()
        return found

    def main(self, table: str) -> int:
        current = self.catalog.load_table(table).current_snapshot()
        self.catalog.engine.dispose()
        assert current is not None
        return int(current.snapshot_id)

    def stage(self, *args: str) -> None:
        subprocess.run(
            [str(BINARY), "stage", STAGED, *args, "--config", str(self.config), "--no-check"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def digest(self, without: str = "score") -> list[tuple[object, ...]]:
        """Digests of all rows of T: each column's, whatever the order of rows, without one column."""
        rows = self.rows("bench.t")
        with duckdb.connect() as db:
            db.register("t", rows)
            names = [name for name in rows.column_names if name != without]
            sums = ", ".join(f'sum(hash(request_id, "{name}")::HUGEINT)' for name in names)
            return db.sql(f"SELECT count(*), {sums} FROM t").fetchall()

    def wrong(self) -> int:
        """The number of rows of T whose score is not that of the join by definition."""
        with duckdb.connect() as db:
            db.register("t", self.rows("bench.t", "request_id", "score"))
            wrong = f"SELECT count(*) FROM t WHERE score IS DISTINCT FROM {SCORE.format(below=9)}"
            return int(db.sql(wrong).fetchall()[0][0])


def count(t: T) -> int:
    return int(t.rows(STAGED, "request_id").num_rows)


def confirm(t: T, page: str, over: str, rng: random.Random) -> int:
    """Sends the form of a page again and again, while the browser or the pages are killed. Returns the number of kills."""
    kills = 0
    for victim, patience in (
        ("browser", 0.0),
        ("pages", 0.002),
        ("browser", 0.01),
        ("pages", 0.05),
        (None, 0.0),
    ):
        with Ui("--config", str(t.config)) as ui:
            browser = Browser(1280, 900).__enter__()
            try:
                browser.open(ui.link)
                browser.open(ui.base + page)
                if not browser.run("return document.getElementById('confirm') !== null"):
                    return kills  # it is made
                if victim is None:
                    browser.run(CONFIRM)
                    browser.wait(f"return location.pathname.startsWith({over!r})")
                    return kills
                browser.run(f"setTimeout(() => {CONFIRM}, 0)")
                time.sleep(rng.random() * patience)
                kills += 1
                if victim == "pages":
                    ui.kill()
            finally:
                if victim == "browser":
                    browser.kill()
                browser.__exit__()
    raise AssertionError(page)


# spec: ui-22, ui-26, ui-27, promote-6
@pytest.mark.timeout(3000)
def test_a_backfill_by_pages(tmp_path: Path) -> None:
    rng = random.Random(11)
    t = T(tmp_path / "t")
    before, times = t.digest(), {}
    t.stage(str(t.folder / "first.parquet"), "--key", "request_id", "--like", "bench.t")
    first, rows = t.main(STAGED), count(t)
    t.stage(str(t.folder / "more.parquet"), "--branch", "backfill")

    # Seen and published.
    with Ui("--config", str(t.config)) as ui, Browser(1280, 900) as browser:
        browser.open(ui.link)
        browser.open(f"{ui.base}/backfills/{STAGED}?branch=backfill")
        text = browser.run("return document.querySelector('main').textContent")
        assert "can be published" in text
        assert count(t) == rows
    snapshots = len(t.catalog.load_table(STAGED).history())
    kills = {"publish": confirm(t, f"/publish/{STAGED}?branch=backfill", "/moved/", rng)}
    published = t.main(STAGED)
    assert count(t) > 8 * rows
    assert len(t.catalog.load_table(STAGED).history()) == snapshots + 1, "it was published once"

    # Promoted: the child is killed, the pages are, and the browser is.
    kills["promote"] = 0
    began = time.monotonic()
    for victim in ("child", "pages", "child", "browser", "pages", "child", "pages", None):
        with Ui("--config", str(t.config)) as ui, Browser(1280, 900) as browser:
            browser.open(ui.link)
            browser.open(f"{ui.base}/promotions/t?entry=scores")
            browser.wait("return document.getElementById('dry-run')", 300)
            if not browser.run("return document.getElementById('confirm') !== null"):
                break
            browser.run(CONFIRM)
            browser.wait(f"return {RUN} !== undefined")
            child = child_of(ui)
            if victim is None:
                browser.wait(f"return {RUN} === 'false'", 1200)
                done(browser)
                break
            time.sleep(rng.random() * (3 if LONG else 0.2))
            kills["promote"] += not gone(child)
            if victim == "child" and child is not None and not gone(child):
                os.kill(child, signal.SIGKILL)
            if victim == "browser":
                browser.kill()
            if victim == "pages":
                ui.kill()
                until(partial(gone, child))
    times["promote"] = round(time.monotonic() - began, 1)
    assert t.digest() == before, "other columns are as they were"
    assert t.wrong() == 0

    # Undone.
    kills["demote"] = confirm(t, "/demote/bench.t?column=score", "/demote/", rng)
    assert "score" not in t.rows("bench.t", "request_id").column_names
    assert "score" not in t.catalog.load_table("bench.t").schema().column_names
    assert t.digest() == before
    with Ui("--config", str(t.config)) as ui, Browser(1280, 900) as browser:
        browser.open(ui.link)
        browser.open(f"{ui.base}/undo/{STAGED}")
        assert str(published) in browser.run("return document.querySelector('main').textContent")
    kills["undo"] = confirm(t, f"/undo/{STAGED}", "/moved/", rng)
    assert t.main(STAGED) == first
    assert count(t) == rows
    print({"rows": before[0][0], "kills": kills, "seconds": times})
