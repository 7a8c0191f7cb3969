"""The stream on another server that continues one which will move, opened before the first one is read to its end."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from penstock import errors
from penstock.following import may_start
from penstock.messages import Messages

_log = logging.getLogger("penstock")


class Successor:
    """Opens a stream in a thread. The other server reads its first batch meanwhile."""

    def __init__(self, cursor: dict[str, Any], opening: Callable[[], Messages | None]) -> None:
        """Begins to open it.

        Args:
            cursor: the position after which the stream begins.
            opening: opens the stream; None if there is nothing to open.
        """
        self._cursor = cursor
        self._opening: Callable[[], Messages | None] | None = opening
        self._messages: Messages | None = None
        # The garbage collector may call close in a thread that holds the lock.
        self._lock = threading.RLock()
        self._closed = False
        self._thread = threading.Thread(target=self._open, name="penstock-successor", daemon=True)
        self._pid = os.getpid()
        if may_start(self):
            self._thread.start()
        else:
            self._opening = None

    def _open(self) -> None:
        opening, self._opening = self._opening, None
        assert opening is not None
        try:
            messages = opening()
        except errors.Error as e:
            # The stream is opened again when it is needed, and that error is raised.
            _log.debug("a stream was not opened ahead: %s", e)
            return
        with self._lock:
            self._messages = messages
            closed = self._closed  # after the assignment: a call of close in between has closed the stream
        if closed:
            self.close()

    def take(self, cursor: bytes | None) -> Messages | None:
        """Returns the stream; None if it was not opened, or begins elsewhere. Waits until it is open.

        Args:
            cursor: the position of the reader.
        """
        if cursor is None or json.loads(cursor) != self._cursor:
            self.close()
            return None
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            messages, self._messages = self._messages, None
        return messages

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
        """Closes the stream, or has it closed once it is open. Safe to call from any thread."""
        with self._lock:
            self._closed = True
            messages, self._messages = self._messages, None
        if messages is not None:
            messages.close()
