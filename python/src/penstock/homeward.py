"""Streams that go back to the first server for them, which has returned or is new, while they are read."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pyarrow as pa

from penstock.addresses import Address, Key
from penstock.channel import Channel
from penstock.messages import Messages
from penstock.rings import Block
from penstock.servers import Servers
from penstock.threads import Opener

# Seconds between two looks at the order of the servers, and over which the streams of a server spread.
_LOOK = 1.0
_SPREAD = 60.0

# Seconds between two tries at most, and for one try.
_LONGEST_WAIT = 600.0
_LIMIT = 60.0


class Homing:
    """Decides when a stream tries to go home: to the first server for it that does not rest."""

    def __init__(self, servers: Servers, key: Key) -> None:
        self._servers = servers
        self._key = key
        self._next_look = 0.0
        self._due: float | None = None  # None while the stream is at home
        self._tries = 0

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
            return None
        if self._due is None:
            self._due = now + random.uniform(0, _SPREAD)
        return home if now >= self._due else None

    def failed(self) -> None:
        """Notes that a try has failed: the next one is due after a minute, and later each time, up to ten minutes."""
        wait = min(_LONGEST_WAIT, _SPREAD * 2.0 ** min(self._tries, 10))
        self._tries += 1
        self._due = time.monotonic() + wait * random.uniform(0.5, 1)

    def arrived(self) -> None:
        """Notes that the stream is at home."""
        self._due, self._tries = None, 0


class Homeward(Opener):
    """Opens the rest of a stream in a thread, and reads it up to where the reader of the old stream is.

    The reader goes on with the old stream meanwhile, and takes the new one when that has just the batch that is due.
    """

    def __init__(self, opening: Callable[[], Messages | None]) -> None:
        """Begins to open it.

        Args:
            opening: opens the stream; None if there is nothing to open.
        """
        self._batch: pa.RecordBatch | Block | None = None  # the one that the reader may take
        self._step = -1
        super().__init__(opening)

    def take(self, due: int) -> tuple[Messages, pa.RecordBatch | Block] | None:
        """Returns the stream and its last batch if that is the one of a step; None otherwise. Does not wait.

        Args:
            due: the step. Batches before it are dropped.
        """
        with self._changed:
            if self._messages is None or self._batch is None or self._step > due:
                return None
            batch, self._batch = self._batch, None
            messages = self._messages
            if self._step == due:
                self._messages = None
            self._changed.notify_all()
            return (messages, batch) if self._step == due else None

    def _opened(self, messages: Messages) -> None:
        """Reads batches until the reader takes one, for a minute at most."""
        try:
            self._read(messages, time.monotonic() + _LIMIT)
        finally:
            self.close()
            self._batch = None

    def _read(self, messages: Messages, deadline: float) -> None:
        while not self._closed and time.monotonic() < deadline:
            batch = messages.next()
            if batch is None:
                return
            step = int(json.loads(messages.cursor or b"{}")["step"])
            with self._changed:
                self._batch, self._step = batch, step
                del batch
                self._changed.wait_for(
                    lambda: self._batch is None or self._closed, deadline - time.monotonic()
                )
                if self._messages is None:
                    return
