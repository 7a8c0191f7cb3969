"""Jobs on the server's host: processes that read a data set with the Python package, at once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from process import cpu_seconds

ROOT = Path(__file__).resolve().parent.parent
BATCH_ROWS = 8192

# A job's program, with its address, the data set, the form of its batches, the way, and what it reads.
_PROGRAM = f"""
import os, sys
import numpy as np
import penstock
address, dataset, wire, way, reads = sys.argv[1:]
def touch(array):
    for buffer in array.buffers():
        if buffer is not None and buffer.size >= 8:
            np.frombuffer(buffer, np.uint64, buffer.size // 8).max()
    if hasattr(array, "dictionary"):
        touch(array.dictionary)
client = penstock.connect(address, local=way == "mapped")
client.plan(dataset, wire=wire)
print("ready", flush=True)
sys.stdin.readline()
before, rows = os.times(), 0
for batch in client.read(dataset, wire=wire, batch_rows={BATCH_ROWS}):
    rows += batch.num_rows
    if reads == "all":
        for column in batch.columns:
            touch(column)
after = os.times()
print(rows, after.user + after.system - before.user - before.system, flush=True)
"""


@dataclass(frozen=True)
class Job:
    """A job. `way` is "network" or "mapped"; `reads` of a batch besides its rows: "nothing" or "all"."""

    address: str
    dataset: str
    wire: str
    way: str
    reads: str = "nothing"


class Server:
    """A server with a local socket. Leaving the block ends it."""

    def __init__(self, config: Path, folder: str, *settings: str) -> None:
        command = [str(ROOT / "bin" / "penstock"), "serve", "--config", str(config)]
        command += ["--listen", "127.0.0.1:0", "--log-level", "error"]
        command += ["--local-socket", f"{folder}/private/local.sock", *settings]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = line(self._process.stdout)
        self.pid = self._process.pid

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def cpu(self) -> float:
        """The CPU seconds of the server so far."""
        return cpu_seconds(self.pid)


@dataclass(frozen=True)
class Ended:
    """What jobs that read at once cost: seconds until the last one ended, and for each its rows and CPU seconds."""

    seconds: float
    rows: list[int]
    cpu: list[float]


def read_at_once(jobs: Sequence[Job]) -> Ended:
    """Runs the jobs, which begin at the same time, when all have connected and planned."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, job.address, job.dataset, job.wire, job.way, job.reads],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for job in jobs
    ]
    for process in processes:
        line(process.stdout)
    began = time.monotonic()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ends = [line(process.stdout).split() for process in processes]
    seconds = time.monotonic() - began
    for process in processes:
        process.wait()
    return Ended(seconds, [int(rows) for rows, _ in ends], [float(cpu) for _, cpu in ends])


def line(stream: IO[str] | None) -> str:
    """The next line of a process."""
    assert stream is not None
    text = stream.readline().strip()
    if not text:
        raise RuntimeError("a process ended without output")
    return text
