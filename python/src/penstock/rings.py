"""Blocks in a ring of shared memory. The protocol is defined in docs/spec/local.md.

The server assembles the tensors of each step as one block, in a free slot of a ring. The ring is mapped once. When
nothing uses a block anymore, its slot is returned, and the server fills it again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock import errors

if sys.platform == "linux":
    import fcntl

# The kinds of packets.
NEW_RING, IN_RING, MESSAGE, ACCEPTED, RUNS = 1, 2, 3, 4, 5

_PACKET = struct.Struct("<IIQQIIQ")
_SLOTS = 8  # of a ring

# F_SEAL_SHRINK: the ring cannot shrink under its mapping.
_RING_SEALS = 0x0002
# F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE: the plan cannot change.
_PLAN_SEALS = 0x0001 | 0x0002 | 0x0004 | 0x0008
_PLAN = struct.pack("<II", 4, 0)


class Packet(NamedTuple):
    """What the server sends about a block.

    Attributes:
        kind: NEW_RING or IN_RING for a block, MESSAGE if the stream's next message comes over the network, ACCEPTED for a
            plan, or RUNS if the server runs, which says nothing about the stream.
        number: the number of the delivery.
        offset: where the block's slot begins in the ring.
        size: bytes of the block.
        cursor: bytes of the cursor's text, which follows the block.
        rows: the number of rows of the step.
        step: the number of steps before the position of the cursor.
    """

    kind: int
    number: int
    offset: int
    size: int
    cursor: int
    rows: int
    step: int

    @classmethod
    def of(cls, packet: bytes) -> Packet:
        """Decodes a packet.

        Raises:
            Corrupt: it has another size.
        """
        if len(packet) != _PACKET.size:
            raise errors.Corrupt(f"the server sent a packet of {len(packet)} bytes instead of {_PACKET.size}")
        return cls._make(_PACKET.unpack(packet))


class Block:
    """The tensors of a step, as bytes in shared memory.

    Attributes:
        memory: the slot, as a writable buffer that begins with the block. The slot is returned when nothing refers to
            this buffer anymore.
        ring: the ring of the slot.
        offset: where the slot begins in the ring.
        size: bytes of the block.
        cursor: the text of the stream's position after the step.
        num_rows: the number of rows of the step.
        step: the number of steps before the stream's position.
    """

    __slots__ = ("cursor", "memory", "num_rows", "offset", "ring", "size", "step")

    def __init__(
        self, ring: Ring, memory: Any, offset: int, size: int, cursor: bytes, rows: int, step: int
    ) -> None:
        self.ring = ring
        self.memory = memory
        self.offset = offset
        self.size = size
        self.cursor = cursor
        self.num_rows = rows
        self.step = step


class Ring:
    """The mapped memory of a ring. Its blocks keep it mapped.

    Attributes:
        size: bytes of the memory.
        file: a descriptor of the memory, open as long as it is mapped.
        address: where it begins in this process.
    """

    def __init__(self, file: int, returned: Callable[[int], None]) -> None:
        """Maps a ring.

        Args:
            file: the descriptor of the ring's memory, which the caller closes.
            returned: called with the number of a delivery that is not in use anymore, at any time and in any thread.

        Raises:
            Corrupt: the memory may shrink, or is not a ring.
            OSError: it cannot be mapped.
        """
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _RING_SEALS != _RING_SEALS:
            raise errors.Corrupt("the server passed memory that may shrink")
        size = os.fstat(file).st_size
        if size <= 0 or size % _SLOTS:
            raise errors.Corrupt(f"the server passed a ring of {size} bytes")
        self.size = size
        self._mapping = mmap.mmap(file, size)
        self.file = os.dup(file)
        weakref.finalize(self._mapping, os.close, self.file).atexit = False
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))
        self._used: set[int] = set()  # the numbers of the deliveries in use
        members = {"returned": returned, "used": self._used}
        self._slot: Any = type("Slot", (_Slot, ctypes.c_ubyte * (size // _SLOTS)), members)

    @property
    def full(self) -> bool:
        """Whether this process uses all slots, so that the server cannot make further blocks."""
        return len(self._used) >= _SLOTS

    def block(self, packet: Packet) -> Block:
        """Returns the block of a packet.

        Raises:
            Corrupt: the packet names memory outside of the ring's slots.
        """
        _, number, offset, size, text, rows, step = packet
        slot = self.size // _SLOTS
        if offset % slot or offset >= self.size or size + text > slot:
            raise errors.Corrupt(f"the server names a block of {size} bytes at {offset} of a ring")
        memory = self._slot.from_buffer(self._mapping, offset)
        memory.number = number
        self._used.add(number)
        end = offset + size
        return Block(self, memory, offset, size, self._mapping[end : end + text], rows, step)

    def before_unmapping(self, call: Callable[[], object]) -> None:
        """Sets a function to call when nothing uses the ring anymore, before it is unmapped."""
        weakref.finalize(self._mapping, call)


class _Slot:
    """A slot of a ring, which is returned when it is freed."""

    number: int
    returned: Callable[[int], None]
    used: set[int]

    def __del__(self) -> None:
        if not sys.is_finalizing():
            type(self).used.discard(self.number)
            type(self).returned(self.number)


def send_plan(connection: socket.socket, plan: bytes) -> None:
    """Passes a tensor plan to the server.

    Raises:
        OSError: it cannot be passed.
    """
    file = os.memfd_create("penstock-plan", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(file), "wb") as content:
            content.write(plan)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _PLAN_SEALS)
        socket.send_fds(connection, [_PLAN], [file])
    finally:
        os.close(file)
