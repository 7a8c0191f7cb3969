"""Waits for the end of gRPC's threads, which a fork requires.

The threads end some milliseconds after the last client is closed, and gRPC does not report when. On Linux, this module
lists the threads of the process; elsewhere, it waits a short time.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

_THREADS = Path("/proc/self/task")

# Seconds to wait if threads cannot be listed.
_BLIND = 0.1
# Seconds within which a gRPC thread sets its name. Threads that take longer are not gRPC's.
_UNNAMED_LIMIT = 0.25
# The number of consecutive scans that must find no gRPC thread: one scan may begin before the last thread is created.
_SCANS = 2


def all_threads() -> set[str]:
    """Returns the ids of this process's threads; empty if they cannot be listed."""
    return {thread.name for thread in _THREADS.iterdir()} if _THREADS.is_dir() else set()


def ended(limit: float, known: set[str]) -> bool:
    """Waits until gRPC's threads have ended, and reports whether they have.

    A thread has its creator's name until it sets its own, and the thread that shuts gRPC down is created last. So any
    thread may be that one, unless it is `known` or Python's. Other threads are added to `known` once identified.

    Args:
        limit: seconds to wait for threads with a gRPC name.
        known: the ids of threads that are not gRPC's: at first, those older than any client.
    """
    if not _THREADS.is_dir():
        time.sleep(min(limit, _BLIND))
        return True
    began = time.monotonic()
    clear = 0
    while clear < _SCANS:
        clear += 1
        names = {thread: _name(thread) for thread in all_threads()}
        waited = time.monotonic() - began
        if any(map(_is_grpc, names.values())):
            clear = 0
            if waited > limit:
                return False
        new = names.keys() - known - {str(thread.native_id) for thread in threading.enumerate()}
        if new and waited > _UNNAMED_LIMIT:
            known |= {thread for thread in new if not _is_grpc(names[thread])}
        elif new:
            clear = 0
        if not clear:
            time.sleep(0.001)
    return True


def _name(thread: str) -> str:
    """Returns the name of a thread; "" if it has ended."""
    try:
        return (_THREADS / thread / "comm").read_text().strip()
    except OSError:
        return ""


def _is_grpc(name: str) -> bool:
    return name in ("event_engine", "lifeguard") or name.startswith(("grpc", "resolver"))
