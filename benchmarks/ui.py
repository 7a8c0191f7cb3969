"""How fast is the page of streams of penstock ui, and what does it cost the server?

One process reads many streams of T from one server, each of which takes a batch now and then. Chromium shows the page of streams of
penstock ui. The measurements:

- the time from the navigation to the end of the page's load event, and the bytes of the page;
- of each reload by the script: the time until the answer is complete, and the longest time for which the browser's main
  thread is busy at once;
- the CPU time of the server, in intervals in which nothing asks it for its status, `penstock status --watch 0.1` does, or the page
  does; and that of penstock ui.

    python benchmarks/ui.py [--streams N] [--seconds S] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tables
from process import cpu_seconds
from running import ROOT, Program, RunError, serving

sys.path.append(str(ROOT / "python" / "tests" / "with_browser"))
from browser import Browser

_SIZES = tables.Sizes(rows=400_000, requests=40_000)
_COLUMNS = ["request_id", "item_id", "label", "f0", "history"]
_LOOKAHEAD = 1 << 16  # bytes, so that streams do not end early
_CALLS = 100  # streams of a connection; servers limit them
_ROWS = 64  # of a batch
_PAUSE = 4.0  # seconds between two batches of a stream
_LOADS = 5
_EVERY = (
    0.1  # seconds between two calls of status; so many that their cost is not lost in that of the streams
)
_PAGE_EVERY = 2  # seconds between two calls of the page
_SERVER_MEMORY = str(6 << 30)

# Reloads of the page, and busy times of the main thread, since the page was opened.
_RELOADS = """return performance.getEntriesByType('resource').filter(e => e.name.includes('part=1'))
    .map(e => e.responseEnd - e.startTime)"""
_WATCH = """window.busy = []; new PerformanceObserver(list => list.getEntries().forEach(e => busy.push(e.duration)))
    .observe({type: 'longtask', buffered: true})"""
_LOAD = """const e = performance.getEntriesByType('navigation')[0];
    return e.loadEventEnd > 0 ? [e.loadEventEnd, e.decodedBodySize, document.querySelectorAll('*').length] : null"""


def read(address: str, streams: int) -> None:
    """Reads streams until it is killed. Prints a line when each has a batch."""
    import penstock

    clients = [penstock.connect(address, lookahead=_LOOKAHEAD) for _ in range(0, streams, _CALLS)]
    opened = []
    for i in range(streams):
        rows = clients[i // _CALLS].read(
            "t", columns=_COLUMNS, job=f"sweep/{i}", batch_rows=_ROWS, repeat="forever"
        )
        opened.append(iter(rows))
        next(opened[-1])
    print("reading", flush=True)
    while True:
        for stream in opened:
            next(stream)
            time.sleep(_PAUSE / streams)


def _used(pid: int, during: Callable[[], object]) -> float:
    """The CPU time of a process during a call, in percent of a core."""
    began, cpu = time.monotonic(), cpu_seconds(pid)
    during()
    return 100 * (cpu_seconds(pid) - cpu) / (time.monotonic() - began)


def _said(name: str, values: list[float], unit: str) -> None:
    print(
        f"{name}: median {statistics.median(values):.2f} {unit}, from {min(values):.2f} to {max(values):.2f}, n {len(values)}"
    )


def _loads(browser: Browser, base: str) -> None:
    found = []
    for _ in range(_LOADS):
        browser.open(base)
        found.append(browser.wait(_LOAD))
    _said("page: load", [one[0] for one in found], "ms")
    print(f"page: {found[0][1]} bytes, {found[0][2]} elements")


def _measure(given: argparse.Namespace, server: int, uri: str, ui: subprocess.Popen[str], link: str) -> None:
    watch = [str(given.binary), "status", "--uri", uri, "--watch", str(_EVERY), "--json"]
    alone, asked, shown, pages = [], [], [], []
    with Browser(1280, 900) as browser:
        browser.open(link)
        _loads(browser, link.split("/enter")[0])
        reloads: list[float] = []
        busy: list[float] = []
        for _ in range(given.rounds):
            browser.open("about:blank")
            alone.append(_used(server, lambda: time.sleep(given.seconds)))
            with subprocess.Popen(watch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                asked.append(_used(server, lambda: time.sleep(given.seconds)))
                process.terminate()
            browser.open(link.split("/enter")[0])
            browser.run(_WATCH)
            before = cpu_seconds(ui.pid)
            shown.append(_used(server, lambda: time.sleep(given.seconds)))
            pages.append(100 * (cpu_seconds(ui.pid) - before) / given.seconds)
            reloads += browser.run(_RELOADS)
            busy.append(max(browser.run("return busy"), default=0.0))
    _said("reload: answer", reloads, "ms")
    _said("reload: longest time without a pause of the main thread", busy, "ms")
    _said("server: alone", alone, "% of a core")
    _said(f"server: with status --watch {_EVERY}", asked, "% of a core")
    _said("server: with the page", shown, "% of a core")
    costs = [more - less for more, less in zip(asked, alone, strict=True)]  # of 1 / _EVERY calls in a second
    _said("server: status every 2 s", [cost * _EVERY / _PAGE_EVERY for cost in costs], "% of a core")
    _said("penstock ui", pages, "% of a core")


def _run(given: argparse.Namespace) -> None:
    bench = given.tables / "restarts"
    tables.ensure(bench, _SIZES)
    settings = (
        ("memory", _SERVER_MEMORY),
        ("max_streams", "1024"),
        ("max_peer_share", "100"),
        ("log_level", "warn"),
    )
    command = Program(given.binary, settings).command(tables.config_path(bench), "127.0.0.1:0")
    pipe: Any = subprocess.PIPE
    with serving(command) as server:
        uri = f"grpc://{server.first}"
        reader_command = [
            sys.executable,
            __file__,
            "--read",
            server.first,
            "--streams",
            str(given.streams),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python" / "src")}
        reader = subprocess.Popen(reader_command, stdout=pipe, text=True, env=environment)
        ui = subprocess.Popen([str(given.binary), "ui", "--uri", uri], stdout=pipe, text=True)
        try:
            if not reader.stdout or not reader.stdout.readline() or not ui.stdout:
                raise RunError("the reader ended")
            print(f"{given.streams} streams")
            _measure(given, server.pid, uri, ui, ui.stdout.readline().strip())
        finally:
            for process in (reader, ui):
                process.kill()
                process.wait()


def main() -> int:
    """Runs the benchmark, and prints a report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each interval")
    parser.add_argument("--rounds", type=int, default=3)
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    parser.add_argument("--binary", type=Path, default=binary, help="the program")
    parser.add_argument("--tables", type=Path, default=ROOT / ".bench", help="the folder of the tables")
    parser.add_argument("--read", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read, given.streams)
    else:
        _run(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
