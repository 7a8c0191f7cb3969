"""State shared by the processes of a rank: epochs, the snapshots, and which worker consumed the loaded state.

It is in memory that DataLoader workers share with the process that started them, whatever the start method. A
plain pickle copy has its own memory.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from penstock import errors
from penstock.torch.ranks import Worker

# The maximum size of a pin: it is part of every ticket, whose size is limited to this.
_PIN_BYTES = 1 << 16
_LOCK_LIMIT = 30.0
_MAX_WORKERS = 4096

# Indices of the numbers. -1 means not set.
(
    _LOADED_EPOCH,
    _SET_EPOCH,
    _COUNTED_EPOCH,
    _BEGUN_EPOCH,
    _WARNED,
    _PIN,
    _CLAIMED,
    _CLAIMERS,
    _BY_WORKERS,
    _LOADS,
    _GROUPS,
) = range(11)

# The maximum number of groups of workers that are starting at the same time.
_MAX_GROUPS = 16
# The numbers of a group: the seed of its workers, their number, how often they iterated before, and the epoch.
_SEED, _OF, _TURN, _EPOCH = range(4)


@dataclass(frozen=True)
class Turn:
    """An iteration of a worker.

    Attributes:
        worker: the worker.
        count: how often it iterated the dataset before; persistent workers do so again for each epoch.
    """

    worker: Worker
    count: int


@dataclass(frozen=True)
class Begun:
    """The start of an iteration.

    Attributes:
        epoch: its epoch.
        again: whether the iteration before it had the same epoch, which was not set since.
    """

    epoch: int
    again: bool


class SharedState:
    """Numbers and a pin in shared memory."""

    def __init__(self) -> None:
        # Independent of the user's default device and inference mode, since other modes write to this memory.
        with torch.device("cpu"), torch.inference_mode(mode=False):
            self._numbers = torch.full((11,), -1, dtype=torch.int64).share_memory_()
            self._groups = torch.full((_MAX_GROUPS, 4), -1, dtype=torch.int64).share_memory_()
            self._members = torch.zeros((_MAX_GROUPS, _MAX_WORKERS), dtype=torch.bool).share_memory_()
            self._bytes = torch.zeros(_PIN_BYTES, dtype=torch.uint8).share_memory_()
            self._claimed_by = torch.zeros(_MAX_WORKERS, dtype=torch.bool).share_memory_()

    def __setstate__(self, state: dict[str, torch.Tensor]) -> None:
        with torch.inference_mode(mode=False):
            for name, tensor in state.items():
                # A plain pickle copy is not in shared memory, and this process may start workers too.
                own = tensor.clone() if tensor.is_inference() else tensor
                setattr(self, name, own.share_memory_())

    @property
    def epoch(self) -> int | None:
        """The epoch set by the user, else the next one if epochs are counted, else the loaded state's epoch."""
        for index in (_SET_EPOCH, _COUNTED_EPOCH, _LOADED_EPOCH):
            epoch = self._get(index)
            if epoch is not None:
                return epoch
        return None

    @property
    def is_set(self) -> bool:
        """Whether the user set the epoch."""
        return self._get(_SET_EPOCH) is not None

    @property
    def counts(self) -> bool:
        """Whether epochs are counted, and an iteration began since a state was loaded."""
        return self._get(_COUNTED_EPOCH) is not None

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch for all processes."""
        self._numbers[_SET_EPOCH] = epoch
        self._numbers[_BEGUN_EPOCH] = -1

    def begin(self, turn: Turn | None, wanted: int | None, counts: bool) -> Begun:
        """Decides the epoch of an iteration. All workers of one loader iterator get the same.

        Args:
            turn: the worker's iteration; None in the main process.
            wanted: the epoch of the framework's loop; None if there is none.
            counts: whether each iteration is the next epoch.
        """
        with _locked():
            group = None if turn is None else self._group(turn)
            if group is not None:
                epoch = int(self._groups[group, _EPOCH])
                if (counts or wanted is not None) and self._get(_COUNTED_EPOCH) is None:
                    self._numbers[_COUNTED_EPOCH] = epoch + 1  # loading this worker's state removed it
                return Begun(epoch, again=False)
            known = self.epoch or 0
            epoch = known if wanted is None or self.is_set else wanted
            if turn is not None:
                self._add_group(turn, epoch)
            again = self._get(_BEGUN_EPOCH) == epoch
            self._numbers[_BEGUN_EPOCH] = epoch
            if counts:
                self._numbers[_SET_EPOCH] = -1
            if counts or wanted is not None:
                self._numbers[_COUNTED_EPOCH] = epoch + 1
            return Begun(epoch, again)

    def warn_once(self) -> bool:
        """Reports whether this is the first call, in any process."""
        with _locked():
            first = self._get(_WARNED) is None
            self._numbers[_WARNED] = 1
            return first

    def _group(self, turn: Turn) -> int | None:
        """Joins the latest group that the worker has not joined yet and that others have begun, and returns it."""
        index = turn.worker.index % _MAX_WORKERS
        latest = self._get(_GROUPS) or 0
        for number in range(latest, max(-1, latest - _MAX_GROUPS), -1):
            group = number % _MAX_GROUPS
            key = [turn.worker.seed, turn.worker.of, turn.count]
            if self._groups[group, :_EPOCH].tolist() == key and not self._members[group, index]:
                self._members[group, index] = True
                return group
        return None

    def _add_group(self, turn: Turn, epoch: int) -> None:
        number = int(self._numbers[_GROUPS]) + 1
        self._numbers[_GROUPS] = number
        group = number % _MAX_GROUPS
        self._groups[group] = torch.tensor(
            [turn.worker.seed, turn.worker.of, turn.count, epoch], device="cpu"
        )
        self._members[group] = False
        self._members[group, turn.worker.index % _MAX_WORKERS] = True

    def set_loaded_epoch(self, epoch: int) -> None:
        """Sets the epoch of the loaded state, used unless the user sets one. Counting continues from there."""
        self._numbers[_LOADED_EPOCH] = epoch
        self._numbers[_COUNTED_EPOCH] = self._numbers[_BEGUN_EPOCH] = -1

    @property
    def pin(self) -> dict[str, Any] | None:
        """The snapshots that all processes read; None if not chosen yet."""
        length = self._get(_PIN)
        return None if length is None else json.loads(bytes(self._bytes[:length].tolist()))

    def agree_on_pin(self, pin: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the snapshots that all processes read. The first caller that has a table decides its snapshot.

        A dataset may get more staging tables between two epochs.
        """
        with _locked():
            known = self.pin
            agreed = dict(pin) if known is None else _with_more_tables(known, pin)
            if agreed != known:
                self._write(agreed)
        return agreed

    def set_pin(self, pin: Mapping[str, Any]) -> None:
        """Makes all processes read the snapshots of a state, whatever they read before."""
        with _locked():
            self._write(pin)

    def reset(self) -> None:
        """Prepares for a new loaded state, which has its own snapshots and is not consumed yet."""
        for index in (_PIN, _CLAIMED, _CLAIMERS, _BY_WORKERS):
            self._numbers[index] = -1
        self._claimed_by.zero_()
        self._numbers[_LOADS] += 1

    @property
    def loads(self) -> int:
        """The number of states loaded so far, minus one."""
        return int(self._numbers[_LOADS])

    @property
    def claimed(self) -> bool:
        """Whether the loaded state was consumed."""
        return self._get(_CLAIMED) is not None

    def claim_all(self) -> None:
        """Consumes the loaded state in the main process."""
        self._numbers[_CLAIMED] = self._numbers[_CLAIMERS] = 0

    def claim(self, worker: Worker, load: int) -> bool:
        """Reports whether a worker may consume the state of a load.

        It may not if another state was loaded since. Otherwise, each worker of one loader iterator may once. Workers
        of later iterators start from the beginning, even if the user's generator gives them the same seed, since
        the process that started them cannot know that the state was consumed.
        """
        with _locked():
            if load != self.loads:
                return False
            if not self.claimed:
                self._numbers[_CLAIMED], self._numbers[_CLAIMERS] = worker.seed, worker.of
            index = worker.index % _MAX_WORKERS
            due = not self._claimed_by[index] and [self._get(_CLAIMED), self._get(_CLAIMERS)] == [
                worker.seed,
                worker.of,
            ]
            if due:
                self._claimed_by[index] = True
            return bool(due)

    @property
    def read_by_workers(self) -> bool:
        """Whether DataLoader workers ran the latest iteration."""
        return self._get(_BY_WORKERS) is not None

    def set_read_by_workers(self, read: bool) -> None:
        """Records whether DataLoader workers run the latest iteration."""
        self._numbers[_BY_WORKERS] = 1 if read else -1

    def _write(self, pin: Mapping[str, Any]) -> None:
        text = json.dumps(pin, separators=(",", ":")).encode()
        self._bytes[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self._numbers[_PIN] = len(text)

    def _get(self, index: int) -> int | None:
        number = int(self._numbers[index])
        return None if number < 0 else number


def _with_more_tables(known: Mapping[str, Any], pin: Mapping[str, Any]) -> dict[str, Any]:
    """A pin extended by the tables that only another pin has, for one dataset or for each member of a mix."""
    out = dict(known)
    for name, value in pin.items():
        if isinstance(value, dict):  # not a field of a table's pin
            out[name] = _with_more_tables(known[name], value) if name in known else value
    return out


@contextmanager
def _locked() -> Iterator[None]:
    """Holds a lock between processes. The lock of a killed process is released by the system."""
    try:
        import fcntl
    except ImportError:  # not Unix: there is no lock, and concurrent workers are unlikely
        yield
        return
    folder = os.open(tempfile.gettempdir(), os.O_RDONLY)
    try:
        deadline = time.monotonic() + _LOCK_LIMIT
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise errors.Unavailable(
                        f"the lock of {tempfile.gettempdir()} was not released within {_LOCK_LIMIT:g} seconds",
                        remedy="end the process that locks that folder",
                    ) from None
                time.sleep(0.005)
        yield
    finally:
        # Closing alone would not release the lock if a process was forked in the meantime.
        fcntl.flock(folder, fcntl.LOCK_UN)
        os.close(folder)
