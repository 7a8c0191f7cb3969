"""A server whose clients get batches in mapped memory."""

from __future__ import annotations

import itertools
import re
import shutil
import time
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
from server import Server

import penstock


class Host:
    """A server with a local socket, and its metrics.

    Attributes:
        socket: the path of the socket.
        config: the server's own copy of the config file; the log has its name.
    """

    _made = itertools.count()

    def __init__(self, config: Path, folder: Path, *flags: str) -> None:
        number = next(self._made)
        self.socket = folder / f"private{number}" / "local.sock"
        self.config = config.with_stem(f"local{number}")
        shutil.copy(config, self.config)
        self.server = Server(
            self.config,
            "--local-socket",
            str(self.socket),
            "--metrics",
            "127.0.0.1:0",
            "--log-format",
            "json",
            *flags,
        )
        self._log = self.config.with_suffix(".log")

    def __enter__(self) -> Host:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()

    def connect(self, **options: Any) -> penstock.Client:
        return penstock.connect(self.server.address, **options)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels, or of one with its labels."""
        listen = re.search(r'"metrics".*"listen":"([^"]*)"', self._log.read_text())
        assert listen is not None
        with urllib.request.urlopen(f"http://{listen[1]}/metrics") as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def waits_for(self, name: str, value: float, seconds: float = 10) -> None:
        limit = time.monotonic() + seconds
        while self.metric(name) != value:
            assert time.monotonic() < limit, f"{name} is {self.metric(name)} instead of {value}"
            time.sleep(0.02)


def mapped(batch: pa.RecordBatch) -> bool:
    """Whether a batch is in mapped memory: the process's maps name its file."""
    buffers = (buffer for column in batch.columns for buffer in column.buffers())
    address = next(buffer.address for buffer in buffers if buffer is not None and buffer.size)
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
        if first <= address < last:
            return "memfd:penstock-segment" in line
    return False
