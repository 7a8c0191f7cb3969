"""CPU time and peak memory of processes, and what machine this is (Linux)."""

from __future__ import annotations

import contextlib
import os
import platform
from importlib import metadata
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PACKAGES = ("pyarrow", "duckdb", "polars", "datafusion", "pyiceberg", "numpy", "torch", "ray")


def own_id() -> int:
    """The id of this process."""
    return os.getpid()


def cpu_seconds(pid: int | None) -> float:
    """User and system time of a process and its threads; 0 for None."""
    if pid is None:
        return 0.0
    # The name, in parentheses, may contain spaces: count from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def peak_bytes(pid: int | None) -> int:
    """The maximum resident memory (VmHWM); 0 for None."""
    if pid is None:
        return 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no peak memory")


def machine_cpu_seconds() -> float:
    """The non-idle time of all cores, including stolen time."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / _TICK


def machine() -> dict[str, str]:
    """CPU, cores, memory, kernel and versions; nothing that identifies the machine."""
    described = {
        "cpu": _first("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(_first('/proc/meminfo', 'MemTotal').split()[0]) / (1 << 20):.1f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):  # packages of another environment
            described[package] = metadata.version(package)
    return described


def _first(path: str, field: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, text = line.partition(":")
        if name.strip() == field:
            return text.strip()
    return "unknown"
