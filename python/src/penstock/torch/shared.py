"""State shared by the processes of a rank: the epoch, the snapshots, and which worker consumed the loaded state.

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
from typing import Any

import torch

from penstock import errors
from penstock.torch.ranks import Worker

# The maximum size of a pin: it is part of every ticket, whose size is limited to this.
_PIN_BYTES = 1 << 16
_LOCK_LIMIT = 30.0
_MAX_WORKERS = 4096

# Indices of the numbers. -1 means not set.
_LOADED_EPOCH, _SET_EPOCH, _PIN, _CLAIMED, _CLAIMERS, _BY_WORKERS, _LOADS = range(7)


class SharedState:
    """Numbers and a pin in shared memory."""

    def __init__(self) -> None:
        # Independent of the user's default device and inference mode, since other modes write to this memory.
        with torch.device("cpu"), torch.inference_mode(mode=False):
            self._numbers = torch.full((7,), -1, dtype=torch.int64).share_memory_()
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
        """The epoch set by the user, or else that of the loaded state."""
        said = self._get(_SET_EPOCH)
        return self._get(_LOADED_EPOCH) if said is None else said

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch for all processes."""
        self._numbers[_SET_EPOCH] = epoch

    def set_loaded_epoch(self, epoch: int) -> None:
        """Sets the epoch of the loaded state, used unless the user sets one."""
        self._numbers[_LOADED_EPOCH] = epoch

    @property
    def pin(self) -> dict[str, Any] | None:
        """The snapshots that all processes read; None if not chosen yet."""
        length = self._get(_PIN)
        return None if length is None else json.loads(bytes(self._bytes[:length].tolist()))

    def agree_on_pin(self, pin: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the snapshots that all processes read. The first caller's pin wins."""
        with _locked():
            known = self.pin
            if known is not None:
                return known
            self._write(pin)
        return dict(pin)

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

        It may not if another state was loaded since. Otherwise, each worker of one loader iterator may, once. Workers
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
