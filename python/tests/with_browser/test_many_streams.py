"""The page of many streams in a browser."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from browser import Browser
from lake import Lake, Row
from pyiceberg.types import LongType
from server import BINARY, Server

import penstock

STREAMS = 120
CALLS = 60  # of a connection, which servers limit
ROWS = "return document.querySelectorAll('tr[data-stream]').length"
COUNT = "return Object.keys(JSON.parse(document.getElementById('counts').dataset.counts)).length"


# spec: ui-5, ui-34
def test_many_streams_in_a_browser(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows: list[Row] = [{"id": i} for i in range(200_000)]  # more than buffers hold
    lake.write("ml.train", {"id": LongType()}, ("id", 4), rows)
    config = lake.config({"d": {"training": {"table": "ml.train"}, "key": ["id"]}})
    with (
        Server(config, "--max-streams", "200", "--max-peer-share", "100") as server,
        subprocess.Popen(
            [BINARY, "ui", "--uri", f"grpc://{server.address}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as ui,
        ExitStack() as opened,
        Browser(1280, 900) as browser,
    ):
        opened.callback(ui.terminate)
        for i in range(STREAMS):
            if i % CALLS == 0:
                client = opened.enter_context(penstock.connect(server.address, lookahead=1 << 16))
            stream = client.read("d", job=f"job-{i:03}", batch_rows=1000, cache="off")
            next(iter(opened.enter_context(stream)))
        assert ui.stdout is not None
        browser.open(ui.stdout.readline().strip())
        browser.wait(f"{COUNT} === {STREAMS}")
        assert browser.run(ROWS) == 100
        # A link that has the focus keeps it when the table is loaded again.
        browser.run("window.chosen = document.querySelectorAll('tr[data-stream] a')[7]; chosen.focus()")
        stream_of = "return document.activeElement.closest('tr')?.dataset.stream"
        focused = browser.run(stream_of)
        browser.wait("return !chosen.isConnected")
        assert browser.run(stream_of) == focused
        browser.run("document.querySelector('[data-live=streams] nav a').click()")
        browser.wait(f"{ROWS} === 20")
        browser.run(
            "const order = document.querySelector('[name=order]'); order.value = 'slow'; order.form.submit()"
        )
        browser.wait(f"{ROWS} === 100")
        assert browser.run("return document.querySelector('[name=order]').value") == "slow"
        assert browser.errors() == []
