"""What the processes of a run's rank know together: the epoch, the snapshots, and who took the loaded state.

It is memory that DataLoader's workers share with the process that started them, however they were
started. A copy by pickle alone has its own.
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

# A pin is in every ticket, and a ticket has no more bytes.
_PIN_BYTES = 1 << 16
_LOCK_LIMIT = 30.0
_MOST_WORKERS = 4096

# The places of the numbers. -1 stands in each that nobody set.
_EPOCH, _SAID, _PIN, _TAKEN, _TAKERS, _READ, _LOADS = range(7)


class Shared:
    """Numbers and a pin in shared memory."""

    def __init__(self) -> None:
        # Whatever device and mode the user is in: it is memory, which is written to in others.
        with torch.device("cpu"), torch.inference_mode(mode=False):
            self._numbers = torch.full((7,), -1, dtype=torch.int64).share_memory_()
            self._bytes = torch.zeros(_PIN_BYTES, dtype=torch.uint8).share_memory_()
            self._served = torch.zeros(_MOST_WORKERS, dtype=torch.bool).share_memory_()

    def __setstate__(self, state: dict[str, torch.Tensor]) -> None:
        with torch.inference_mode(mode=False):
            for name, tensor in state.items():
                # What pickle alone copied is no shared memory, and this process may start workers too.
                own = tensor.clone() if tensor.is_inference() else tensor
                setattr(self, name, own.share_memory_())

    @property
    def epoch(self) -> int | None:
        """The epoch that was said, or else that of the state that was loaded."""
        said = self._get(_SAID)
        return self._get(_EPOCH) if said is None else said

    def say_epoch(self, epoch: int) -> None:
        """Sets it for every process."""
        self._numbers[_SAID] = epoch

    def load_epoch(self, epoch: int) -> None:
        """Sets it where nobody says it."""
        self._numbers[_EPOCH] = epoch

    @property
    def pin(self) -> dict[str, Any] | None:
        """The snapshots that were agreed on."""
        length = self._get(_PIN)
        return None if length is None else json.loads(bytes(self._bytes[:length].tolist()))

    def agree(self, pin: Mapping[str, Any]) -> dict[str, Any]:
        """The snapshots that all read: those of the process that says it first."""
        with _locked():
            known = self.pin
            if known is not None:
                return known
            self._write(pin)
        return dict(pin)

    def adopt(self, pin: Mapping[str, Any]) -> None:
        """Lets all read the snapshots of a state, whatever they agreed on before."""
        with _locked():
            self._write(pin)

    def forget(self) -> None:
        """Makes ready for another state: its snapshots count, and it is taken anew."""
        for place in (_PIN, _TAKEN, _TAKERS, _READ):
            self._numbers[place] = -1
        self._served.zero_()
        self._numbers[_LOADS] += 1

    @property
    def loads(self) -> int:
        """How many states were loaded so far, less one."""
        return int(self._numbers[_LOADS])

    @property
    def taken(self) -> bool:
        """Whether the loaded state was gone on from."""
        return self._get(_TAKEN) is not None

    def take_whole(self) -> None:
        """The process itself goes on from the loaded state."""
        self._numbers[_TAKEN] = self._numbers[_TAKERS] = 0

    def take(self, worker: Worker, load: int) -> bool:
        """Whether a worker goes on from the state that it knows of, the one of this load.

        No worker does where another state was loaded meanwhile. The workers of one of the loader's iterators do, each once. Those of later ones begin anew, also
        where the user's generator gives them the same seed: the process that started them cannot
        know that the state was taken.
        """
        with _locked():
            if load != self.loads:
                return False
            if not self.taken:
                self._numbers[_TAKEN], self._numbers[_TAKERS] = worker.seed, worker.of
            place = worker.index % _MOST_WORKERS
            due = not self._served[place] and [self._get(_TAKEN), self._get(_TAKERS)] == [
                worker.seed,
                worker.of,
            ]
            if due:
                self._served[place] = True
            return bool(due)

    @property
    def read_by_workers(self) -> bool:
        """Whether DataLoader workers read last."""
        return self._get(_READ) is not None

    def note_workers(self, read: bool) -> None:
        """Says whether it is DataLoader workers that read last."""
        self._numbers[_READ] = 1 if read else -1

    def _write(self, pin: Mapping[str, Any]) -> None:
        text = json.dumps(pin, separators=(",", ":")).encode()
        self._bytes[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self._numbers[_PIN] = len(text)

    def _get(self, place: int) -> int | None:
        number = int(self._numbers[place])
        return None if number < 0 else number


@contextmanager
def _locked() -> Iterator[None]:
    """One process at a time, for a moment. The lock of a process that is killed is free."""
    try:
        import fcntl
    except ImportError:  # no Unix: nothing to lock with, and hardly two workers at the same moment
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
                        f"the lock of {tempfile.gettempdir()} was not free within {_LOCK_LIMIT:g} seconds",
                        remedy="end what locks that folder",
                    ) from None
                time.sleep(0.005)
        yield
    finally:
        # Closing alone would leave it locked while a process lives that was forked meanwhile.
        fcntl.flock(folder, fcntl.LOCK_UN)
        os.close(folder)
