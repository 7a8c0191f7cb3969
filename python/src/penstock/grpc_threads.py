"""Whether gRPC's threads have ended, which is the condition of a fork.

They end by themselves, some milliseconds after the last client was closed. gRPC does not say when. On Linux, the
threads of the process are listed; elsewhere, a short time passes.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

_THREADS = Path("/proc/self/task")

# Seconds to wait if threads cannot be listed.
_BLIND = 0.1
# Seconds that a thread may take until it has a name. Threads that take longer are not gRPC's.
_UNNAMED_LIMIT = 0.25
# Scans in a row that must find no thread of gRPC: one may have begun before the last thread was created.
_SCANS = 2


def all_threads() -> set[str]:
    """Returns the ids of the threads of this process; none if they cannot be listed."""
    return {thread.name for thread in _THREADS.iterdir()} if _THREADS.is_dir() else set()


def ended(limit: float, known: set[str]) -> bool:
    """Waits until gRPC's threads have ended, and reports whether they have.

    A thread has the name of its creator until it gives itself one, and the thread that shuts gRPC down is created
    last: any thread may be that one, unless it is `known` or Python's. Threads that turn out to be others are
    added to `known`.

    Args:
        limit: seconds to wait for threads that have a name of gRPC's.
        known: the ids of threads that are older than any client.
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
