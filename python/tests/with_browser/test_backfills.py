"""The pages of backfills in a browser, on tables that penstock stage writes."""

from __future__ import annotations

import contextlib
import datetime
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import Browser
from lake import Lake
from server import BINARY, Server

DAYS = 10
ROWS = 400  # of a day
HOSTILE = "\"><img src=x onerror='document.title=1'>"
WIDTH = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
TEXT = "return document.querySelector('main').textContent"


class Stages:
    """A lake with a training table of ten days, and the command that stages to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = Lake(folder / "lake")
        train = {"table": "ml.train"}
        entry = {"table": "features.score", "prefix": "s_", "align": {"training": "day"}}
        datasets: dict[str, Any] = {"home": {"training": train, "key": ["id"], "staging": [entry]}}
        writes = {"namespaces": ["ml", "features"]}
        self.config = self.lake.config(datasets, writes=writes)
        layout = ["--key", "id", "--partition", "day", "--buckets", "4"]
        self.run("ml.train", *(self.rows(day) for day in range(DAYS)), *layout)
        self.run("features.score", self.rows(0, score=True), "--key", "id", "--like", "ml.train")

    def rows(self, day: int, *, score: bool = False, part: int = 1) -> str:
        """The path of a file with the rows of a day, or with one of a number of its rows."""
        ids = list(range(day * ROWS, (day + 1) * ROWS, part))
        at = datetime.date(2026, 11, 1) + datetime.timedelta(days=day)
        columns: dict[str, Any] = {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([at] * len(ids), pa.date32()),
        }
        if score:
            columns["score"] = pa.array([float(i) for i in ids])
        path = self.folder / f"{'score' if score else 'train'}-{day}-{part}.parquet"
        pq.write_table(pa.table(columns), path)
        return str(path)

    def command(self, table: str, *arguments: str) -> list[str]:
        return [str(BINARY), "stage", table, *arguments, "--config", str(self.config)]

    def run(self, table: str, *arguments: str) -> None:
        done = subprocess.run(self.command(table, *arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def tokens(self, branch: str) -> list[str]:
        """The tokens of the snapshots of a branch that main lacks, as PyIceberg reads them, the newest first."""
        table = self.lake.catalog.load_table("features.score")
        self.lake.catalog.engine.dispose()
        head: int | None = table.metadata.refs[branch].snapshot_id
        first = table.current_snapshot()
        assert first is not None
        found = []
        while head is not None and head != first.snapshot_id:
            at = table.snapshot_by_id(head)
            assert at is not None
            assert at.summary is not None
            found.append(str(at.summary["penstock.token"]))
            head = at.parent_snapshot_id
        return found


@contextlib.contextmanager
def pages(*source: str) -> Iterator[str]:
    """The link that penstock ui prints."""
    with subprocess.Popen(
        [BINARY, "ui", *source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return Stages(Path(tmp_path_factory.mktemp("backfills")))


@pytest.fixture(scope="module")
def served(stages: Stages) -> Iterator[Server]:
    """A server with a branch that lacks a day and a half of the last one, and one with hostile names."""
    for day in range(1, DAYS):
        if day != 4:
            file = stages.rows(day, score=True, part=2 if day == DAYS - 1 else 1)
            stages.run("features.score", file, "--branch", "trial", "--token", f"trial-{day}")
    odd = stages.rows(1, score=True)
    stages.run("features.score", odd, "--branch", HOSTILE, "--token", HOSTILE)
    with Server(stages.config) as server:
        yield server


# spec: ui-1, ui-12, ui-13, ui-15, ui-16
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_backfills_in_a_browser(served: Server, width: int, dark: bool, tmp_path: Path) -> None:
    with pages("--uri", f"grpc://{served.address}") as link, Browser(width, 900, dark=dark) as browser:
        browser.open(link)
        browser.open(link.split("/enter")[0] + "/backfills")
        shown = browser.run(TEXT)
        assert "can be published" in shown
        assert "onerror" in shown
        check(browser, tmp_path / f"list-{width}-{dark}.png")
        browser.run("[...document.querySelectorAll('main a')].find((a) => a.textContent === 'trial').click()")
        browser.wait("return document.querySelector('#coverage svg')")
        shown = browser.run(TEXT)
        assert "1 partition with 400 training rows and no staged row: day = 2026-11-05" in shown
        assert "trial-9" in shown
        check(browser, tmp_path / f"backfill-{width}-{dark}.png")
        browser.run("document.querySelector('#coverage details').open = true")
        browser.run("document.querySelector('#coverage').scrollIntoView()")
        check(browser, tmp_path / f"coverage-{width}-{dark}.png")
        browser.run("document.querySelector('form[action$=verify] button').click()")
        browser.wait("return document.querySelector('pre')")
        shown = browser.run(TEXT)
        assert "85% of 4,000 training rows" in shown
        assert "staging score, features.score" in shown
        rates = "return [...document.querySelectorAll('tbody tr')].map((r) => r.cells[3].textContent)"
        assert browser.run(rates) == ["100%"] * 4 + ["0%"] + ["100%"] * 4 + ["50%"]
        check(browser, tmp_path / f"verify-{width}-{dark}.png")
        browser.open(link.split("/enter")[0] + "/backfills")
        browser.run(
            "[...document.querySelectorAll('main th a')].find((a) => a.textContent !== 'trial').click()"
        )
        browser.wait("return document.querySelector('#coverage')")
        assert HOSTILE in browser.run(TEXT)
        check(browser, tmp_path / f"hostile-{width}-{dark}.png")


def check(browser: Browser, picture: Path) -> None:
    """The page fits into the window, and names are only texts."""
    browser.picture(picture)
    wide, window = browser.run(WIDTH)
    assert wide <= window, "the page scrolls sideways"
    assert browser.run("return document.title") != "1"
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.errors() == []


# spec: ui-12, ui-13
def test_pages_are_right_after_a_crash(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    killed = 0
    days = range(1, 6)
    with Browser(1280, 900) as browser:
        for day in days:
            file = stages.rows(day, score=True)
            command = stages.command("features.score", file, "--branch", "trial", "--token", f"trial-{day}")
            with subprocess.Popen([*command, "--progress", "json"], stderr=subprocess.PIPE) as process:
                assert process.stderr is not None
                for _ in range(day):  # lines of progress before the end of the process
                    process.stderr.readline()
                process.kill()
            killed += process.returncode != 0
            if day == 1:
                stages.run("features.score", file, "--branch", "trial", "--token", "trial-1")
            with pages("--config", str(stages.config)) as link:
                browser.open(link)
                browser.open(link.split("/enter")[0] + "/backfills/features.score?branch=trial")
                rows = "[...document.querySelectorAll('[aria-label=\"Table of stages\"] tbody tr')]"
                assert browser.run(f"return {rows}.map((r) => r.cells[0].textContent)") == stages.tokens(
                    "trial"
                )
                check(browser, tmp_path / f"{day}.png")
        assert killed
        with pages("--config", str(stages.config)) as link:
            for day in days:
                file = stages.rows(day, score=True)
                stages.run("features.score", file, "--branch", "trial", "--token", f"trial-{day}")
            browser.open(link)
            browser.open(link.split("/enter")[0] + "/backfills/features.score?branch=trial")
            assert "4 partitions with 1,600 training rows and no staged row" in browser.run(TEXT)
            assert sorted(stages.tokens("trial")) == [f"trial-{day}" for day in days]


# spec: ui-17, backfill-14
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_a_new_backfill(served: Server, stages: Stages, width: int, dark: bool, tmp_path: Path) -> None:
    with pages("--uri", f"grpc://{served.address}") as link, Browser(width, 900, dark=dark) as browser:
        browser.open(link)
        browser.open(link.split("/enter")[0] + "/backfills")
        browser.run("document.querySelector('a[href=\"/backfills/new\"]').click()")
        browser.wait("return document.querySelector('form.fields')")
        check(browser, tmp_path / f"form-{width}-{dark}.png")
        fill = "document.querySelector('[name={}]').value = {!r};"
        values = {"table": f"features.n{width}{dark}", "from": "2026-11-02", "to": "2026-11-05"}
        browser.run("".join(fill.format(*one) for one in values.items()))
        submit = "document.querySelector('form.fields button').click()"
        columns = "document.querySelector('[name=columns]').value = `{}`;"
        browser.run(columns.format("v") + submit)
        browser.wait("return document.querySelector('main .failure')")
        assert browser.run("return document.querySelector('[name=from]').value") == "2026-11-02"
        check(browser, tmp_path / f"wrong-{width}-{dark}.png")
        browser.run(columns.format(HOSTILE + ":float\\nv:int") + submit)
        browser.wait("return document.querySelector('#sql')")
        texts = {
            name: browser.run(f"return document.querySelector('#{name}').textContent")
            for name in ("sql", "stage")
        }
        assert (
            "WHERE `id` IS NOT NULL AND `day` >= DATE '2026-11-02' AND `day` < DATE '2026-11-06';"
            in texts["sql"]
        )
        check(browser, tmp_path / f"new-{width}-{dark}.png")
        copying = "window.copied = ''; navigator.clipboard.writeText = async (t) => { window.copied = t; };"
        browser.run(copying + "document.querySelector('[data-copy=sql]').click()")
        assert browser.run("return window.copied") == texts["sql"]
        browser.run("document.querySelector('#stage').scrollIntoView()")
        check(browser, tmp_path / f"stage-{width}-{dark}.png")
        file = stages.folder / f"new-{width}-{dark}.parquet"
        day = pa.array([datetime.date(2026, 11, 2)], pa.date32())
        rows = {"id": pa.array([1], pa.int64()), "day": day, HOSTILE: pa.array([0.5], pa.float32())}
        pq.write_table(pa.table({**rows, "v": pa.array([3], pa.int32())}), file)
        for line in texts["stage"].splitlines():
            words = shlex.split(line.removesuffix("FILES…"))
            at = words.index("--uri")
            if "--branch" in words:  # other rows
                pq.write_table(pa.table({"id": pa.array([7], pa.int64()), "day": day}), file)
            stages.run(words[2], *words[3:at], str(file))
        browser.open(link.split("/enter")[0] + "/backfills?within=" + values["table"])
        assert "backfill" in browser.run("return document.querySelector('tbody').textContent")
        check(browser, tmp_path / f"staged-{width}-{dark}.png")
