"""The examples of pages that read a report, while their server is killed and started again in each stream."""

from __future__ import annotations

import contextlib
import io
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake import Lake
from pyiceberg.types import DoubleType, ListType, LongType
from server import Server

import penstock

Running = Callable[[Path, str], list[str]]
ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(?:python|yaml)(?: \S+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def block(page: str, containing: str) -> str:
    """The only block of a page with a text."""
    [found] = [
        text for text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if containing in text
    ]
    return found


class Restarted:
    """A server that is killed after the first batch of each stream, and started again at its address.

    Attributes:
        streams: the streams that were read.
    """

    def __init__(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._config = config
        self._server = Server(config).__enter__()
        self.streams: list[penstock.Stream] = []
        read = penstock.Stream._next

        def read_then_kill(stream: penstock.Stream) -> pa.RecordBatch | None:
            batch = read(stream)
            if stream not in self.streams:
                self.streams.append(stream)
                self.restart()
            return batch

        def open_(*_: Any, **__: Any) -> penstock.Client:
            # It reads little ahead, so that the kill finds something left to read.
            return penstock.connect(self._server.address, lookahead=1 << 16, reconnect=60)

        monkeypatch.setattr(penstock.Stream, "_next", read_then_kill)
        monkeypatch.setattr(penstock, "open", open_)

    def restart(self) -> None:
        self._server.kill()
        self._server = Server(self._config, listen=self._server.address).__enter__()

    def run(self, example: str) -> list[str]:
        """Runs an example, and returns the lines that it prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(example, "example", "exec"), {"__name__": "__main__"})
        # An example leaves the others after a few batches, which may have been sent before the kill.
        ended = [stream for stream in self.streams if stream._done]
        assert ended
        assert all(stream.stats.resumed and stream.report["partial"] for stream in ended)
        return out.getvalue().splitlines()

    def kill(self) -> None:
        self._server.kill()


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.chdir(tmp_path)
    servers: list[Restarted] = []

    def run(config: Path, example: str) -> list[str]:
        servers.append(Restarted(config, monkeypatch))
        return servers[-1].run(example)

    yield run
    for server in servers:
        server.kill()


def test_example_of_the_quickstart_survives_restarts(tmp_path: Path, running: Running) -> None:
    tables = block("docs/quickstart.md", "def write(")
    # More requests, so that most of a stream is not sent yet when its server is killed.
    (tmp_path / "tables.py").write_text(replaced(tables, "range(5_000)", "range(100_000)"), encoding="utf-8")
    subprocess.run([sys.executable, "tables.py"], check=True, capture_output=True)
    config = tmp_path / "penstock.yaml"
    config.write_text(block("docs/quickstart.md", "uri: sqlite:///catalog.db"), encoding="utf-8")
    printed = running(config, block("docs/quickstart.md", "pretend to crash here"))
    assert printed[:3] == ["1024 rows"] * 3
    assert printed[3] == f"{100_000 * 8 // 5 - 3 * 1024} rows more"
    assert re.fullmatch(r"\d+ of 800000 rows have a device", printed[4])


def test_example_of_the_readme_survives_restarts(tmp_path: Path, running: Running) -> None:
    rng = random.Random(3)
    made = Lake(tmp_path / "lake")
    ids = ListType(element_id=900, element_type=LongType(), element_required=False)
    users, ratings = range(500), [(user, movie) for user in range(500) for movie in range(100)]
    made.write(
        "ml.ratings",
        {"request_id": LongType(), "movie_id": LongType(), "rating": DoubleType()},
        ("request_id", 4),
        [{"request_id": user, "movie_id": movie, "rating": rng.random()} for user, movie in ratings],
    )
    made.write(
        "features.user_history",
        {"request_id": LongType(), "mean_rating": DoubleType(), "last_movies": ids},
        ("request_id", 4),
        [
            {"request_id": u, "mean_rating": 3.5, "last_movies": rng.choices(range(2**60), k=200)}
            for u in users
        ],
    )
    staging = [{"table": "features.user_history"}]
    dataset = {"training": {"table": "ml.ratings"}, "key": ["request_id"], "staging": staging}
    [line] = running(made.config({"movielens": dataset}), block("README.md", "rows, each once;"))
    assert re.fullmatch(rf"{len(ratings)} rows, each once; \d+ of the last run matched", line)


def replaced(text: str, old: str, new: str) -> str:
    """A text with its only occurrence of a part replaced."""
    assert text.count(old) == 1
    return text.replace(old, new)
