"""The statistics that penstock ui measures, in a browser."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from lake import Lake, Row
from pyiceberg.types import LongType, StringType
from server import BINARY, Server

ROWS = 20_000
HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=1</script>' + "x" * 150
WIDTH = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets of which one joins a table that nine of ten rows match; a column has a hostile name."""
    lake = Lake(Path(tmp_path_factory.mktemp("statistics")))
    training: list[Row] = [{"id": i, "clicked": i % 2} for i in range(ROWS)]
    lake.write("ml.train", {"id": LongType(), "clicked": LongType()}, ("id", 4), training)
    features: list[Row] = [{"id": i, "price": i % 7, HOSTILE: HOSTILE} for i in range(ROWS) if i % 10]
    kinds = {"id": LongType(), "price": LongType(), HOSTILE: StringType()}
    lake.write("features.price", kinds, ("id", 4), features)
    plain = {"training": {"table": "ml.train"}, "key": ["id"]}
    return lake.config({"plain": plain, "priced": {**plain, "staging": [{"table": "features.price"}]}})


@pytest.fixture(params=["server", "config"])
def link(request: pytest.FixtureRequest, config: Path) -> Iterator[str]:
    """The link that penstock ui prints, with a server or a config file."""
    with Server(config) as server:
        source = ["--uri", f"grpc://{server.address}"]
        if request.param == "config":
            source = ["--config", str(config)]
        command = [str(BINARY), "ui", *source]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
            process.terminate()
            assert process.wait(60) == 0


# spec: ui-1, ui-2, ui-30
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_statistics_in_a_browser(link: str, width: int, dark: bool, tmp_path: Path) -> None:
    base = link.split("/enter")[0]
    with Browser(width, 900, dark=dark) as browser:
        browser.open(link)
        browser.open(base + "/datasets/priced")
        browser.run("document.querySelector('#statistics select').value = 'plain'")
        browser.run("document.querySelector('#statistics button').click()")
        browser.wait("return document.querySelector('.stats')?.textContent.includes('How to read this page')")
        shown = browser.run("return document.querySelector('main').textContent")
        assert "Compared with dataset plain" in shown
        assert "90%" in shown
        steps = browser.run("return getComputedStyle(document.querySelector('.steps')).display")
        assert steps == "none", "the result takes the place of the progress"
        browser.picture(tmp_path / f"dataset-{width}-{dark}.png")
        check(browser)
        browser.open(base + "/tables/features.price/statistics")
        check(browser)
        browser.picture(tmp_path / f"table-{width}-{dark}.png")


def check(browser: Browser) -> None:
    """The page fits into the window, and names of columns are only texts."""
    wide, window = browser.run(WIDTH)
    assert wide <= window, "the page scrolls sideways"
    assert browser.run("return document.title") != "1"
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.errors() == []
