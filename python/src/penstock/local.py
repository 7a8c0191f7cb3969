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

from penstock import errors, rings
from penstock.rings import Block, Packet, Ring

if sys.platform == "linux":
    import fcntl
    import resource

HEADER = "penstock-session"

_log = logging.getLogger("penstock")

# Seconds to wait for the server's next packet. The server sends a file before the message that names it.
_TIMEOUT = 5
# After how many of these times a server that does not answer counts as lost. For a block, the server may wait for others.
_MAX_SILENCES = 2

# A report to the server: the kind of event (below), and the number of the delivery.
_RECORD = struct.Struct("<II")
_SEEN, _RETURNED, _FORKED, _CHECK = 1, 2, 3, 5

_NUMBER = struct.Struct("<I")
_PEER = struct.Struct("3i")  # process, user and group ids: ucred of Linux

# F_SEAL_SHRINK and F_SEAL_FUTURE_WRITE: the file cannot shrink under its mapping, and only the server writes to it.
_SEALS = 0x0002 | 0x0010
_PACKET = 4096
_RECORDS = 512  # of a packet
# The reports about blocks that wait for each other: a system call takes longer than a view. The server waits while four
# blocks are not reported, so a reader that holds all of its blocks must report sooner.
_DELAYED = 4
# A file descriptor in the control message of a packet, and the room for one.
_FILE = struct.Struct("=i")
_FILE_SPACE = socket.CMSG_LEN(_FILE.size) if sys.platform == "linux" else 0
_RECEIVE = socket.MSG_CMSG_CLOEXEC if sys.platform == "linux" else 0
# The version of blocks that this package reads.
_BLOCKS = 1

_REMEDY = "raise the limits of this process (ulimit -n), keep fewer batches, or connect with local=False"


class _Connection(socket.socket):
    """A socket that closes without a warning when it is garbage-collected."""

    def __del__(self) -> None:
        self.close()


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
        # With a Python timeout, sends would wait too, regardless of their flags.
        connection.settimeout(None)
        for limit in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, limit, struct.pack("ll", _TIMEOUT, 0))
        self.identity = identity
        self.takes_blocks = False
        self.lost = False
        self._ring: Ring | None = None
        self._connection: _Connection | None = _Connection(fileno=connection.detach())
        self._pid = os.getpid()
        self._pending: deque[bytes] = deque()
        self._lock = threading.RLock()  # a signal handler may fork while this thread holds it
        self._delayed = _DELAYED
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
        if not sys.platform.startswith("linux") or _live.full():
            return None
        connection: socket.socket | None = None
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(_TIMEOUT)
            connection.connect(path)
            _, user, _ = _PEER.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            )
            if user != os.geteuid():
                raise OSError(f"the server belongs to user {user}")
            hello = json.loads(connection.recv(_PACKET))
            if hello.get("v") != 1:
                raise ValueError(f"version {hello.get('v')} of the protocol is unknown")
            takes_blocks = plan is not None and hello.get("blocks") == _BLOCKS
            if plan is not None and takes_blocks:
                rings.send_plan(connection, plan)
                if Packet.of(connection.recv(_PACKET)).kind != rings.ACCEPTED:
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
        if self._connection is not None and len(self._pending) >= self._delayed:
            self._send_reports()
        received = self._block_packet()
        if received is None:
            return None
        found, passed = received
        if found.kind == rings.MESSAGE:
            self._send_reports()
            return None
        if found.kind == rings.NEW_RING:
            self._ring = self._new_ring(passed)
        elif found.kind != rings.IN_RING:
            raise errors.Corrupt(f"the server sent a packet of the unknown kind {found.kind}")
        if self._ring is None:
            raise errors.Corrupt("the server named a block in a ring that it did not pass")
        block = self._ring.block(found)
        self._pending.append(_RECORD.pack(_SEEN, found.number))
        return block

    def _block_packet(self) -> tuple[Packet, list[int]] | None:
        """Waits for the next packet about a block or a message, and the files that it passes; None if the session has ended."""
        connection = self._connection
        if connection is None:
            return None
        silences = 0
        while True:
            try:
                packet, passed, _, _ = connection.recvmsg(_PACKET, _FILE_SPACE, _RECEIVE)
            except BlockingIOError:  # the socket's timeout
                silences += 1
                self._check(silences)
                continue
            except OSError as e:
                if self._connection is None:  # a fork ended the session
                    return None
                raise errors.Unavailable(f"receive from the server's local socket: {e}") from e
            if not packet:
                self._end()
                return None
            found = Packet.of(packet)
            if found.kind != rings.RUNS:
                return found, _files(passed)
            silences = 0

    def _check(self, silences: int) -> None:
        """Asks whether the server runs, after it has sent nothing for so many times the socket's timeout.

        Raises:
            Unavailable: it has been silent for too long.
        """
        if silences == _MAX_SILENCES:
            self.lost = True
            raise errors.Unavailable(
                f"the server's local socket has not answered for {silences * _TIMEOUT} seconds"
            )
        self._report(_CHECK, 0)

    def _new_ring(self, files: list[int]) -> Ring:
        try:
            _refuse_lost(files)
            return Ring(files[0], self._slot_returned)
        except OSError as e:
            raise errors.Unavailable(f"map a ring: {e}", remedy=_REMEDY) from e
        finally:
            for file in files:
                os.close(file)

    def stop(self) -> None:
        """Ends a wait for a block, from any thread. Deliveries can still be returned."""
        self._delayed = 1  # no later report would send those that wait
        connection = self._connection
        if connection is not None and self.takes_blocks and self._pid == os.getpid():
            with contextlib.suppress(OSError):  # the server has ended the session
                connection.shutdown(socket.SHUT_RD)
            self._send_reports()

    def _next(self, number: int, size: int) -> _Mapping:
        """Maps the next file, which must belong to the delivery. The lock is held."""
        if self._connection is None:
            raise errors.Unavailable("the session for batches in mapped memory has ended")
        packet, files = _received(self._connection)
        try:
            if not packet:
                raise errors.Unavailable("the server ended the session for batches in mapped memory")
            if packet != _NUMBER.pack(number):
                raise errors.Corrupt("the server did not pass the batch that it named")
            _refuse_lost(files)
            if fcntl.fcntl(files[0], fcntl.F_GET_SEALS) & _SEALS != _SEALS:
                raise errors.Corrupt("the server passed memory that may change")
            mapping = _Mapping(files[0], size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError as e:
            raise errors.Unavailable(f"map a batch of {size} bytes: {e}", remedy=_REMEDY) from e
        except (ValueError, OverflowError) as e:
            raise errors.Corrupt(f"map a batch of {size} bytes: {e}") from e
        finally:
            for file in files:
                os.close(file)
        self._report(_SEEN, number)
        mapping.session, mapping.number = self, number
        _live.add(mapping)
        return mapping

    def returned(self, number: int) -> None:
        """Reports that a delivery is no longer in use. Finalizers call this method at any time and in any thread."""
        self._report(_RETURNED, number)

    def _slot_returned(self, number: int) -> None:
        """Reports, with the next reports, that a block is no longer in use. Finalizers call it, like `returned`."""
        self._pending.append(_RECORD.pack(_RETURNED, number))
        if len(self._pending) >= self._delayed:
            self._send_reports()

    def _report(self, kind: int, number: int) -> None:
        """Sends a report, after those that wait. Takes no lock and does not wait."""
        self._pending.append(_RECORD.pack(kind, number))
        self._send_reports()

    def _send_reports(self) -> None:
        """Sends the reports that wait, in one packet. If the socket is full, they wait for the next call."""
        connection = self._connection
        if connection is None or self._pid != os.getpid():  # in a child: the parent still uses the batches
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

    def before_fork(self) -> None:
        """Prevents the server from reusing files that a child inherits. Holds the lock until after the fork."""
        self._lock.acquire()
        self._forking = True
        self._send_reports()
        if self._connection is not None:
            self._connection.send(_RECORD.pack(_FORKED, 0), socket.MSG_NOSIGNAL)
            self._inherited = True

    def after_fork(self) -> None:
        """Runs in the parent and in the child, even if `before_fork` was interrupted or not called.

        The session belongs to the parent and ends in the child. If the server was not told of the fork, the session
        also ends in the parent, so that the server does not reuse its files.
        """
        try:
            if self._pid != os.getpid() or not self._inherited:
                self._end()
        finally:
            self._inherited = False
            if self._forking:
                self._forking = False
                self._lock.release()

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._pid == os.getpid():
                with contextlib.suppress(OSError):  # the server has ended it
                    connection.shutdown(socket.SHUT_RDWR)  # the child also has the connection
            connection.close()


def _received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receives a packet, and the files that it passes.

    It does the same as `socket.recv_fds`, without that function's work for the many packets that pass no file.

    Raises:
        Unavailable: the connection broke.
    """
    try:
        packet, passed, _, _ = connection.recvmsg(_PACKET, _FILE_SPACE, _RECEIVE)
    except OSError as e:
        raise errors.Unavailable(f"receive from the server's local socket: {e}") from e
    return packet, _files(passed)


def _files(passed: list[tuple[int, int, bytes]]) -> list[int]:
    """The files that a packet's control messages pass."""
    return [file for _, _, data in passed for (file,) in _FILE.iter_unpack(data)]


def _refuse_lost(files: list[int]) -> None:
    """Refuses a packet whose file was not received.

    Raises:
        Unavailable: there is not one file.
    """
    if len(files) != 1:
        raise errors.Unavailable(
            "a batch in mapped memory was lost: this process has too many open files", remedy=_REMEDY
        )


class _Mapping(mmap.mmap):
    """The mapped file of a delivery. The file is returned when its last buffer is freed."""

    session: Session | None = None
    number = 0

    def __del__(self) -> None:
        if self.session is not None and not sys.is_finalizing():
            _live.discard(self)
            self.session.returned(self.number)


class _Live:
    """Counts the mappings of this process, each of which is an open file.

    It takes no lock, because finalizers call it: adding to a set and discarding from it are atomic.
    """

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def add(self, mapping: _Mapping) -> None:
        self._ids.add(id(mapping))

    def discard(self, mapping: _Mapping) -> None:
        self._ids.discard(id(mapping))

    def full(self) -> bool:
        """Reports whether the mappings use a quarter of the files that this process may open."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return limit != resource.RLIM_INFINITY and len(self._ids) >= limit // 4


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


_live = _Live()
_forks = _Forks()


def register_at_fork() -> None:
    """Registers the hooks that notify sessions of forks. Call it once, after the hooks that take other locks.

    Before a fork, Python calls the last registered hook first, so session locks are taken before those other locks: a
    thread that holds a session's lock may wait for the other locks, but not the reverse.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_forks.before, after_in_parent=_forks.after, after_in_child=_forks.after)
