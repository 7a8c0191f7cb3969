"""Opens the rest of a stream on another server while the stream is read."""

from __future__ import annotations

import threading
import weakref

import pyarrow as pa

from penstock.addresses import Key
from penstock.bound import BoundQuery
from penstock.channel import Channel
from penstock.fields import Cursor
from penstock.homeward import LIMIT, Homeward, Homing
from penstock.messages import Messages
from penstock.rest import Rest
from penstock.rings import Block
from penstock.servers import Choice
from penstock.successor import Successor


class Ahead:
    """What is opened ahead for one stream: its successor, if its server stops, and its way home to its first server."""

    def __init__(self, bound: BoundQuery, rest: Rest, key: Key | None, closed: threading.Event) -> None:
        """Opens nothing.

        Args:
            bound: the query, and its servers.
            rest: plans the rest of the stream.
            key: the key by which the stream is placed.
            closed: set when the stream is closed.
        """
        self._servers = bound.servers
        self._rest = rest
        self._key = key
        self._closed = closed
        settings = bound.servers.settings
        # With a limit, the number of rows before a cursor would be needed. The streams of a mix stay together.
        stays = bound.limit is not None or not settings.moves or settings.group
        self._homing = None if stays else Homing(bound.servers, key or "")
        self._homeward: Homeward | None = None
        self._successor: Successor | None = None

    def succeed(self, channel: Channel, cursor: Cursor, rows: int) -> None:
        """Begins to open the rest on another server.

        Args:
            channel: the connection to the server that stops.
            cursor: the position at which its stream will end.
            rows: the number of rows that were read so far.
        """
        rest, choice = self._rest, Choice(self._servers, self._key)
        choice.failed(channel)
        self._successor = Successor(
            cursor,
            lambda: rest.planned(cursor, rows, lambda bound, check: bound.plan(choice, check)),
        )
        if self._closed.is_set():
            self._successor.close()

    def successor(self, cursor: Cursor | None) -> Messages | None:
        """Returns the rest on another server; None if there is none after this position. Waits until it is open."""
        successor, self._successor = self._successor, None
        return None if successor is None else successor.take(cursor)

    def drop_successor(self) -> None:
        """Closes the rest on another server, if it was opened."""
        successor, self._successor = self._successor, None
        if successor is not None:
            successor.close()

    def home(self, channel: Channel) -> Channel | None:
        """Returns the first server for the stream, if it is time to begin the way there; otherwise None.

        Args:
            channel: the connection to the server that has the stream.
        """
        if self._homing is None or self._homeward is not None:
            return None
        return self._homing.due(channel.address)

    def go_home(self, home: Channel, cursor: Cursor, rows: int) -> None:
        """Begins to open the rest at the first server for the stream.

        Args:
            home: the connection to this server.
            cursor: the position of the stream.
            rows: the number of rows that were read so far.
        """
        rest = self._rest
        homeward = self._homeward = Homeward(
            lambda: rest.planned(
                cursor, rows, lambda bound, check: bound.planned_by(home, check, within=LIMIT)
            )
        )
        weakref.finalize(self, homeward.close).atexit = False
        if self._closed.is_set():
            homeward.close()

    def arrived(self, step: int) -> tuple[Messages, pa.RecordBatch | Block] | None:
        """Returns the rest at the first server, and the batch of a step, once it has this batch. Otherwise None."""
        homeward, homing = self._homeward, self._homing
        if homeward is None or homing is None:
            return None
        found = homeward.take(step)
        if found is not None:
            homing.arrived()
        elif homeward.ended:
            homing.failed()
        else:
            return None
        self._homeward = None
        return found

    def stay(self) -> None:
        """Ends the way home, if the stream has begun it."""
        homeward, self._homeward = self._homeward, None
        if homeward is not None:
            homeward.close()

    def close(self) -> None:
        """Closes everything. Safe to call from any thread."""
        for opened in (self._successor, self._homeward):
            if opened is not None:
                opened.close()
