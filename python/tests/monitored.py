"""A real Prometheus that scrapes a server, with the alerts and the dashboard of deploy."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from accidents import Accidents, Answer

import penstock

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "penstock.json"
PROGRAMS = Path(os.environ.get("PENSTOCK_PROMETHEUS", ROOT / ".bin"))

# Ranges of the rules become seconds, so that faults need not last for minutes.
_RANGE = re.compile(r"\[(\d+)([smhd])\]")
_OFFSET = re.compile(r"offset \w+")
_RANGE_SECONDS = 10
_HOLD_SECONDS = 2


def program(name: str) -> str:
    """The path of prometheus or promtool."""
    path = PROGRAMS / name
    assert path.exists(), f"there is no {path}: make .bin/prometheus"
    return str(path)


def free_port() -> int:
    """A port of the loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def rules() -> dict[str, str]:
    """The queries of the rules of deploy, by alert."""
    found = re.findall(r"- alert: (\w+)\n\s+expr: '(.*)'\n", ALERTS.read_text())
    return {name: expr.replace("''", "'") for name, expr in found}


def shortened(replacements: dict[str, str], hold: int = _HOLD_SECONDS) -> str:
    """The file of rules with ranges and times of seconds. Further texts of its queries are replaced."""
    text = _OFFSET.sub("offset 5s", _RANGE.sub(f"[{_RANGE_SECONDS}s]", ALERTS.read_text()))
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, new)
    return re.sub(r"for: [1-9]\w*", f"for: {hold}s", text)


def metrics(expr: str) -> list[str]:
    """The names of the series in a query."""
    return re.findall(r"\b(?:penstock|process)_\w+|\bup\b", expr)


def dashboard_queries() -> dict[str, str]:
    """The queries of the dashboard for all servers and datasets, by panel and legend."""
    found = {}
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expr = re.sub(r"\$(job|instance|dataset)", ".*", target["expr"])
            found[f"{panel['title']}: {target['legendFormat']} ({panel['id']})"] = expr.replace(
                "$__rate_interval", f"{_RANGE_SECONDS}s"
            )
    return found


class Prometheus:
    """A Prometheus that scrapes one server each second."""

    def __init__(self, folder: Path, port: int, rules_text: str) -> None:
        folder.mkdir(parents=True)
        (folder / "alerts.yaml").write_text(rules_text)
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["alerts.yaml"],
            "scrape_configs": [
                {"job_name": "penstock", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self._folder, self._listen = folder, f"127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        command = [
            program("prometheus"),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self._listen}",
        ]
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._ready, "Prometheus does not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self._listen}/-/ready") as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def query(self, expr: str) -> list[Any]:
        """The result of a query now."""
        query = urllib.parse.urlencode({"query": expr})
        with urllib.request.urlopen(f"http://{self._listen}/api/v1/query?{query}") as answer:
            found = json.loads(answer.read())["data"]
        return [found["result"]] if found["resultType"] == "scalar" else found["result"]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {one["metric"]["alertname"] for one in self.query('ALERTS{alertstate="firing"}')}

    def ever_fired(self) -> set[str]:
        """The names of the alerts that have fired in the last hour."""
        found = self.query('count by (alertname) (last_over_time(ALERTS{alertstate="firing"}[1h]))')
        return {one["metric"]["alertname"] for one in found}

    def fires(self, *names: str) -> None:
        """Waits until alerts fire."""
        until(
            lambda: set(names) <= self.firing(),
            lambda: f"{set(names) - self.firing()} do not fire; {self.firing()} do",
        )


def until(holds: Callable[[], bool], what: str | Callable[[], str], seconds: float = 90) -> None:
    """Checks a condition repeatedly until it holds."""
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, what if isinstance(what, str) else what()
        time.sleep(0.1)


class Faults(Accidents):
    """Requests to a server that are all slow, or all get no answer, while a test asks for it.

    Attributes:
        dead: connections are closed without an answer.
        open: while it is not set, requests wait.
        delay: seconds before each answer.
        pace: the number of bytes that an answer sends in a second; 0: all at once.
        throttled: of how many requests all but one are answered with status 503; 0: none fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dead, self.delay, self.pace, self.throttled = False, 0.0, 0, 0
        self.open = threading.Event()
        self.open.set()

    def around(self, name: str, call: Callable[[], Answer]) -> Answer | None:
        """Makes a call, unless there is a fault."""
        self.calls.append(name)
        if self.dead:
            return None
        self.open.wait()
        if self.delay:
            time.sleep(self.delay)
        if self.throttled and len(self.calls) % self.throttled:
            return Answer(503, b"<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>")
        answer = call()
        answer.pace = self.pace
        return answer


@contextmanager
def repeated(*calls: Callable[[], object]) -> Iterator[None]:
    """Makes calls again and again, each in a thread of its own; failures of the server are part of the test."""
    over = threading.Event()
    mistakes: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            while not over.is_set():
                with suppress(penstock.Error):
                    call()
                over.wait(0.05)
        except BaseException as e:
            mistakes.append(e)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    assert not mistakes, mistakes
