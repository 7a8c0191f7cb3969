"""The whole run at a small size, with Penstock, or with a stub that gives wrong answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = HERE.parent / "run.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmark."""
    return _run(arguments, os.environ)


def run_with_stub(options: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmark with the stub as Penstock's binary; `options` are the stub's."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "penstock"
        stub = HERE / "stub_server.py"
        binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stub}" {options} "$@"\n')
        binary.chmod(0o755)
        return _run(arguments, {**os.environ, "PENSTOCK_BIN": str(binary)})


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), "--quick", *arguments],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )


class Run(unittest.TestCase):
    """Exit codes and what is printed."""

    def test_all_contenders(self) -> None:
        done = run()
        assert done.returncode == 0, done.stderr
        for text in (
            "Penstock",
            "Polars",
            "DataFusion",
            "Flight",
            "Unix socket",
            "Stage 2",
            "its bound of",
            "t_scattered",
            "Penstock, indexed**",
            "expanded by the client**",
            "execute()",
        ):
            assert text in done.stdout
        assert str(HERE.parents[1]) not in done.stdout

    def test_wrong_row_is_caught(self) -> None:
        names = ["penstock", "penstock-indexed", "penstock-expanded"]
        done = run_with_stub("--wrong", "--only", ",".join(names), "--datasets", "t")
        assert done.returncode == 1
        for name in names:
            assert f"t, {name}, batches of 8192: column item_id" in done.stderr
            assert f"t, {name}, batches of 8192: rows joined to features" in done.stderr

    def test_plain_batches_are_not_taken_for_indexed_ones(self) -> None:
        names = ["penstock-indexed", "penstock-expanded"]
        done = run_with_stub("--plain", "--only", ",".join(names), "--datasets", "t")
        assert done.returncode == 1
        for name in names:
            assert f"t, {name}, batches of 8192: ValueError: the server sent a plain batch" in done.stderr

    def test_server_that_does_not_start(self) -> None:
        done = run_with_stub("--unknown", "--only", "penstock", "--datasets", "t")
        assert done.returncode == 1
        assert "unrecognized arguments: --unknown" in done.stderr

    def test_wrong_call(self) -> None:
        done = run("--only", "dukdb")
        assert done.returncode == 2
        assert "dukdb: not among" in done.stderr
