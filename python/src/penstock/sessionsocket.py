"""The socket of a session, over which a server passes files, and a client sends records. See docs/spec/local.md."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections import deque

from penstock import errors

TIMEOUT = 5
"""Seconds to wait for the server's next packet. The server sends a file before the message that names it."""

PACKET = 4096
"""The bytes of a packet at most."""

# The kinds of records.
SEEN, RETURNED, FORKED, CHECK = 1, 2, 3, 5

_RECORD = struct.Struct("<II")  # the kind, and the number of the delivery
_RECORDS = 512  # of a packet
# The records about blocks that wait for each other: a system call takes longer than a view. The server waits while four
# blocks are not reported, so a reader that holds all of its blocks must report sooner.
_DELAYED = 4
# A file descriptor in the control message of a packet, and the room for one.
_FILE = struct.Struct("=i")
_FILE_SPACE = socket.CMSG_LEN(_FILE.size) if sys.platform == "linux" else 0
_RECEIVE = socket.MSG_CMSG_CLOEXEC if sys.platform == "linux" else 0


class _Connection(socket.socket):
    """A socket that closes without a warning when it is garbage-collected."""

    def __del__(self) -> None:
        self.close()


class SessionSocket:
    """One thread receives packets. Any thread and any finalizer may add records, which takes no lock and does not wait."""

    def __init__(self, connection: socket.socket) -> None:
        """Takes over a connection."""
        # With a Python timeout, sends would wait too, regardless of their flags.
        connection.settimeout(None)
        for limit in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, limit, struct.pack("ll", TIMEOUT, 0))
        self._connection: _Connection | None = _Connection(fileno=connection.detach())
        self._pid = os.getpid()
        self._pending: deque[bytes] = deque()
        self._delayed = _DELAYED

    @property
    def ended(self) -> bool:
        """Whether the session has ended in this process."""
        return self._connection is None

    @property
    def foreign(self) -> bool:
        """Whether the session belongs to the parent of this process."""
        return self._pid != os.getpid()

    def receive(self) -> tuple[bytes, list[int]] | None:
        """Waits for a packet, and returns it with the files that it passes, which the caller closes.

        The packet is empty if the session has ended. The result is None if no packet came in time. This does the same as
        `socket.recv_fds`, without that function's work for the many packets that pass no file.

        Raises:
            Unavailable: the connection broke.
        """
        connection = self._connection
        if connection is None:
            return b"", []
        try:
            packet, passed, _, _ = connection.recvmsg(PACKET, _FILE_SPACE, _RECEIVE)
        except BlockingIOError:
            return None
        except OSError as e:
            if self.ended:  # by a fork
                return b"", []
            raise errors.Unavailable(f"receive from the server's local socket: {e}") from e
        return packet, [file for _, _, data in passed for (file,) in _FILE.iter_unpack(data)]

    def add(self, kind: int, number: int) -> None:
        """Adds a record, and sends it after those that wait."""
        self._pending.append(_RECORD.pack(kind, number))
        self.send()

    def add_later(self, kind: int, number: int) -> None:
        """Adds a record, which may wait for others."""
        self._pending.append(_RECORD.pack(kind, number))

    def send_if_due(self) -> None:
        """Sends the records that wait, if there are enough of them."""
        if len(self._pending) >= self._delayed:
            self.send()

    def send(self) -> None:
        """Sends the records that wait, in one packet. If the socket is full, they wait for the next call."""
        connection = self._connection
        if connection is None or self.foreign:  # in a child: the parent still uses the batches
            self._pending.clear()
            return
        records: list[bytes] = []
        with contextlib.suppress(IndexError):  # another thread may have taken the last one
            while self._pending and len(records) < _RECORDS:
                records.append(self._pending.popleft())
        if not records:
            return
        try:
            connection.send(b"".join(records), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            self._pending.extendleft(reversed(records))
        except OSError:  # the server ended the session and does not reuse its files
            pass

    def tell_fork(self) -> bool:
        """Tells the server that a child may use all files that were received. Returns False if the session has ended.

        Raises:
            OSError: the server has ended the session, or does not read.
        """
        self.send()
        if self._connection is None:
            return False
        self._connection.send(_RECORD.pack(FORKED, 0), socket.MSG_NOSIGNAL)
        return True

    def stop(self, *, receiving: bool) -> None:
        """Sends each later record at once. With `receiving`, also ends a wait for a packet."""
        self._delayed = 1  # no later record would send those that wait
        connection = self._connection
        if receiving and connection is not None and not self.foreign:
            with contextlib.suppress(OSError):  # the server has ended the session
                connection.shutdown(socket.SHUT_RD)
            self.send()

    def end(self) -> None:
        """Ends the session in this process; in the process that it belongs to, also for the server."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not self.foreign:
            with contextlib.suppress(OSError):  # the server has ended it
                connection.shutdown(socket.SHUT_RDWR)  # a child also has the connection
        connection.close()
