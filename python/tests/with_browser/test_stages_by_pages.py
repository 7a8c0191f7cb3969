"""Rows that the pages of penstock ui stage, in a browser, and kills of the process that stages."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import Browser
from lake import Lake, Row
from pyiceberg.types import LongType
from test_changes_by_pages import CONFIRM, Ui
from test_promotions_by_pages import RUN, child_of, until

TABLE = "features.scores"
ROWS = 400_000


def lake_of(folder: Path) -> tuple[Lake, Path]:
    """A training table, and files with the rows of a staging table that does not exist."""
    lake = Lake(folder)
    rows: list[Row] = [{"id": i} for i in range(1000)]
    lake.write("ml.rows", {"id": LongType()}, ("id", 4), rows)
    staging = [{"table": TABLE, "name": "scores"}]
    home = {"training": {"table": "ml.rows"}, "key": ["id"], "staging": staging}
    config = lake.config({"home": home}, writes={"namespaces": ["features"]})
    for name, ids in {
        "first": range(500),
        "second": range(500, 1000),
        "large": range(ROWS, 2 * ROWS),
    }.items():
        pq.write_table(pa.table({"id": list(ids), "score": [3 * i for i in ids]}), folder / f"{name}.parquet")
    return lake, config


def rows(lake: Lake, branch: str = "main") -> list[tuple[int, int]]:
    """The rows of a branch, as PyIceberg reads them."""
    table = lake.catalog.load_table(TABLE)
    found = table.scan(snapshot_id=table.refs()[branch].snapshot_id).to_arrow().to_pylist()
    lake.catalog.engine.dispose()
    return sorted((row["id"], row["score"]) for row in found)


def expected(*ids: range) -> list[tuple[int, int]]:
    return [(i, 3 * i) for one in ids for i in one]


def fill(browser: Browser, **fields: object) -> None:
    """Fills fields of the form and sends it."""
    for name, value in fields.items():
        browser.run(f"document.querySelector('main [name={name}]').value = {json.dumps(str(value))}")
    browser.run("document.title = 'before'")
    browser.run(CONFIRM)
    browser.wait(f"return document.title !== 'before' && {RUN} !== undefined")


def staged(browser: Browser) -> str:
    """Waits for the end of the stage, and returns the text of the page."""
    browser.wait("return document.getElementById('staged') !== null")
    text: str = browser.run("return document.querySelector('main').textContent")
    assert "The stage has ended" in text, text
    return text


# spec: ui-28
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_stage_to_a_new_table_and_to_a_branch(tmp_path: Path, width: int, dark: bool) -> None:
    lake, config = lake_of(tmp_path / "lake")
    with Ui("--config", str(config)) as ui, Browser(width, 900, dark=dark) as browser:
        browser.open(ui.link)
        browser.open(f"{ui.base}/stage/{TABLE}?like=ml.rows&key=id")
        fill(browser, files=lake.folder / "first.parquet")
        staged(browser)
        assert rows(lake) == expected(range(500))
        browser.open(f"{ui.base}/stage/{TABLE}?branch=candidate")
        fill(browser, files=lake.folder / "second.parquet")
        assert "Look at the rows" in staged(browser)
        browser.wait("return document.getElementById('confirm') !== null")
        browser.picture(tmp_path / "staged.png")
        sizes = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        wide, view = browser.run(sizes)
        assert wide <= view
        assert rows(lake) == expected(range(500))
        assert rows(lake, "candidate") == expected(range(1000))
        browser.run(
            "[...document.querySelectorAll('main a')].find(a => a.textContent == 'Look at the rows').click()"
        )
        browser.wait("return document.querySelector('h1').textContent.includes('candidate')")


# spec: ui-28
def test_the_layout_of_a_new_backfill_is_staged(tmp_path: Path) -> None:
    lake, config = lake_of(tmp_path / "lake")
    lake.write(TABLE, {"id": LongType(), "score": LongType()}, ("id", 4), [{"id": 1, "score": 1}])
    file = lake.folder / "clicks.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "clicks": [10, 20, 30]}), file)
    with Ui("--config", str(config)) as ui, Browser(1280, 900) as browser:
        browser.open(ui.link)
        browser.open(
            f"{ui.base}/backfills/new?dataset=home&table=features.clicks&columns=clicks:bigint&buckets=2"
        )
        browser.run("document.querySelector('main a[href^=\"/stage/features.clicks\"]').click()")
        browser.wait("return document.querySelector('main [name=files]') !== null")
        fill(browser, files=file)
        staged(browser)
        table = lake.catalog.load_table("features.clicks")
        assert [str(field.transform) for field in table.spec().fields] == ["bucket[2]"]
        assert table.scan().to_arrow().num_rows == 3


# spec: ui-28
@pytest.mark.parametrize("victim", ["child", "ui"])
def test_a_killed_stage_is_repeated(tmp_path: Path, victim: str) -> None:
    lake, config = lake_of(tmp_path / "lake")
    files = lake.folder / "large.parquet"
    with Browser(1280, 900) as browser:
        with Ui("--config", str(config)) as ui:
            browser.open(ui.link)
            browser.open(f"{ui.base}/stage/{TABLE}?like=ml.rows&key=id")
            fill(browser, files=files)
            child = child_of(ui)
            assert child is not None
            until(lambda: any((lake.folder / "warehouse").rglob("*scores*/data/*")))
            if victim == "child":
                os.kill(child, signal.SIGKILL)
                browser.wait("return document.getElementById('confirm') !== null")
                fill(browser)  # the form has the values of the stage that failed
                staged(browser)
            else:
                ui.kill()
        if victim == "ui":
            with Ui("--config", str(config)) as ui:
                browser.open(ui.link)
                browser.open(f"{ui.base}/stage/{TABLE}?like=ml.rows&key=id")
                fill(browser, files=files)
                staged(browser)
    assert rows(lake) == expected(range(ROWS, 2 * ROWS))
