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
COSTS = HERE.parent / "costs.py"


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
        [sys.executable, str(COSTS), "--quick", *arguments],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )


class Costs(unittest.TestCase):
    """Exit codes and what is printed."""

    def test_contenders(self) -> None:
        # All of them on T; the others of the data sets with few.
        done = run("--datasets", "t")
        assert done.returncode == 0, done.stderr
        for text in (
            "| **Penstock** | 1,024 | 1 |",
            "| **Penstock, indexed** | 8,192 | 8 |",
            "| **Penstock, shuffled** | 8,192 | 8 |",
            "mapped memory, indexed",
            "Polars, in process",
            "in a loop over buckets",
            "DataFusion",
            "Flight server",
            "Echo, indexed",
            "Page decompression alone",
            "One copy of the plain batches",
            "| One staging column more, warm",
        ):
            assert text in done.stdout
        assert str(HERE.parents[1]) not in done.stdout

    def test_other_data_sets(self) -> None:
        chosen = "penstock,duckdb,polars,polars-loop,datafusion,echo"
        others = ("t_inner", "t_scattered", "tpch", "tpch_inner", "wide")
        done = run("--datasets", ",".join(others), "--only", chosen, "--batch-rows", "4096")
        assert done.returncode == 0, done.stderr
        for text in (*(f"### {name}\n" for name in others), "| 4,096 |", "Inner join: 39,570 rows."):
            assert text in done.stdout

    def test_variants_settings_and_cores(self) -> None:
        given = ["--only", "penstock,duckdb", "--datasets", "t", "--batch-rows", "8192", "--lanes", "1,2"]
        given += [
            "--rounds",
            "3",
            "--minutes",
            "0",
            "--cores",
            "1",
            "--set",
            "memory=512MiB",
            "--variant",
            "small:read_ahead=0,memory=256MiB",
        ]
        done = run(*given)
        assert done.returncode == 0, done.stderr
        assert "| **Penstock**, `small` | 8,192 | 2 | 1 |" in done.stdout
        assert "DuckDB, in process | 8,192 | 1 | 1 |" in done.stdout
        assert "Medians of 1 interleaved rounds" in done.stdout

    def test_settings_reach_the_server(self) -> None:
        done = run("--only", "penstock-python", "--datasets", "t", "--set", "nothing=1")
        assert done.returncode == 1
        assert "--nothing" in done.stderr

    def test_fields_of_queries_reach_the_server(self) -> None:
        done = run("--only", "penstock", "--datasets", "t", "--variant", "other:query.cache=nothing")
        assert done.returncode == 1
        assert "cache" in done.stderr
        assert "nothing" in done.stderr

    def test_wrong_row_is_caught(self) -> None:
        names = ["penstock", "penstock-indexed", "penstock-expanded"]
        done = run_with_stub(
            "--wrong", "--only", ",".join(names), "--datasets", "t", "--lanes", "1", "--batch-rows", "8192"
        )
        assert done.returncode == 1
        for name in names:
            assert f"t, {name}, batches of 8192: column item_id" in done.stderr
            assert f"t, {name}, batches of 8192: rows joined to features" in done.stderr

    def test_plain_batches_are_not_taken_for_indexed_ones(self) -> None:
        names = ["penstock-indexed", "penstock-expanded"]
        done = run_with_stub("--plain", "--only", ",".join(names), "--datasets", "t", "--batch-rows", "8192")
        assert done.returncode == 1
        for name in names:
            assert f"t, {name}, batches of 8192: ValueError: the server sent a plain batch" in done.stderr

    def test_batches_over_the_network_are_not_taken_for_mapped_ones(self) -> None:
        done = run("--only", "penstock-local", "--datasets", "t", "--set", "local_socket=")
        assert done.returncode == 1
        assert "did not come in mapped memory" in done.stderr

    def test_server_that_does_not_start(self) -> None:
        done = run_with_stub("--unknown", "--only", "penstock-python", "--datasets", "t")
        assert done.returncode == 1
        assert "unrecognized arguments: --unknown" in done.stderr

    def test_wrong_calls(self) -> None:
        for given, expected in (
            (["--only", "dukdb"], "dukdb: not among"),
            (["--datasets", "u"], "u: not among"),
            (["--cores", "100000"], "this machine lends"),
            (["--set", "memory"], "it is not NAME=VALUE"),
            (["--variant", "ram"], "it is not NAME:NAME=VALUE"),
        ):
            done = run(*given)
            assert done.returncode == 2, given
            assert expected in done.stderr
