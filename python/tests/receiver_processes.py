"""Finds the processes of receivers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def receivers_in(folder: Path) -> list[int]:
    """The processes of receivers whose folders are in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            if words[1:3] == [b"receive", b"--private"] and Path(os.fsdecode(words[3])).parent == folder:
                found.append(int(process.name))
    return found


def kill_receivers(folder: Path) -> int:
    """Kills the receivers in a folder, and returns their number."""
    found = receivers_in(folder)
    for process in found:
        os.kill(process, signal.SIGKILL)
    return len(found)


def until_gone(folder: Path, seconds: float = 30.0) -> None:
    """Waits until there is no receiver in a folder."""
    limit = time.monotonic() + seconds
    while receivers_in(folder) or any(folder.glob("penstock-*")):
        assert time.monotonic() < limit, f"{receivers_in(folder)}, {list(folder.iterdir())}"
        time.sleep(0.01)
