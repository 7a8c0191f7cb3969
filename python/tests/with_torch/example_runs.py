"""Runs the examples as a user does, and kills them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psutil

EXAMPLES = Path(__file__).parents[2] / "examples"
Losses = dict[tuple[int, int], float]


def ranks(number: int, example: str, *arguments: str) -> list[str]:
    """The command that starts an example on a number of ranks."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    return [*run, "--nproc-per-node", str(number), str(EXAMPLES / example), *arguments]


def finished(command: list[str]) -> str:
    """What a command printed, which must go well."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def losses(text: str) -> Losses:
    """The loss of each step that an example printed."""
    found = re.findall(r"^epoch (\d+) step (\d+): loss ([\d.]+)$", text, re.MULTILINE)
    assert len(found) == text.count("epoch ")
    return {(int(epoch), int(step)): float(loss) for epoch, step, loss in found}


def killed(command: list[str], after: int) -> Losses:
    """Runs a command until it has printed a number of lines, and kills it and its children."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    try:
        lines = [job.stdout.readline() for _ in range(after)]
    finally:
        for process in [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]:
            process.kill()
        rest = job.stdout.read()  # unlike communicate, with what was read ahead
        job.stdout.close()
        job.wait(60)
    printed = "".join(lines) + rest
    return losses(printed[: printed.rindex("\n") + 1])  # the last line may have been cut
