"""The threads of this package that call servers. The interpreter aborts the process if it ends while one is in gRPC."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from penstock import errors

if TYPE_CHECKING:
    from penstock.messages import Messages

_log = logging.getLogger("penstock")

# Seconds within which a thread must end before the interpreter does.
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
        for owner in self._all():
            owner.end(_END_LIMIT)

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


class Opener:
    """Opens a stream in a thread. The reader of another stream takes it, or closes it.

    Attributes:
        ended: whether the thread has ended, or was not started.
    """

    def __init__(self, opening: Callable[[], Messages | None]) -> None:
        """Begins to open it.

        Args:
            opening: prepares the stream, without opening it; None if there is nothing to open.
        """
        self._opening: Callable[[], Messages | None] | None = opening
        self._messages: Messages | None = None  # None before it is prepared, and once it is taken or closed
        # The garbage collector may call close in a thread that holds the lock.
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self.ended = False
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-{type(self).__name__.lower()}", daemon=True
        )
        if not started(self, self._thread):
            self._opening, self.ended = None, True

    def _run(self) -> None:
        opening, self._opening = self._opening, None
        assert opening is not None
        try:
            messages = opening()
            del opening
            if messages is not None:
                with self._changed:
                    self._messages = messages  # from now on, close ends what the thread waits for
                if self._closed:
                    self.close()
                else:
                    self._open(messages)
        except errors.Error as e:
            # The reader goes on with its stream, and opens the rest again when it needs it.
            _log.debug("a stream was not opened ahead: %s", e)
            self.close()
        finally:
            with self._changed:
                self.ended = True
                self._changed.notify_all()

    def _open(self, messages: Messages) -> None:
        """Opens the stream, in the thread."""
        messages.open()

    def end(self, limit: float) -> None:
        """Closes the stream, and waits until its thread has ended.

        Args:
            limit: in seconds.
        """
        self.close()
        self.settle(limit)

    def settle(self, limit: float) -> None:
        """Waits until the thread has ended, if the stream is closed.

        Args:
            limit: in seconds.
        """
        if self._pid != os.getpid() or not self._closed:
            return
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(limit)

    def close(self) -> None:
        """Closes the stream, unless the reader has taken it. Safe to call from any thread."""
        if self._pid != os.getpid():  # the thread that may hold the lock does not exist in a fork
            return
        with self._changed:
            self._closed = True
            messages, self._messages = self._messages, None
            self._changed.notify_all()
        if messages is not None:
            messages.close()
