"""`gpu.py` runs without a GPU, and wrong tensors are detected. Needs torch: `python -m unittest tests.torch_gpu`."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

import same_rows
import tables
import torch
from dlrm import COLUMNS, HISTORY, Trainer
from inputs import Inputs
from same_rows import DifferenceError, Joined

BENCHMARKS = Path(__file__).resolve().parents[1]
QUICK = BENCHMARKS.parent / ".bench" / "quick"
ROWS = 64


def gpu(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the benchmark with this Python."""
    return subprocess.run(
        [str(BENCHMARKS / "gpu.sh"), *arguments],
        env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


class Gpu(unittest.TestCase):
    def test_without_a_gpu(self) -> None:
        sizes = ["--rows", "40000", "--batch-rows", "128", "--steps", "8", "--ids", "1000", "--compared", "3"]
        done = gpu(*sizes, "--runs", "1", "--device", "cpu")
        assert done.returncode == 0, done.stderr
        assert (
            "3 batches in stored order and 3 shuffled ones have the tensors of the joined rows" in done.stdout
        )
        assert "| resident, while a process reads |" in done.stdout
        assert "Not measured on a GPU" in done.stdout

    def test_names_what_is_missing(self) -> None:
        done = gpu(PENSTOCK_BIN="/usr/bin/false")
        assert done.returncode == 2
        assert "/usr/bin/false does not run" in done.stderr
        done = gpu(PYTHON="/usr/bin/false")
        assert done.returncode == 2
        assert "/usr/bin/false lacks a package" in done.stderr


class SameRows(unittest.TestCase):
    """Batches of the first rows, and of the last ones, whose requests have no features."""

    def setUp(self) -> None:
        tables.ensure(QUICK, tables.QUICK)
        self.inputs = Inputs.load(tables.inputs_path(QUICK, "t"))
        drawn = tables.draw(tables.QUICK).training
        self.batches = []
        for first in (0, drawn.num_rows - ROWS):
            rows = drawn.slice(first, ROWS)
            keys = list(zip(*(rows[name].to_pylist() for name in same_rows.KEY), strict=True))
            batch = Joined(self.inputs, rows["request_id"].combine_chunks()).batch(keys)
            batch.update(zip(same_rows.KEY, torch.tensor(keys).unbind(1), strict=True))
            self.batches.append(batch)

    def check(self) -> list[float]:
        trainers = [Trainer(torch.device("cpu"), 100) for _ in range(2)]
        return same_rows.check(trainers, self.batches, self.inputs)

    def test_equal_rows(self) -> None:
        assert len(self.check()) == 2
        assert same_rows.same(iter(self.batches), iter(self.batches)) == 2
        assert len(self.batches[0][HISTORY].values) == 50 * ROWS
        assert len(self.batches[1][HISTORY].values) == 0

    def test_every_column_counts(self) -> None:
        for name in COLUMNS:
            if name in same_rows.KEY:
                continue
            with self.subTest(column=name):
                found = self.batches[0][name]
                tensor = found.values if name == HISTORY else found
                before = tensor[3].clone()
                tensor[3] += 1
                with self.assertRaisesRegex(DifferenceError, f"batch 0: {name} "):  # noqa: PT027
                    self.check()
                tensor[3] = before
        assert len(self.check()) == 2

    def test_other_batches(self) -> None:
        with self.assertRaises(DifferenceError):  # noqa: PT027
            same_rows.same(iter(self.batches), reversed(self.batches))
        with self.assertRaises(ValueError):  # noqa: PT027
            same_rows.same(iter(self.batches), iter(self.batches[:1]))
