"""Batches in mapped memory, from a server on the same host. The protocol is defined in docs/spec/local.md.

The server passes each batch as a file over a Unix socket, and a message of the stream gives its number. The file is
mapped privately: writes to the batch stay in this process. When nothing uses the batch anymore, the file is returned,
and the server reuses it for another batch.

A client that has passed a tensor plan gets blocks instead, in a ring of shared memory (`penstock.rings`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import sys
import threading
import weakref
from typing import Any

import pyarrow as pa

from penstock import errors, mappedfile, rings, sessionsocket
from penstock.mappedfile import MappedFile
from penstock.rings import Block, Packet, Ring
from penstock.sessionsocket import CHECK, PACKET, RETURNED, SEEN, SessionSocket

HEADER = "penstock-session"

_log = logging.getLogger("penstock")

# After how many timeouts of the socket a server that does not answer counts as lost. For a block, the server may wait for
# others.
_MAX_SILENCES = 2

_NUMBER = struct.Struct("<I")
_PEER = struct.Struct("3i")  # process, user and group ids: ucred of Linux
# The version of blocks that this package reads.
_BLOCKS = 1

_REMEDY = "raise the limits of this process (ulimit -n), keep fewer batches, or connect with local=False"


class Session:
    """A connection over which a server passes the batches of one stream.

    A session lives as long as the stream or any of its batches. It is safe for threads and survives forks: a child
    keeps the batches that it inherits, but does not report on them.

    Attributes:
        identity: the id of the session, for the stream.
        takes_blocks: whether the server sends blocks: before each message of the stream, `block` says so.
        lost: whether the server has stopped answering.
    """

    def __init__(self, connection: socket.socket, identity: str) -> None:
        """Takes over a connection on which the server has sent the session's identity."""
        self.identity = identity
        self.takes_blocks = False
        self.lost = False
        self._ring: Ring | None = None
        self._socket = SessionSocket(connection)
        self._lock = threading.RLock()  # a signal handler may fork while this thread holds it
        self._forking = False  # the lock is held for a fork
        self._inherited = False  # the server knows that a child may have the files
        _forks.add(self)

    @classmethod
    def open(cls, path: str, plan: bytes | None = None) -> Session | None:
        """Connects to a server's socket. Returns None if this fails: batches then come over the network.

        Args:
            path: the path of the socket.
            plan: the tensor plan of the blocks to get; None to get batches.
        """
        if not sys.platform.startswith("linux") or mappedfile.full():
            return None
        connection: socket.socket | None = None
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(sessionsocket.TIMEOUT)
            connection.connect(path)
            _, user, _ = _PEER.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            )
            if user != os.geteuid():
                raise OSError(f"the server belongs to user {user}")
            hello = json.loads(connection.recv(PACKET))
            if hello.get("v") != 1:
                raise ValueError(f"version {hello.get('v')} of the protocol is unknown")
            takes_blocks = plan is not None and hello.get("blocks") == _BLOCKS
            if plan is not None and takes_blocks:
                rings.send_plan(connection, plan)
                if Packet.of(connection.recv(PACKET)).kind != rings.ACCEPTED:
                    raise ValueError("the server did not accept the tensor plan")
            session = cls(connection, str(hello["session"]))
            session.takes_blocks = takes_blocks
            return session
        except (OSError, ValueError, KeyError, AttributeError, errors.Corrupt) as e:
            if connection is not None:
                connection.close()
            _log.debug("batches come over the network instead of %s: %s", path, e)
            return None

    def batch(self, message: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
        """Returns the batch named by a message of the stream.

        Raises:
            Unavailable: the session has ended.
            Corrupt: the server did not follow the protocol.
        """
        number, size = message.get("delivery"), message.get("bytes")
        if not isinstance(number, int) or not isinstance(size, int) or not 0 < number < 1 << 32 or size <= 0:
            raise errors.Corrupt(f"the stream names delivery {number} of {size} bytes")
        with self._lock:
            mapping = self._next(number, size)
        reader = pa.ipc.open_stream(pa.py_buffer(mapping))
        if not reader.schema.equals(schema):
            raise errors.Corrupt("a batch in mapped memory has another schema than its stream")
        try:
            return reader.read_next_batch()
        except StopIteration as e:
            raise errors.Corrupt(f"delivery {number} in mapped memory has no batch") from e

    @property
    def full(self) -> bool:
        """Whether the program keeps the blocks in all slots of the ring."""
        return self._ring is not None and self._ring.full

    def block(self) -> Block | None:
        """Waits for the next block. Returns None if the next message comes over the network.

        After the server has ended the session, all messages come over the network.

        Raises:
            Unavailable: the block was lost, or the server does not answer.
            Corrupt: the server did not follow the protocol.
        """
        # It holds no lock: a fork would wait for the server. A block that arrives during a fork is of the parent alone.
        self._socket.send_if_due()
        while True:
            packet, files = self._packet()
            try:
                if not packet:
                    self._socket.end()
                    return None
                found = Packet.of(packet)
                if found.kind == rings.MESSAGE:
                    self._socket.send()
                    return None
                if found.kind != rings.RUNS:
                    return self._block(found, files)
            finally:
                _close(files)

    def _block(self, packet: Packet, files: list[int]) -> Block:
        """Returns the block of a packet, which may pass a new ring."""
        if packet.kind == rings.NEW_RING:
            self._ring = self._new_ring(files)
        elif packet.kind != rings.IN_RING:
            raise errors.Corrupt(f"the server sent a packet of the unknown kind {packet.kind}")
        if self._ring is None:
            raise errors.Corrupt("the server named a block in a ring that it did not pass")
        block = self._ring.block(packet)
        self._socket.add_later(SEEN, packet.number)
        return block

    def _packet(self) -> tuple[bytes, list[int]]:
        """Waits for the next packet about a block or a message, and the files that it passes."""
        silences = 0
        while (received := self._socket.receive()) is None:
            silences += 1
            self._check(silences)
        return received

    def _check(self, silences: int) -> None:
        """Asks whether the server runs, after it has sent nothing for so many times the socket's timeout.

        Raises:
            Unavailable: it has been silent for too long.
        """
        if silences == _MAX_SILENCES:
            self.lost = True
            raise errors.Unavailable(
                f"the server's local socket has not answered for {silences * sessionsocket.TIMEOUT} seconds"
            )
        self._socket.add(CHECK, 0)

    def _new_ring(self, files: list[int]) -> Ring:
        try:
            return Ring(_only(files), self._slot_returned)
        except OSError as e:
            raise errors.Unavailable(f"map a ring: {e}", remedy=_REMEDY) from e

    def stop(self) -> None:
        """Ends a wait for a block, from any thread. Deliveries can still be returned."""
        self._socket.stop(receiving=self.takes_blocks)

    def _next(self, number: int, size: int) -> MappedFile:
        """Maps the next file, which must belong to the delivery. The lock is held."""
        if self._socket.ended:
            raise errors.Unavailable("the session for batches in mapped memory has ended")
        received = self._socket.receive()
        if received is None:
            raise errors.Unavailable(f"the server has not passed a batch for {sessionsocket.TIMEOUT} seconds")
        packet, files = received
        try:
            if not packet:
                raise errors.Unavailable("the server ended the session for batches in mapped memory")
            if packet != _NUMBER.pack(number):
                raise errors.Corrupt("the server did not pass the batch that it named")
            mapping = mappedfile.map_file(_only(files), size)
        except OSError as e:
            raise errors.Unavailable(f"map a batch of {size} bytes: {e}", remedy=_REMEDY) from e
        finally:
            _close(files)
        self._socket.add(SEEN, number)
        mapping.lend(number, self.returned)
        return mapping

    def returned(self, number: int) -> None:
        """Reports that a delivery is no longer in use. Finalizers call this method at any time and in any thread."""
        self._socket.add(RETURNED, number)

    def _slot_returned(self, number: int) -> None:
        """Reports, with the next records, that a block is no longer in use. Finalizers call it, like `returned`."""
        self._socket.add_later(RETURNED, number)
        self._socket.send_if_due()

    def before_fork(self) -> None:
        """Prevents the server from reusing files that a child inherits. Holds the lock until after the fork."""
        self._lock.acquire()
        self._forking = True
        self._inherited = self._socket.tell_fork()

    def after_fork(self) -> None:
        """Runs in the parent and in the child, even if `before_fork` was interrupted or not called.

        The session belongs to the parent and ends in the child. If the server was not told of the fork, the session
        also ends in the parent, so that the server does not reuse its files.
        """
        try:
            if self._socket.foreign or not self._inherited:
                self._socket.end()
        finally:
            self._inherited = False
            if self._forking:
                self._forking = False
                self._lock.release()


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def _only(files: list[int]) -> int:
    """Returns the only file of a packet.

    Raises:
        Unavailable: it was not received.
    """
    if len(files) != 1:
        raise errors.Unavailable(
            "a batch in mapped memory was lost: this process has too many open files", remedy=_REMEDY
        )
    return files[0]


class _Forks:
    """Notifies the sessions of this process before and after a fork.

    If a hook raises an exception, for example from a signal handler, Python continues the fork. So `after` does not
    assume that `before` completed.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._forking = False

    def add(self, session: Session) -> None:
        with self._lock:
            self._sessions.add(session)

    def before(self) -> None:
        self._lock.acquire()
        self._forking = True
        for session in list(self._sessions):
            with contextlib.suppress(OSError):  # the server has ended the session, or does not read
                session.before_fork()

    def after(self) -> None:
        try:
            for session in list(self._sessions):
                session.after_fork()
        finally:
            if self._forking:
                self._forking = False
                self._lock.release()


_forks = _Forks()


def register_at_fork() -> None:
    """Registers the hooks that notify sessions of forks. Call it once, after the hooks that take other locks.

    Before a fork, Python calls the last registered hook first, so session locks are taken before those other locks: a
    thread that holds a session's lock may wait for the other locks, but not the reverse.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_forks.before, after_in_parent=_forks.after, after_in_child=_forks.after)
