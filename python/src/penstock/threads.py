"""The threads of this package that call servers. The interpreter aborts the process if it ends while one is in gRPC."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
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


class _Threads:
    """The owners of threads, which end them before the interpreter ends."""

    def __init__(self) -> None:
        self.ended = False
        self.owners: weakref.WeakSet[Any] = weakref.WeakSet()

    def end(self) -> None:
        self.ended = True
        for owner in list(self.owners):
            owner.end(_END_LIMIT)


_threads = _Threads()
atexit.register(_threads.end)


def may_start(owner: Ending) -> bool:
    """Reports whether a thread may start: the interpreter goes on, or waits for the owner's end."""
    _threads.owners.add(owner)
    return not _threads.ended


class Opener:
    """Opens a stream in a thread. The reader of another stream takes it, or closes it."""

    def __init__(self, opening: Callable[[], Messages | None]) -> None:
        """Begins to open it.

        Args:
            opening: opens the stream; None if there is nothing to open.
        """
        self._opening: Callable[[], Messages | None] | None = opening
        self._messages: Messages | None = None  # None before it is open, and once it is taken or closed
        # The garbage collector may call close in a thread that holds the lock.
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-{type(self).__name__.lower()}", daemon=True
        )
        if may_start(self):
            self._thread.start()
        else:
            self._opening = None

    @property
    def ended(self) -> bool:
        """Whether the thread has ended, or was not started."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        opening, self._opening = self._opening, None
        assert opening is not None
        try:
            messages = opening()
            del opening
            if messages is not None:
                with self._changed:
                    self._messages = messages
                self._opened(messages)
        except errors.Error as e:
            # The reader goes on with its stream, and opens the rest again when it needs it.
            _log.debug("a stream was not opened ahead: %s", e)
        # After the assignment: a call of close before it did not close the stream.
        if self._closed:
            self.close()

    def _opened(self, messages: Messages) -> None:
        """Is called in the thread when the stream is open."""

    def end(self, limit: float) -> None:
        """Closes the stream, and waits until its thread has ended.

        Args:
            limit: in seconds.
        """
        if self._pid != os.getpid():
            return
        self.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(limit)

    def close(self) -> None:
        """Closes the stream, or has it closed once it is open, unless the reader has taken it. Safe to call from any thread."""
        if self._pid != os.getpid():  # the thread that may hold the lock does not exist in a fork
            return
        with self._changed:
            self._closed = True
            messages, self._messages = self._messages, None
            self._changed.notify_all()
        if messages is not None:
            messages.close()
