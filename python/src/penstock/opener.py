"""Opens a stream in a thread, while its reader still reads another one."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from penstock import errors
from penstock.messages import Messages
from penstock.threads import started

_log = logging.getLogger("penstock")


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
