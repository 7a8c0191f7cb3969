"""Streams that go back to the first server for them, which has returned or is new, while they are read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pyarrow as pa

from penstock.addresses import Address, Key
from penstock.channel import Channel
from penstock.messages import Messages
from penstock.opener import Opener
from penstock.rings import Block
from penstock.servers import Servers

# Seconds between two looks at the order of the servers, and over which the streams of a server spread.
_LOOK = 1.0
_SPREAD = 60.0

# Seconds between two tries at most.
_LONGEST_WAIT = 600.0

LIMIT = 60.0
"""Seconds for one try."""


class Homing:
    """Decides when a stream tries to go home: to the first server for it that does not rest."""

    def __init__(self, servers: Servers, key: Key) -> None:
        self._servers = servers
        self._key = key
        self._next_look = 0.0
        self._due: float | None = None  # None while the stream is at home
        self._tries = 0
        self._arrived = 0.0  # by the monotonic clock: when the stream last came home

    def due(self, at: Address) -> Channel | None:
        """Returns the first server if it is time to go there; None otherwise. Never waits.

        Args:
            at: the server that has the stream.
        """
        now = time.monotonic()
        if now < self._next_look:
            return None
        self._next_look = now + _LOOK
        home = self._servers.before(self._key, at)
        if home is None:
            self._due = None
            if now - self._arrived >= _LONGEST_WAIT:
                self._tries = 0
            return None
        if self._due is None:
            self._due = now + (self._wait() if self._tries else random.uniform(0, _SPREAD))
        return home if now >= self._due else None

    def failed(self) -> None:
        """Notes that a try has failed: the next one is due after a minute, and later each time, up to ten minutes."""
        self._tries += 1
        self._due = time.monotonic() + self._wait()

    def arrived(self) -> None:
        """Notes that the stream is at home. If it leaves again within ten minutes, its next try comes later, too."""
        self._tries += 1
        self._due, self._arrived = None, time.monotonic()

    def _wait(self) -> float:
        return min(_LONGEST_WAIT, _SPREAD * 2.0 ** min(self._tries - 1, 10)) * random.uniform(0.5, 1)


class Homeward(Opener):
    """Opens the rest of a stream in a thread, and reads it up to where the reader of the old stream is.

    The reader goes on with the old stream meanwhile, and takes the new one when that has just the batch that is due.
    """

    def __init__(self, opening: Callable[[], Messages | None]) -> None:
        """Begins to open it.

        Args:
            opening: prepares the stream; None if there is nothing to open.
        """
        self._batch: pa.RecordBatch | Block | None = None  # the one that the reader may take
        self._step = -1
        self._deadline = time.monotonic() + LIMIT
        super().__init__(opening)

    def take(self, due: int) -> tuple[Messages, pa.RecordBatch | Block] | None:
        """Returns the stream and its last batch if that is the one of a step; None otherwise. Does not wait.

        Args:
            due: the step. Batches before it are dropped.
        """
        if time.monotonic() >= self._deadline:
            self.close()  # the thread may wait for a server that does not answer
        with self._changed:
            if self._messages is None or self._batch is None or self._step > due:
                return None
            batch, self._batch = self._batch, None
            messages = self._messages
            if self._step == due:
                self._messages = None
            self._changed.notify_all()
            return (messages, batch) if self._step == due else None

    def _open(self, messages: Messages) -> None:
        """Reads batches until the reader takes one, for a minute at most."""
        try:
            self._read(messages)
        finally:
            self.close()
            self._batch = None

    def _read(self, messages: Messages) -> None:
        while not self._closed and time.monotonic() < self._deadline:
            batch = messages.next()
            if batch is None:
                return
            with self._changed:
                self._batch, self._step = batch, messages.position["step"]
                del batch
                self._changed.wait_for(
                    lambda: self._batch is None or self._closed, self._deadline - time.monotonic()
                )
                if self._messages is None:
                    return
