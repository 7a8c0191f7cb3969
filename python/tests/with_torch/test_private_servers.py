"""DataLoader workers read from the private server of the process that made them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import lake
import pytest
from server import BINARY
from torch.utils.data import DataLoader

import penstock
from penstock.torch import IterableDataset

ROWS = 500


# spec: private-3
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_read_from_a_private_server(tmp_path: Path, start: str) -> None:
    config = lake.scored(tmp_path, 6, ROWS, 50)
    with penstock.open(config, program=BINARY) as client:
        data = IterableDataset(
            client.uri, "d", columns=["row"], batch_rows=50, tail="keep", nulls={"row": "error"}
        )
        loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=start)
        assert sorted(row for batch in loader for row in batch["row"].tolist()) == list(range(ROWS))
        assert client.read("d").read_all().num_rows == ROWS


# spec: private-6
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_do_not_wait_for_a_killed_server(tmp_path: Path, start: str) -> None:
    config = lake.scored(tmp_path, 6, ROWS, 50)
    with penstock.open(config, program=BINARY) as client:
        data = IterableDataset(
            client.uri,
            "d",
            columns=["row"],
            batch_rows=10,
            tail="keep",
            nulls={"row": "error"},
            reconnect=3600,
        )
        batches = iter(DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=start))
        next(batches)
        assert client.settings.private is not None
        os.kill(client.settings.private.pid, signal.SIGKILL)
        with pytest.raises(penstock.Unavailable, match="its private server has ended"):
            list(batches)
        with pytest.raises(penstock.Unavailable, match="its private server has ended"):
            next(iter(data))
