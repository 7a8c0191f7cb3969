"""Runs bin/penstock alongside the demo, and stops it at the end."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from failure import DemoError

_START_LIMIT = 30.0
_STOP_LIMIT = 10.0
_LAST_LINES = 5


class ServerError(DemoError):
    """The server did not start; the message has its last output."""


@contextmanager
def serving(binary: Path, config: Path, log: Path) -> Iterator[str]:
    """Start the server on a free local port; returns host:port.

    Whatever ends the context ends the server. Its log goes to a file.
    """
    command = [str(binary), "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield _address(process, log)
    finally:
        _stop(process)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """The server's first line; nothing else is written before it."""
    assert process.stdout is not None
    spoke, _, _ = select.select([process.stdout], [], [], _START_LIMIT)
    address = process.stdout.readline().strip() if spoke else ""
    if not address:
        words = "\n".join(log.read_text().splitlines()[-_LAST_LINES:])
        raise ServerError(f"the server did not start:\n{words}")
    return address


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
