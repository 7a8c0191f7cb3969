"""Passes blocks from a DataLoader worker to the process of the loop, without copies.

torch moves the tensors of a worker's batch to shared memory, and passes a file for each. A batch that the server has
assembled as a block is in shared memory already, so the worker names its place instead, and the process of the loop maps
the ring. When the batch is freed there, its number is written to a pipe of the worker, which then returns the slot. A worker
that has ended needs no slot. A batch that the worker has changed is passed as usual.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from functools import lru_cache
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, Self
from weakref import WeakValueDictionary

from penstock import errors
from penstock.rings import IN_RING, Block, Packet, Ring
from penstock.torch.batch import Batch
from penstock.torch.blocks import Blocks
from penstock.torch.device import memory_of
from penstock.torch.tensorplan import TensorPlan

_NUMBER = struct.Struct("<Q")
_READ = 4096


class _File(NamedTuple):
    """A file that another process has open.

    Attributes:
        process: the id of the process.
        descriptor: its descriptor there.
        identity: device and inode of the file.
    """

    process: int
    descriptor: int
    identity: tuple[int, int]

    @classmethod
    def own(cls, descriptor: int) -> Self:
        """A file of this process."""
        found = os.fstat(descriptor)
        return cls(os.getpid(), descriptor, (found.st_dev, found.st_ino))

    def opened(self, flags: int) -> int:
        """Opens the file in this process.

        Raises:
            Unavailable: the other process has ended, or its files cannot be opened.
        """
        name = f"/proc/{self.process}/fd/{self.descriptor}"
        try:
            descriptor = os.open(name, flags | os.O_CLOEXEC)
        except OSError as e:
            raise self._unavailable(str(e)) from e
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != self.identity:
            os.close(descriptor)
            raise self._unavailable(f"{name} is another file")
        return descriptor

    def _unavailable(self, reason: str) -> errors.Unavailable:
        return errors.Unavailable(
            f"open the memory of a batch from DataLoader worker {self.process}: {reason}",
            remedy="create the dataset with local=False if this process may not open files of its workers",
        )


class _Place(NamedTuple):
    """Where a lent block is.

    Attributes:
        ring: the memory of its ring.
        returns: the pipe for the numbers of blocks that are not used anymore.
        number: the block's number in the worker.
        offset: where its slot begins in the ring.
        size: bytes of the block.
    """

    ring: _File
    returns: _File
    number: int
    offset: int
    size: int


class LentBatch(Batch):
    """The batch of a block, in a worker. A copy by pickle or `copy.deepcopy` is a `Batch` with its own memory."""

    @classmethod
    def of(cls, batch: Batch, block: Block, blocks: Blocks) -> Self:
        """Makes it from a batch of a block."""
        found = cls(batch, rows=batch.rows, cursor=batch._cursor, step=batch.step)
        found.__dict__["_block"] = block, blocks, dict(batch), list(batch.tensors())
        return found

    def __copy__(self) -> LentBatch:
        found = LentBatch(self, rows=self.rows)
        found.__dict__.update(self.__dict__)
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        del protocol
        found = Batch(self, rows=self.rows)
        found.__dict__.update({name: value for name, value in self.__dict__.items() if name != "_block"})
        return _itself, (found,)

    def reduced(self) -> Any:
        """How the batch is passed to another process."""
        block, blocks, columns, tensors = self.__dict__["_block"]
        known = {"rows", "_cursor", "step", "_block"}
        is_unchanged = (
            self.__dict__.keys() == known
            and self.rows == block.num_rows
            and list(self) == list(columns)
            and all(self[name] is column for name, column in columns.items())
            and list(map(id, self.tensors())) == list(map(id, tensors))
        )
        if not is_unchanged:
            return self.__reduce_ex__(2)
        return _received, (_lender().lend(block), _described(blocks), self._cursor, self.step)


# The queues of workers use this pickler.
ForkingPickler.register(LentBatch, LentBatch.reduced)


class _Lender:
    """The blocks of this process that another one uses.

    Attributes:
        process: the id of this process.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self._returned, self._returns = os.pipe()
        os.set_blocking(self._returned, False)
        self._last = 0
        self._lent: dict[int, Block] = {}

    def lend(self, block: Block) -> _Place:
        """Keeps a block until its number is returned. Called by the thread that sends batches."""
        self._last += 1
        self._lent[self._last] = block
        return _Place(
            _File.own(block.ring.file), _File.own(self._returns), self._last, block.offset, block.size
        )

    def collect(self) -> None:
        """Drops the blocks that were returned."""
        try:
            numbers = os.read(self._returned, _READ)
        except BlockingIOError:
            return
        for (number,) in _NUMBER.iter_unpack(numbers):
            self._lent.pop(number, None)


class _Borrowed:
    """The ring of a worker, mapped in the process of the loop, until the garbage collector finds that no batch uses it.

    A block that was in use when this process was forked is never returned, because the child may use it.
    """

    _returns = -1

    def __init__(self, place: _Place) -> None:
        """Maps the ring.

        Raises:
            Unavailable: the worker has ended.
        """
        file = place.ring.opened(os.O_RDWR)
        try:
            self._ring = Ring(file, self._give)
        except OSError as e:
            raise errors.Unavailable(f"map the ring of a DataLoader worker: {e}") from e
        finally:
            os.close(file)
        self._forks: dict[int, int] = {}  # before a block came, by its number
        self._returns = place.returns.opened(os.O_WRONLY | os.O_NONBLOCK)

    def block(self, place: _Place) -> Block:
        """The block at a place of this ring."""
        self._forks[place.number] = _forks
        return self._ring.block(Packet(IN_RING, place.number, place.offset, place.size, 0, 0, 0))

    def _give(self, number: int) -> None:
        """Returns a block that is not used anymore. Finalizers call it at any time and in any thread."""
        if self._forks.pop(number, None) == _forks:
            with contextlib.suppress(OSError):  # the worker has ended
                os.write(self._returns, _NUMBER.pack(number))

    def __del__(self) -> None:
        returns, self._returns = (
            self._returns,
            -1,
        )  # a block that is collected together with it may still be returned
        if returns >= 0:
            os.close(returns)


_lenders: dict[int, _Lender] = {}  # of this process, by its id: a child has none
_borrowed: WeakValueDictionary[tuple[_File, _File], _Borrowed] = WeakValueDictionary()
_forks = 0  # of this process


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork, after_in_child=_lenders.clear)


def collect() -> None:
    """Returns the slots of the blocks that the process of the loop does not use anymore to the server."""
    for lender in _lenders.values():
        lender.collect()


def _lender() -> _Lender:
    found = _lenders.get(os.getpid())
    if found is None:
        found = _lenders[os.getpid()] = _Lender()
    return found


def _itself(batch: Batch) -> Batch:
    return batch


def _described(blocks: Blocks) -> bytes:
    plan = blocks.plan
    return json.dumps([plan.columns, plan.packs]).encode()


@lru_cache(maxsize=16)
def _blocks(description: bytes) -> Blocks:
    columns, packs = json.loads(description)
    return Blocks(TensorPlan(columns, packs))


def _received(place: _Place, description: bytes, cursor: Any, step: int | None) -> Batch:
    """Makes the batch in the process of the loop.

    Raises:
        Unavailable: the worker has ended.
        Corrupt: there is no block of this plan.
    """
    key = place.ring, place.returns
    ring = _borrowed.get(key)
    if ring is None:
        ring = _borrowed[key] = _Borrowed(place)
    memory = memory_of(ring.block(place))
    return _blocks(description).batch(memory, cursor=cursor, step=step)
