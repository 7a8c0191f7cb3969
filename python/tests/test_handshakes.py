"""Servers that are killed between two messages of a session for batches in mapped memory."""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

import lake
import pytest
from local_host import Host
from traps import STEP, Trap

import penstock

pytestmark = [
    pytest.mark.usefixtures("in_order"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
    ),
]


# spec: local-15
def test_a_kill_between_messages_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = lake.scored(tmp_path, 7, 900, 100, files=2)
    query: Any = {"wire": "plain", "batch_rows": 300}
    with tempfile.TemporaryDirectory() as sockets, Host(config, Path(sockets)) as second:
        with second.connect(local=False) as far:
            want = list(far.read("d", **query))
        for nth in itertools.count(1, STEP):
            with (
                Host(config, Path(sockets)) as first,
                penstock.connect([first.server.address, second.server.address], reconnect=60) as client,
                monkeypatch.context() as patch,
            ):
                trap = Trap(patch, nth, first.server.kill)
                got = list(client.read("d", **query))
            assert len(got) == len(want), trap.passed[:nth]
            assert all(a.equals(b) for a, b in zip(got, want, strict=True)), trap.passed[:nth]
            if len(trap.passed) < nth:
                break
    assert nth > 20, "few messages were seen"
