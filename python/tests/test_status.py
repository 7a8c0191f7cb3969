"""What a server reports of its streams, and of jobs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lake import Lake, Row
from pyiceberg.types import LongType
from server import BINARY, Server

import penstock

ROWS = 200_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[penstock.Client, Server, Path]]:
    """A dataset with more rows than the buffers between a server and a client have room for."""
    lake = Lake(Path(tmp_path_factory.mktemp("status")))
    rows: list[Row] = [{"id": i, "a": i, "b": -i, "c": i * i} for i in range(ROWS)]
    lake.write("ml.train", {name: LongType() for name in ("id", "a", "b", "c")}, ("id", 4), rows)
    config = lake.config({"d": {"training": {"table": "ml.train"}}})
    with Server(config) as server, penstock.connect(server.address, lookahead=1 << 16) as client:
        yield client, server, config


def eventually(
    client: penstock.Client, is_so: Callable[[penstock.ServerStatus], bool]
) -> penstock.ServerStatus:
    """Returns the first status of the server that is as wanted."""
    until = time.monotonic() + 60
    while not is_so(status := client.status()):
        assert time.monotonic() < until, status
        time.sleep(0.01)
    return status


# spec: status-1, status-3, status-8
def test_two_jobs_of_which_one_is_slow(served: tuple[penstock.Client, Server, Path]) -> None:
    client, server, config = served
    assert client.status().streams == ()
    with client.read("d", job="slow/0", batch_rows=1000, cache="off") as slow:
        next(iter(slow))
        status = eventually(client, lambda s: any(one.waiting == "trainer" for one in s.streams))
        assert status.all
        assert status.memory is not None
        assert status.memory.used > 0
        with client.read("d", job="fast", batch_rows=1000) as fast:
            assert sum(batch.num_rows for batch in fast) == ROWS
        eventually(client, lambda s: [one.job for one in s.streams] == ["slow/0"])
        before = client.status().streams[0]
        shown = subprocess.run(
            [BINARY, "status", "--uri", f"grpc://{server.address}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "slow/0" in shown
        assert "waits for trainer" in shown
        assert before.rows_total == ROWS
        assert before.done is not None
        assert 0 < before.done < 1
        for _ in slow:
            pass
    eventually(client, lambda s: s.streams == ())
    lines = config.with_suffix(".log").read_text().splitlines()
    ended = [line for line in lines if "stream ends" in line and "job=slow/0" in line]
    assert len(ended) == 1
    assert "waited.trainer=" in ended[0]
    assert f"stream={before.id}" in ended[0]


# spec: status-7
def test_jobs_of_wrong_forms_are_refused(served: tuple[penstock.Client, Server, Path]) -> None:
    client, _, _ = served
    for job in ("", "two words", "x" * 129):
        with pytest.raises(penstock.Invalid, match="1 to 128 letters"):
            client.read("d", job=job)
    with client.read("d", job="a.b_c-d/e:f@g+h=1") as stream:
        next(iter(stream))
        assert "job" not in str(stream.cursor)
        assert "job" not in stream.manifest()["query"]


# spec: status-18
def test_plans_that_are_being_made() -> None:
    started = "2026-11-30T10:00:00.5Z"
    planning = {"id": "a", "dataset": "d", "started": started, "open_ms": 2500, "waiting": "tables"}
    status = {"v": 1, "version": "0.1.0", "uptime_ms": 1, "all": False, "streams": [], "planning": [planning]}
    (one,) = penstock.ServerStatus.of(json.dumps(status).encode()).planning
    assert (one.dataset, one.job, one.open, one.waiting) == ("d", "", 2.5, "tables")
    assert one.started.year == 2026
    del status["planning"]  # of an earlier server
    assert penstock.ServerStatus.of(json.dumps(status).encode()).planning == ()
