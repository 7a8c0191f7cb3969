"""The stream on another server that continues one which will move, opened before the first one is read to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from penstock.messages import Messages
from penstock.threads import Opener


class Successor(Opener):
    """Opens a stream in a thread. The other server reads its first batch meanwhile."""

    def __init__(self, cursor: dict[str, Any], opening: Callable[[], Messages | None]) -> None:
        """Begins to open it.

        Args:
            cursor: the position after which the stream begins.
            opening: opens the stream; None if there is nothing to open.
        """
        self._cursor = cursor
        super().__init__(opening)

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
        with self._changed:
            messages, self._messages = self._messages, None
        return messages
