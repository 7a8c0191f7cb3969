"""The stream on another server that continues one which will move, opened before the first one is read to its end."""

from __future__ import annotations

from collections.abc import Callable

from penstock.fields import Cursor
from penstock.messages import Messages
from penstock.opener import Opener


class Successor(Opener):
    """Opens a stream in a thread. The other server reads its first batch meanwhile."""

    def __init__(self, cursor: Cursor, opening: Callable[[], Messages | None]) -> None:
        """Begins to open it.

        Args:
            cursor: the position after which the stream begins.
            opening: prepares the stream; None if there is nothing to open.
        """
        self._cursor = cursor
        super().__init__(opening)

    def take(self, cursor: Cursor | None) -> Messages | None:
        """Returns the stream; None if it was not opened, or begins elsewhere. Waits until it is open, or closed.

        Args:
            cursor: the position of the reader; None before the first batch.
        """
        if cursor != self._cursor:
            self.close()
            return None
        with self._changed:
            self._changed.wait_for(lambda: self.ended or self._closed)
            messages, self._messages = self._messages, None
        return messages
