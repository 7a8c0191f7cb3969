"""Tables that are changed by the pages of penstock ui, in a browser."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from browser import Browser
from lake import Lake, Row
from pyiceberg.types import LongType
from server import BINARY, Server

import penstock

TABLE = "features.scores"
# The fields of the form of a page, and how a script of the page sends them.
FORM = "return JSON.stringify([...document.querySelectorAll('form[method=post] input')].map(i => [i.name, i.value]))"
SEND = "fetch('/{1}', {{method: 'POST', body: new URLSearchParams({0})}}).then(a => a.status)"
CONFIRM = "document.getElementById('confirm').click()"


class Ui:
    """penstock ui in a process of its own."""

    def __init__(self, *source: str) -> None:
        self._command = [str(BINARY), "ui", *source]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        self.base = self.link.split("/enter")[0]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)


class World:
    """A training table, and a staging table with a branch that has more rows than main."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(folder)
        rows: list[Row] = [{"id": i, "v": i % 7} for i in range(1000)]
        self.lake.write("ml.rows", {"id": LongType(), "v": LongType()}, ("id", 4), rows)
        entry = {
            "training": {"table": "ml.rows"},
            "key": ["id"],
            "staging": [{"table": TABLE, "name": "scores"}],
        }
        self.config = self.lake.config({"home": entry}, writes={"namespaces": ["features", "ml"]})

    def stage(self, client: penstock.Client, start: int, stop: int, **more: Any) -> penstock.Staged:
        ids = pa.array(range(start, stop), pa.int64())
        return client.stage(TABLE, pa.table({"id": ids, "score": ids}), no_check=True, **more)

    def ids(self) -> list[int]:
        """The rows of main, as PyIceberg reads them."""
        found = self.lake.catalog.load_table(TABLE).scan().to_arrow()["id"].to_pylist()
        self.lake.catalog.engine.dispose()
        return sorted(found)

    def moves(self) -> list[int]:
        """The snapshots at which main has been, in the order of time."""
        history = self.lake.catalog.load_table(TABLE).history()
        self.lake.catalog.engine.dispose()
        return [entry.snapshot_id for entry in history]

    def main(self) -> int:
        table = self.lake.catalog.load_table(TABLE)
        self.lake.catalog.engine.dispose()
        current = table.current_snapshot()
        assert current is not None
        return int(current.snapshot_id)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "lake")


@pytest.fixture
def served(world: World) -> Iterator[tuple[World, Server, penstock.Client]]:
    with Server(world.config) as server, penstock.connect(server.address) as client:
        world.stage(client, 0, 10, key=["id"], buckets=4)
        world.stage(client, 10, 20, branch="next")
        yield world, server, client


def text_of(browser: Browser) -> str:
    return str(browser.run("return document.querySelector('main').textContent"))


# spec: ui-21, ui-22
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_publish_and_undo(
    served: tuple[World, Server, penstock.Client], width: int, dark: bool, tmp_path: Path
) -> None:
    world, server, _ = served
    before = world.main()
    with Ui("--uri", f"grpc://{server.address}") as ui, Browser(width, 900, dark=dark) as browser:
        browser.open(ui.link)
        browser.open(f"{ui.base}/backfills/{TABLE}?branch=next")
        browser.run("document.querySelector('a[href*=\"/publish/\"]').click()")
        browser.wait("return document.getElementById('confirm')")
        wide, window = browser.run(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= window
        browser.picture(tmp_path / "publish.png")
        assert browser.errors() == []
        browser.run(CONFIRM)
        browser.wait("return location.pathname.startsWith('/moved/')")
        browser.picture(tmp_path / "moved.png")
        assert f"is at snapshot {world.main()}." in text_of(browser)
        assert "can be planned" in text_of(browser)
        assert world.ids() == list(range(20))
        browser.open(browser.run("return location.href"))  # loading it again changes nothing
        assert world.ids() == list(range(20))
        browser.run("document.querySelector('a[href*=\"/undo/\"]').click()")
        browser.wait("return document.getElementById('confirm')")
        browser.picture(tmp_path / "undo.png")
        undo = browser.run("return location.href")
        browser.run(CONFIRM)
        browser.wait("return location.pathname.startsWith('/moved/')")
        assert world.main() == before
        assert world.ids() == list(range(10))
        # The page of the undo that was kept in another tab takes nothing else back.
        browser.run("history.back()")
        browser.wait(f"return location.href === {undo!r}")
        if browser.run("return document.getElementById('confirm') !== null"):
            browser.run(CONFIRM)
            browser.wait("return location.pathname.startsWith('/moved/')")
        assert world.main() == before
        assert browser.errors() == []


# spec: ui-22
def test_two_tabs_and_others(served: tuple[World, Server, penstock.Client]) -> None:
    """Two tabs publish once, and a tab that is older than another change publishes nothing."""
    world, server, client = served
    with Ui("--uri", f"grpc://{server.address}") as ui, Browser(1280, 900) as browser:
        browser.open(ui.link)
        page = f"{ui.base}/publish/{TABLE}?branch=next"
        browser.open(page)
        action = f"publish/{TABLE}"
        send = SEND.format(browser.run(FORM), action).replace("a.status", "[a.status, a.url]")
        send = f"return {send}"
        snapshots = len(client.log(TABLE))
        for _ in range(3):
            status, url = browser.run(send)
            assert (status, "/moved/" in url) == (200, True)
        assert world.ids() == list(range(20))
        assert len(client.log(TABLE)) == snapshots + 1
        client.undo(TABLE)
        world.stage(client, 20, 30)
        assert browser.run(send)[0] == 409
        assert sorted(world.ids()) == [*range(10), *range(20, 30)]


# spec: ui-20
def test_other_sites_change_nothing(served: tuple[World, Server, penstock.Client], tmp_path: Path) -> None:
    """A page of another origin that knows the whole form, its token included, changes nothing."""
    world, server, _ = served
    before = world.main()
    with Ui("--uri", f"grpc://{server.address}") as ui, Browser(1280, 900) as browser:
        browser.open(ui.link)
        browser.open(f"{ui.base}/publish/{TABLE}?branch=next")
        form = browser.run("return document.querySelector('form[method=post]').outerHTML")
        form = re.sub(r'action="[^"]*"', f'action="{ui.base}/publish/{TABLE}"', form)
        attack = tmp_path / "attack.html"
        attack.write_text(f"<body>{form}<script>document.getElementById('confirm').click()</script>")
        browser.open(attack.as_uri())
        browser.wait(f"return location.href.startsWith({ui.base!r})")
        refused = str(browser.run("return document.body.textContent"))
        assert refused == "pages of other sites may not load this\n"
    assert world.main() == before


# spec: ui-20, ui-22
def test_pages_that_are_killed(served: tuple[World, Server, penstock.Client]) -> None:
    """After a kill of the pages, the old form is refused, and the new one makes the change once."""
    world, server, _ = served
    before = world.main()
    with Browser(1280, 900) as browser:
        with Ui("--uri", f"grpc://{server.address}") as ui:
            browser.open(ui.link)
            browser.open(f"{ui.base}/publish/{TABLE}?branch=next")
            send = "return " + SEND.format(browser.run(FORM), f"publish/{TABLE}")
            ui.kill()
        with Ui("--uri", f"grpc://{server.address}") as ui:
            browser.open(ui.link)
            assert browser.run(send) == 403
            assert world.main() == before
            browser.open(f"{ui.base}/publish/{TABLE}?branch=next")
            browser.run(CONFIRM)
            browser.wait("return location.pathname.startsWith('/moved/')")
    assert world.ids() == list(range(20))


# spec: ui-22, stage-193
@pytest.mark.timeout(600)
def test_servers_that_are_killed(world: World) -> None:
    """The server is killed while it publishes and undoes. The same form, sent again, makes the change once."""
    rng = random.Random(3)
    server = Server(world.config).__enter__()
    try:
        with penstock.connect(server.address) as client:
            world.stage(client, 0, 10, key=["id"], buckets=4)
            world.stage(client, 10, 20, branch="next")
        address, moves = server.address, len(world.moves())
        with Ui("--uri", f"grpc://{address}") as ui, Browser(1280, 900) as browser:
            browser.open(ui.link)
            for patience in (0.0, 0.004, 0.02):
                for page, want in ((f"publish/{TABLE}?branch=next", range(20)), (f"undo/{TABLE}", range(10))):
                    browser.open(f"{ui.base}/{page}")
                    send = SEND.format(browser.run(FORM), page.split("?")[0])
                    browser.run(f"window.sent = ({send}); return 1")
                    time.sleep(rng.random() * patience)
                    server.kill()
                    server = Server(world.config, listen=address).__enter__()
                    browser.run("return window.sent.catch(() => 0)")
                    assert browser.run(f"return ({send})") == 200
                    moves += 1
                    assert world.ids() == list(want)
                    assert len(world.moves()) == moves
    finally:
        server.kill()
