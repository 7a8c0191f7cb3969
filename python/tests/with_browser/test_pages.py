"""The pages of penstock ui in a browser."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from lake import Lake, Row
from pyiceberg.types import LongType
from server import BINARY, Server

import penstock

ROWS = 200_000
HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=1</script>'
PAGES = ("/", "/memory", "/datasets", "/datasets/d", "/tables", "/tables/ml.train")
WIDTH = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a dataset whose rows fill all buffers, and a column with a hostile name."""
    lake = Lake(Path(tmp_path_factory.mktemp("pages")))
    names = ("id", "a", "b", HOSTILE)
    rows: list[Row] = [dict.fromkeys(names, i) for i in range(ROWS)]
    lake.write("ml.train", {name: LongType() for name in names}, ("id", 4), rows)
    with Server(lake.config({"d": {"training": {"table": "ml.train"}, "key": ["id"]}})) as server:
        yield server


@pytest.fixture
def link(served: Server) -> Iterator[str]:
    """The link that penstock ui prints."""
    with subprocess.Popen(
        [BINARY, "ui", "--uri", f"grpc://{served.address}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        assert process.wait(60) == 0


# spec: ui-1, ui-2, ui-7
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_pages_in_a_browser(served: Server, link: str, width: int, dark: bool, tmp_path: Path) -> None:
    base = link.split("/enter")[0]
    with (
        Browser(width, 900, dark=dark) as browser,
        penstock.connect(served.address, lookahead=1 << 16) as client,
        client.read("d", job="slow/0", batch_rows=1000, cache="off") as slow,
    ):
        next(iter(slow))
        browser.open(link)
        browser.wait("return document.getElementById('state').textContent === 'live'")
        browser.wait("return document.querySelectorAll('#curve-causes canvas').length === 1")
        assert "slow/0" in browser.run("return document.querySelector('[data-live=streams]').textContent")
        for page in PAGES:
            browser.open(base + page)
            wide, window = browser.run(WIDTH)
            assert wide <= window, f"{page} scrolls sideways"
            assert browser.run("return document.title") != "1"
            assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
            assert browser.errors() == [], page
            browser.picture(tmp_path / f"{page.replace('/', '_')}-{width}-{dark}.png")
        requests = browser.requests()
        assert requests
        for address in requests:
            assert address.startswith((base + "/", "data:", "chrome:")), address
        # The link was used up: another browser cannot open it.
        with Browser(width, 900) as other:
            other.open(link)
            assert "has been opened before" in other.run("return document.body.textContent")
            other.open(base)
            assert "slow/0" not in other.run("return document.body.textContent")


# spec: ui-5
def test_a_page_follows_its_server(served: Server, link: str) -> None:
    with Browser(1280, 900) as browser, penstock.connect(served.address, lookahead=1 << 16) as client:
        browser.open(link)
        browser.wait("return document.body.textContent.includes('No streams run')")
        assert "begin" in browser.run("return document.getElementById('curve-causes').textContent")
        browser.wait("return document.querySelectorAll('#curve-rows canvas').length === 1")
        assert browser.run("return document.querySelectorAll('#curve-causes canvas').length") == 0
        with client.read("d", job="appears", batch_rows=1000, cache="off") as stream:
            next(iter(stream))
            browser.wait("return document.querySelector('main').textContent.includes('appears')")
            for _ in stream:
                pass
        browser.wait("return document.body.textContent.includes('No streams run')")


# spec: ui-9
def test_other_sites_get_nothing(link: str, tmp_path: Path) -> None:
    base = link.split("/enter")[0]
    page = tmp_path / "attack.html"
    page.write_text(
        f"<body><img id=i src='{base}/' onload='document.title=1'><script src='{base}/assets/page.js'></script>"
        f"<iframe id=f src='{base}/'></iframe><script>fetch('{base}/', {{credentials: 'include'}})"
        ".then(r => r.text()).then(() => {document.title = 'read'}, () => {document.title = 'refused'})</script>"
    )
    with Browser(1280, 900) as browser:
        browser.open(link)
        browser.wait("return document.getElementById('state').textContent === 'live'")
        browser.open(page.as_uri())
        browser.wait("return document.title === 'refused'")
        until = time.monotonic() + 2
        while time.monotonic() < until:  # nothing that loads later is read either
            assert browser.run("return document.title") == "refused"
