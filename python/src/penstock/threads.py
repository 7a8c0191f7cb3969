"""The threads of this package that call servers. The interpreter aborts the process if it ends while one is in gRPC."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, Protocol

_log = logging.getLogger("penstock")

# Seconds within which all threads must end before the interpreter does.
_END_LIMIT = 10.0


class Ending(Protocol):
    """What has a thread that must end before the interpreter does."""

    def end(self, limit: float) -> None:
        """Ends the thread, within a limit in seconds."""

    def settle(self, limit: float) -> None:
        """Waits for the thread if it is about to end, within a limit in seconds."""


class _Threads:
    """The owners of threads, which end them before the interpreter ends."""

    def __init__(self) -> None:
        self.ended = False
        self.owners: weakref.WeakSet[Any] = weakref.WeakSet()

    def _all(self) -> list[Ending]:
        while True:
            with suppress(
                RuntimeError
            ):  # another thread has added one meanwhile; a lock could be held at a fork
                return list(self.owners)

    def end(self) -> None:
        self.ended = True
        deadline = time.monotonic() + _END_LIMIT
        for owner in self._all():
            owner.end(max(0.0, deadline - time.monotonic()))

    def settle(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        for owner in self._all():
            owner.settle(max(0.0, deadline - time.monotonic()))


_threads = _Threads()
atexit.register(_threads.end)


def settle(limit: float) -> None:
    """Waits for the threads that are about to end, before a fork.

    Args:
        limit: in seconds.
    """
    _threads.settle(limit)


def started(owner: Ending, thread: threading.Thread) -> bool:
    """Starts a thread, and reports whether it runs. It does not if the interpreter ends, or the system has no more threads."""
    _threads.owners.add(owner)
    if _threads.ended:
        return False
    try:
        thread.start()
    except RuntimeError as e:
        _log.debug("a thread does not start: %s", e)
        return False
    return True
