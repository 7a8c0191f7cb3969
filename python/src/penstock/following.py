"""Receives where streams will move while batches before that point are still on their way.

Without this, a stream finds that it moves only after everything that the transport holds, and the trainer then waits
until another server has opened the rest.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow.flight as flight

from penstock import errors
from penstock.addresses import Address
from penstock.answers import parsed
from penstock.call import FOLLOW_HEADER, Call
from penstock.lease import Lease
from penstock.threads import started

_log = logging.getLogger("penstock")

Notice = Mapping[str, Any]
"""Where a stream moves: the number of batches before, and the cursor."""


# Seconds after which streams are followed: those that end before need no call.
_AFTER = 1.0

# Notices that say nothing new, after which a server is no longer listened to.
_USELESS = 1000


class Followed(Protocol):
    """The connection to a server whose streams are followed."""

    address: Address

    def stream(self, ticket: flight.Ticket) -> tuple[Lease, Call]:
        """Starts a stream, whose lease the caller releases."""


class Follower:
    """Follows the streams of one server with one call, which lasts as long as there are streams. Safe for threads."""

    def __init__(self, channel: Followed) -> None:
        self._channel = weakref.ref(channel)  # which has this object: a client without uses is freed at once
        self._pid = os.getpid()
        self._name = secrets.token_hex(16)
        self._numbers = itertools.count()
        # The garbage collector may call leave in a thread that holds the lock.
        self._changed = threading.Condition(threading.RLock())
        self._told: dict[int, Callable[[Notice], None] | None] = {}  # None once called
        self._lease: Lease | None = None
        self._thread: threading.Thread | None = None  # None if no stream is followed

    def number(self) -> tuple[int, tuple[str, str]]:
        """Returns a number for a stream, and the header of the stream's call."""
        number = next(self._numbers)
        return number, (FOLLOW_HEADER, f"{self._name} {number}")

    def follow(self, number: int, call: Call, told: Callable[[Notice], None]) -> None:
        """Follows a stream until `leave`, if its server can be followed.

        Args:
            number: the stream's number.
            call: the call of the stream, which has begun.
            told: called once at most, in another thread, when the server stops.
        """
        if call.follows != f"{self._name} {number}":
            return
        with self._changed:
            self._told[number] = told
            if self._thread is not None:
                return
            thread = self._thread = threading.Thread(target=self._run, name="penstock-follow", daemon=True)
        # Without the lock: the garbage collector may call leave in the new thread, and start waits for that thread.
        if not started(self, thread):
            with self._changed:
                self._thread = None

    def leave(self, number: int) -> None:
        """Stops following a stream. Safe to call more than once."""
        if self._pid != os.getpid():  # the thread that may hold the lock does not exist in a fork
            return
        with self._changed:
            if number not in self._told:
                return
            del self._told[number]
            if self._told:
                return
            self._changed.notify_all()
            lease = self._lease
        if lease is not None:
            lease.release()

    def end(self, limit: float) -> None:
        """Follows no stream any more, and waits for the end of the thread.

        Args:
            limit: in seconds.
        """
        if self._pid != os.getpid():
            return
        with self._changed:
            self._told.clear()
            self._changed.notify_all()
            lease = self._lease
        if lease is not None:
            lease.release()
        self.settle(limit)

    def settle(self, limit: float) -> None:
        """Waits until nothing runs, unless streams are followed.

        Args:
            limit: in seconds.
        """
        thread = self._thread
        if (
            thread is not None
            and thread.is_alive()
            and not self._told
            and thread is not threading.current_thread()
        ):
            thread.join(limit)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: not self._told, _AFTER):
                    self._thread = None
                    return
                asked = set(self._told)
            self._read()
            with self._changed:
                self._lease = None
                # Streams that began later may not have been followed by this call.
                if set(self._told) <= asked:
                    self._thread = None
                    return

    def _read(self) -> None:
        """Reads notices until the call ends. If it fails, streams move after they have read their batches."""
        channel = self._channel()
        if channel is None:
            return
        lease = None
        try:
            ticket = flight.Ticket(json.dumps({"follow": self._name}))
            lease, call = channel.stream(ticket)
            with self._changed:
                self._lease, ended = lease, not self._told
            reader = lease.reader
            useless = 0
            with call.translated():
                while not ended and reader is not None and useless < _USELESS:
                    try:
                        chunk = reader.read_chunk()
                    except StopIteration:
                        break
                    text = b"" if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
                    useless += not self._tell(parsed(text)["moves"])
        except (errors.Error, ValueError, KeyError, TypeError) as e:
            _log.debug("%s does not tell where streams move: %s", channel.address, e)
        finally:
            if lease is not None:
                lease.release()

    def _tell(self, notice: Notice) -> bool:
        """Calls what a stream has given for its notice, once. Reports whether it did."""
        number = notice["stream"]
        with self._changed:
            told = self._told.get(number)
            if told is None:
                return False
            self._told[number] = None
        told(notice)
        return True
