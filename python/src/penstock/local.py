"""Batches in mapped memory, from a server on the same host. The protocol is defined in docs/spec/local.md.

The server passes each batch as a file over a Unix socket, and a stream's message names it by number. The
file is mapped privately: writes to its batch stay in this process. When nothing uses the batch any more,
the file is returned, and the server reuses it for another batch.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import socket
import struct
import sys
import threading
import weakref
from collections import deque
from typing import Any

import pyarrow as pa

from penstock import errors

if sys.platform == "linux":
    import fcntl

HEADER = "penstock-session"

_log = logging.getLogger("penstock")

# Seconds to wait for the server's next packet. It sends a file before the message that names it.
_TIMEOUT = 10

# A report to the server: what happened to a delivery, and its number.
_RECORD = struct.Struct("<II")
_SEEN, _RETURNED, _FORKED = 1, 2, 3

_NUMBER = struct.Struct("<I")
_PEER = struct.Struct("3i")  # process, user and group ids: ucred of Linux

# F_SEAL_SHRINK and F_SEAL_FUTURE_WRITE: the file cannot shrink under its mapping, and only the server writes to it.
_SEALS = 0x0002 | 0x0010
_PACKET = 4096


class Session:
    """A connection over which a server passes the batches of one stream.

    It lives as long as the stream or any of its batches. It is safe for threads and survives forks: a child
    keeps the batches that it inherits, and does not report on them.
    """

    # Set here, since __del__ also runs for objects whose __init__ was interrupted.
    _connection: socket.socket | None = None

    def __init__(self, connection: socket.socket, identity: str) -> None:
        """Takes over a connection on which the server has sent the session's identity."""
        # With a timeout of Python's own, sends would wait, too, whatever their flags.
        connection.settimeout(None)
        for limit in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, limit, struct.pack("ll", _TIMEOUT, 0))
        self.identity = identity
        self._connection = connection
        self._pending: deque[bytes] = deque()
        self.lock = threading.Lock()
        _forks.add(self)

    @classmethod
    def open(cls, path: str) -> Session | None:
        """Connects to a server's socket. Returns None if this process cannot: batches then come over the network."""
        if not sys.platform.startswith("linux"):
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(_TIMEOUT)
            connection.connect(path)
            _, user, _ = _PEER.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            )
            if user != os.geteuid():
                raise OSError(f"the server is of user {user}")
            hello = json.loads(connection.recv(_PACKET))
            if hello.get("v") != 1:
                raise ValueError(f"version {hello.get('v')} of the protocol is unknown")
            return cls(connection, str(hello["session"]))
        except (OSError, ValueError, KeyError, AttributeError) as e:
            connection.close()
            _log.debug("batches come over the network instead of %s: %s", path, e)
            return None

    def batch(self, message: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
        """Returns the batch that a stream's message names.

        Raises:
            Unavailable: the session has ended.
            Corrupt: the server did not follow the protocol.
        """
        with self.lock:
            mapping = self._next(int(message["delivery"]), int(message["bytes"]))
        reader = pa.ipc.open_stream(pa.py_buffer(mapping))
        if not reader.schema.equals(schema):
            raise errors.Corrupt("a batch in mapped memory has another schema than its stream")
        return reader.read_next_batch()

    def _next(self, number: int, size: int) -> _Mapping:
        """Maps the next file, which must be that of a delivery. The lock is held."""
        if self._connection is None:
            raise errors.Invalid("the stream was opened before this process was forked")
        try:
            packet, files, _, _ = socket.recv_fds(self._connection, _PACKET, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError as e:
            raise errors.Unavailable(f"receive a batch in mapped memory: {e}") from e
        try:
            if not packet:
                raise errors.Unavailable("the server ended the session for batches in mapped memory")
            if packet != _NUMBER.pack(number):
                raise errors.Corrupt("the server did not pass the batch that it named")
            if len(files) != 1:
                raise errors.Exhausted(
                    "a batch in mapped memory was lost: this process has too many open files",
                    remedy="raise its limit (ulimit -n), keep fewer batches, or connect with local=False",
                )
            if fcntl.fcntl(files[0], fcntl.F_GET_SEALS) & _SEALS != _SEALS:
                raise errors.Corrupt("the server passed memory that may change")
            mapping = _Mapping(files[0], size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError as e:
            raise errors.Exhausted(
                f"map a batch of {size} bytes: {e}",
                remedy="raise the limits of this process (ulimit -n), keep fewer batches, or connect with local=False",
            ) from e
        except ValueError as e:
            raise errors.Corrupt(f"map a batch of {size} bytes: {e}") from e
        finally:
            for file in files:
                os.close(file)
        self._report(_SEEN, number)
        mapping.session, mapping.number = self, number
        return mapping

    def returned(self, number: int) -> None:
        """Reports that nothing uses a delivery any more. Called by finalizers, at any moment of any thread."""
        self._report(_RETURNED, number)

    def _report(self, kind: int, number: int) -> None:
        """Sends a report, or leaves it for the next one if the socket is full. It takes no lock and does not wait."""
        self._pending.append(_RECORD.pack(kind, number))
        while self._connection is not None:
            try:
                record = self._pending.popleft()
            except IndexError:
                return
            try:
                self._connection.send(record, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._pending.appendleft(record)
                return
            except OSError:  # the server has ended the session, and does not reuse its files
                return

    def before_fork(self) -> None:
        """Keeps the server from reusing the files that a child inherits. Holds the lock until after the fork."""
        self.lock.acquire()
        if self._connection is not None:
            try:
                self._connection.send(_RECORD.pack(_FORKED, 0), socket.MSG_NOSIGNAL)
            except OSError:
                self._connection.close()  # the server then reuses none of its files
                self._connection = None

    def after_in_parent(self) -> None:
        """Called in the parent after a fork."""
        self.lock.release()

    def after_in_child(self) -> None:
        """Called in the child after a fork: the session belongs to the parent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.lock.release()

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()


class _Mapping(mmap.mmap):
    """A mapped file of a delivery, which is returned when its last buffer dies."""

    session: Session | None = None
    number = 0

    def __del__(self) -> None:
        if self.session is not None and not sys.is_finalizing():
            self.session.returned(self.number)


class _Forks:
    """The sessions of this process, which are called around a fork."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._held: list[Session] = []  # during a fork

    def add(self, session: Session) -> None:
        with self._lock:
            self._sessions.add(session)

    def before(self) -> None:
        self._lock.acquire()
        self._held = list(self._sessions)
        for session in self._held:
            session.before_fork()

    def after_in_parent(self) -> None:
        held, self._held = self._held, []
        for session in held:
            session.after_in_parent()
        self._lock.release()

    def after_in_child(self) -> None:
        held, self._held = self._held, []
        for session in held:
            session.after_in_child()
        self._lock.release()


_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.before,
        after_in_parent=_forks.after_in_parent,
        after_in_child=_forks.after_in_child,
    )
