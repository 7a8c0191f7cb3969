"""Several replicas: the short forms of benchmarks, without limits of time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIMIT = 900

pytestmark = [pytest.mark.more, pytest.mark.timeout(LIMIT + 60)]


def run(program: str, *flags: str) -> None:
    """Runs a benchmark, whose exit status says whether its checks hold, and ends all processes that it leaves."""
    command = [sys.executable, str(BENCHMARKS / program), *flags]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        out, error = process.communicate(timeout=LIMIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, out + error


def test_streams_lose_replicas_and_no_row(tmp_path: Path) -> None:
    """Replicas are killed and frozen; each batch is that of an undisturbed read."""
    flags = ["--local", "--for", "30", "--every", "4", "--replicas", "4", "--streams", "4"]
    run("losses.py", *flags, "--tables", str(tmp_path))


def test_jobs_of_a_sweep_read_storage_once(tmp_path: Path) -> None:
    """Eight jobs at four replicas need as many requests to S3 as one job."""
    run("swept_replicas.py", "--rows", "40000", "--tables", str(tmp_path))
