"""Training loops whose server is told to stop: they continue on another server, whichever way batches come."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server import BINARY, Server
from test_moving import said
from test_restarts import ROWS, World, make
from torch.utils.data import DataLoader

from penstock import receivers
from penstock.torch import Batch, IterableDataset

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
    ),
    pytest.mark.usefixtures("in_order"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("moving"), 3 * ROWS)


@pytest.fixture(autouse=True)
def program(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the folders of receivers, whose program is on the PATH. In the end, nothing uses a receiver."""
    monkeypatch.setenv("PATH", str(BINARY.parent), prepend=":")
    yield folders
    receivers.leave()


def dataset(*addresses: str, **options: Any) -> IterableDataset[Batch]:
    # The table has more rows than a receiver holds ahead.
    query: dict[str, Any] = {
        "batch_rows": 64,
        "wire": "plain",
        "columns": ["row", "wide"],
        "lookahead": 1 << 16,
    }
    return IterableDataset(
        list(addresses), "wide", nulls={"row": "error", "wide": "empty"}, **{**query, **options}
    )


# spec: wire-58, receiver-8
@pytest.mark.parametrize("way", ["network", "ring", "receiver"])
def test_a_stopped_server_is_not_noticed(
    world: World, tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    def flags(name: str) -> list[str]:
        return ["--local-socket", str(tmp_path / name / "l.sock")] if way == "ring" else []

    options: dict[str, Any] = {"local": False} if way == "network" else {}
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o700)
    with Server(world.config, *flags("a")) as first, Server(world.config, *flags("b")) as second:
        whole = [batch["row"].tolist() for batch in dataset(second.address, **options)]
        data = dataset(first.address, second.address, **options)
        rows = []
        for batch in data:
            assert data.stats().way == way, data.stats().why
            rows.append(batch["row"].tolist())
            if len(rows) == 2:
                first.terminate()
        assert first.wait() == 0
    assert rows == whole
    assert (data.stats().moved, data.stats().resumed) == (1, 0)
    assert not [text for text in said(caplog) if "retry" in text or "resumed" in text]


# spec: wire-58
def test_workers_do_not_notice_a_stopped_server(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with Server(world.config) as first, Server(world.config) as second:
        whole = [batch["row"].tolist() for batch in dataset(second.address, local=False)]
        rows = []
        loader = DataLoader(
            dataset(first.address, second.address, local=False),
            batch_size=None,
            num_workers=2,
            prefetch_factor=1,
        )
        for batch in loader:
            rows.append(batch["row"].tolist())
            if len(rows) == 2:
                first.terminate()
        assert first.wait() == 0
    assert rows == whole
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
