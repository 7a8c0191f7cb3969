"""Streams that processes read while servers are restarted or lost, and what was counted of them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from running import ROOT, RunError


class Readers:
    """Processes that read streams through restarts_reader.py, each stream its own shard. They end with the context."""

    def __init__(
        self, given: argparse.Namespace, count: int, package: Path, inside: Sequence[str] = ()
    ) -> None:
        """Starts the processes.

        Args:
            given: the number of streams, the rows of a batch, the pause after it, and the lookahead.
            count: the number of processes.
            package: the folder of the Python package.
            inside: a command that starts another one in a namespace.
        """
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT / "benchmarks")])}
        pipe = subprocess.PIPE
        self._processes: list[subprocess.Popen[str]] = []
        for number in range(min(count, given.streams)):
            shards = [str(i) for i in range(given.streams) if i % count == number]
            command = [*inside, sys.executable, str(ROOT / "benchmarks" / "restarts_reader.py"), *shards]
            command += ["--of", str(given.streams), "--rows", str(given.rows), "--pause", str(given.pause)]
            command += ["--lookahead", str(given.lookahead)]
            self._processes.append(
                subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def begin(self, addresses: Sequence[str]) -> None:
        """Begins to read from servers, and waits until each stream has a batch."""
        self._send(",".join(addresses))
        for process in self._processes:
            if process.stdout is None or not process.stdout.readline():
                raise RunError("a reader ended")

    def check(self) -> None:
        """Raises an error if a process has ended."""
        if any(process.poll() is not None for process in self._processes):
            raise RunError("a reader ended")

    def end(self, address: str) -> list[dict[str, Any]]:
        """Ends reading, and reads the same rows again from one server. Returns what was counted of each stream."""
        self._send(address)
        return [one for process in self._processes for one in json.loads(process.communicate()[0])]

    def _send(self, line: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()


def quantile(values: list[float], share: float) -> float:
    """Returns the value that a share of the values does not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def print_counts(streams: list[dict[str, Any]]) -> None:
    """Prints how many batches, moves and failures all streams had, and the texts of their errors."""
    for name in ("batches", "moved", "resumed", "warnings", "errors", "differ"):
        print(f"{name:10} {sum(len(s[name]) if isinstance(s[name], list) else s[name] for s in streams)}")
    for text in sorted({text for s in streams for text in s["errors"]}):
        print(f"  {text}")
