"""Promotions that the pages of penstock ui start, in a browser, and kills of all that takes part."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from browser import Browser
from lake import Lake, Row
from pyiceberg.types import LongType, StringType
from test_changes_by_pages import CONFIRM, Ui

ROWS, KEYS, FILES, LIMIT = 6000, 900, 12, 60
RUN = "(document.getElementById('run') || {dataset: {}}).dataset.running"


class World:
    """A training table of several files, and two staging tables."""

    def __init__(self, folder: Path) -> None:
        rng = random.Random(5)
        self.lake, self.data = Lake(folder), folder / "warehouse"
        self.rows: list[Row] = [
            {"row": i, "key": None if i % 50 == 7 else rng.randrange(KEYS)} for i in range(ROWS)
        ]
        self.scores: list[Row] = [{"key": k, "score": k * 3} for k in range(0, KEYS, 2)]
        self.names: list[Row] = [
            {"key": k, "name": None if k % 9 == 0 else f"n{k}"} for k in range(0, KEYS, 3)
        ]
        columns = {"row": LongType(), "key": LongType()}
        self.lake.write("ml.rows", columns, ("key", 4), self.rows, FILES)
        self.lake.write("features.scores", {"key": LongType(), "score": LongType()}, ("key", 8), self.scores)
        self.lake.write("features.names", {"key": LongType(), "name": StringType()}, ("key", 2), self.names)
        staging = [{"table": "features.scores"}, {"table": "features.names"}]
        dataset = {"training": {"table": "ml.rows"}, "key": ["key"], "staging": staging}
        self.config = self.lake.config({"home": dataset}, writes={"namespaces": ["ml", "features"]})

    def joined(self) -> list[Row]:
        """The join by definition, by DuckDB."""
        keyed = {"key": pa.int64()}
        with duckdb.connect() as db:
            db.register("t", pa.Table.from_pylist(self.rows))
            db.register("s", pa.Table.from_pylist(self.scores))
            db.register("n", pa.Table.from_pylist(self.names, pa.schema({**keyed, "name": pa.string()})))
            found: list[Row] = (
                db.sql(
                    "SELECT row, t.key, s.score, n.name FROM t LEFT JOIN s ON s.key = t.key LEFT JOIN n ON n.key = t.key"
                    " ORDER BY row"
                )
                .to_arrow_table()
                .to_pylist()
            )
        return found

    def stored(self) -> list[Row]:
        """The rows of the training table, as PyIceberg reads them."""
        table = self.lake.catalog.load_table("ml.rows").scan().to_arrow().sort_by("row")
        self.lake.catalog.engine.dispose()
        found: list[Row] = table.to_pylist()
        return found

    def files(self) -> int:
        return sum(1 for path in self.data.rglob("*") if path.suffix)


def child_of(ui: Ui) -> int | None:
    """The process id of the promotion that a ui runs."""
    for task in Path(f"/proc/{ui.process.pid}/task").iterdir():
        for pid in (task / "children").read_text().split():
            return int(pid)
    return None


def begin(browser: Browser, ui: Ui) -> bool:
    """Starts the promotion, or continues it, by the page. Returns False if the table has the columns already."""
    browser.open(f"{ui.base}/promotions/home?entry=scores&entry=names")
    browser.wait("return document.getElementById('dry-run')")
    if not browser.run("return document.getElementById('confirm') !== null"):
        return False
    browser.run(CONFIRM)
    browser.wait(f"return {RUN} !== undefined")
    return True


def until(what: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT
    while not what():
        assert time.monotonic() < limit
        time.sleep(0.001)


def reached(world: World, files: int, child: int | None) -> bool:
    """Whether the tables have a number of files, or the promotion has ended."""
    return world.files() >= files or gone(child)


def done(browser: Browser) -> None:
    """Waits until the promotion has ended, and checks that it has not failed."""
    browser.wait(f"return {RUN} === 'false'")
    text = browser.run("return document.getElementById('run').textContent")
    assert "The promotion has ended" in text, text


# spec: ui-25, ui-26, ui-27
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_promote_and_demote(tmp_path: Path, width: int, dark: bool) -> None:
    world = World(tmp_path / "lake")
    before = world.stored()
    with Ui("--config", str(world.config)) as ui, Browser(width, 900, dark=dark) as browser:
        browser.open(ui.link)
        browser.open(f"{ui.base}/datasets/home")
        browser.run("document.querySelector('a[href^=\"/promotions/\"]').click()")
        browser.wait("return document.getElementById('dry')")
        browser.run("document.querySelectorAll('input[name=entry]').forEach(i => {i.checked = true})")
        browser.run("document.getElementById('dry').click()")
        browser.wait("return document.getElementById('dry-run')")
        text = browser.run("return document.querySelector('main').textContent")
        assert re.search(r"0 of \d\d", text)
        assert "INSERT OVERWRITE" in text
        wide, window = browser.run(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= window
        browser.picture(tmp_path / "dry-run.png")
        assert world.stored() == before
        browser.run(CONFIRM)
        done(browser)
        browser.picture(tmp_path / "done.png")
        assert world.stored() == world.joined()
        browser.run("document.querySelector('main a[href^=\"/demote/\"]').click()")
        browser.wait("return document.getElementById('confirm')")
        browser.picture(tmp_path / "demote.png")
        browser.run(CONFIRM)
        browser.wait("return document.getElementById('result')")
        assert world.stored() == before
        assert browser.errors() == []


# spec: ui-26, promote-6
@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["child", "pages", "browser", "stop"])
def test_starting_again_continues(tmp_path: Path, victim: str) -> None:
    """The promotion, the pages or the browser are killed when the promotion has written some files, and all is begun again."""
    world = World(tmp_path / "lake")
    want, kills = world.joined(), 0
    for patience in (0, 1, 3, 8, 20, 40, 70, None):
        with Ui("--config", str(world.config)) as ui:
            with Browser(1280, 900) as browser:
                browser.open(ui.link)
                at = world.files()
                if not begin(browser, ui):
                    break
                child = child_of(ui)
                if patience is None:
                    done(browser)
                    continue
                until(partial(reached, world, at + patience, child))
                if victim == "child" and child is not None and not gone(child):
                    os.kill(child, signal.SIGKILL)
                    kills += 1
                    browser.wait(f"return {RUN} === 'false'")
                    assert "start it again" in browser.run(
                        "return document.getElementById('run').textContent"
                    )
                if victim == "stop":
                    kills += browser.run("return document.getElementById('stop') !== null")
                    browser.run("(document.getElementById('stop') || {click() {}}).click()")
                    browser.wait(f"return {RUN} === 'false'")
                if victim == "pages":
                    kills += not gone(child)
                    ui.kill()
                    until(partial(gone, child))
            if victim == "browser":  # the promotion goes on without it
                kills += not gone(child)
                until(partial(gone, child))
        assert [{name: row[name] for name in ("row", "key")} for row in world.stored()] == world.rows
    assert kills > 0
    assert world.stored() == want
    print({"victim": victim, "kills": kills})


def gone(pid: int | None) -> bool:
    """Whether a process has ended; it may be a zombie."""
    if pid is None:
        return True
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
