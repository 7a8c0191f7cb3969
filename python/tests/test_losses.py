"""Streams of several replicas, which are killed and frozen: the short form of benchmarks/losses.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LOSSES = Path(__file__).parents[2] / "benchmarks" / "losses.py"
LIMIT = 600


@pytest.mark.more
def test_streams_lose_replicas_and_no_row(tmp_path: Path) -> None:
    """Compares each batch with that of an undisturbed read; how long streams wait is not checked."""
    flags = ["--local", "--for", "40", "--every", "4", "--replicas", "4", "--streams", "4"]
    done = subprocess.run(
        [sys.executable, str(LOSSES), *flags, "--tables", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
