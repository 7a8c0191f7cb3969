"""All connections of this process, and what happens to them at a fork."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import Any, Protocol

from penstock import grpc_threads, local, threads

# Seconds that a fork waits for gRPC's threads to end, before and after it collects garbage that may keep them running.
_QUIET_SOON = 0.25
_QUIET_LIMIT = 2.0


class Connection(Protocol):
    """A connection of this process to a server."""

    def disconnect_if_idle(self) -> bool:
        """Closes the connection if nothing uses it. Reports whether it is closed."""

    def abandon(self) -> tuple[Any, ...]:
        """In a forked child, detaches and returns the parent's objects."""


class Process:
    """The state of all connections of this process, and its handling of forks.

    Attributes:
        lock: guards all connections. Any thread may hold it while the garbage collector runs.
        channels: the connections.
        unusable: why gRPC does not work: what was running in the parent at the fork; "" if it works.
        connected: whether a client was created since the last fork; gRPC's threads may run.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.channels: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.unusable = ""
        self.connected = False
        self._running = ""
        # The ids of threads that are not gRPC's, unless they have the name of a gRPC thread.
        self._known: set[str] = set()
        # In a child, the parent's clients and readers: freeing them would wait for threads that do not exist.
        self._abandoned: list[Any] = []

    def connects(self) -> None:
        """Called before a client is created. The lock is held."""
        if not self.connected:
            self._known = grpc_threads.all_threads()
        self.connected = True

    def before_fork(self) -> None:
        """Closes what is idle, and takes the lock."""
        threads.settle(_QUIET_LIMIT)
        with self.lock:
            running = self._still_running(_QUIET_SOON)
        if running:
            # A stream in a reference cycle is open until it is collected. Finalizers take other locks, so this lock is
            # not held here.
            gc.collect()
        self.lock.acquire()
        self._running = self._still_running(_QUIET_LIMIT if running else 0)

    def _still_running(self, limit: float) -> str:
        """Closes idle connections. Returns what is still running after `limit` seconds; "" if gRPC has ended."""
        idle = [c.disconnect_if_idle() for c in list(self.channels)]  # a list, not a generator: closes all
        if not all(idle):
            return "its parent was reading from a server"
        if not self.connected:
            return ""
        if not grpc_threads.ended(limit, self._known):
            return "its parent had another connection by gRPC"
        self.connected = False
        return ""

    def after_in_parent(self) -> None:
        """Returns the lock."""
        self.lock.release()

    def after_in_child(self) -> None:
        """Detaches the connections of the parent, and returns the lock."""
        self._abandoned.extend(c.abandon() for c in list(self.channels))
        self.unusable = self.unusable or self._running
        self.connected = False
        self.lock.release()


process = Process()
"""The state of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=process.before_fork,
        after_in_parent=process.after_in_parent,
        after_in_child=process.after_in_child,
    )
local.register_at_fork()
