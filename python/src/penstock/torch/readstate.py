"""The read state of a dataset over its epochs: the loaded state, and the latest iteration."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock import errors
from penstock.position import Position
from penstock.torch import ranks
from penstock.torch.hosts import Host
from penstock.torch.iteration import IterationState
from penstock.torch.shared import SharedState, Turn

# The server's defaults for fields that a cursor contains. A test compares them with the server's cursors.
DEFAULTS: dict[str, Any] = {
    "filter": "",
    "sample": None,
    "since": None,
    "order": "stored",
    "seed": 0,
    "shuffle_window": 131072,
    "shuffle_parts": 8,
}
# The defaults for datasets with `distinct`, where they differ. Only the server knows which one a dataset has.
_DEFAULTS_OF_DISTINCT = {"shuffle_parts": 1}
# Fields that cursor and query have in the same form. For the others, only the server can compare them.
_COMPARED = ("order", "shuffle", "shuffle_window", "shuffle_parts", "seed", "lanes")


class ReadState:
    """The loaded state, and the latest iteration."""

    def __init__(
        self,
        dataset: str,
        query: Mapping[str, Any],
        shared: SharedState,
        *,
        counts: bool = False,
        skip: int = 0,
    ) -> None:
        """Starts at the beginning.

        Args:
            dataset: the dataset's name.
            query: the query fields that were set.
            shared: the state that the rank's processes share.
            counts: whether each iteration is the next epoch.
            skip: how many steps to skip at the beginning of an epoch.
        """
        self._dataset = dataset
        self._query = query
        self._shared = shared
        self._counts = counts
        self._skip = skip
        self._turns = (-1, 0)  # a process, and how often it iterated
        self._loaded: Position | None = None
        self._loaded_pid = -1
        self._loads = shared.loads
        self.iteration: IterationState | None = None

    def load(self, position: Position) -> None:
        """Makes the next iteration begin at a position.

        Raises:
            Invalid: the position belongs to a different query or worker.
        """
        self._check(position)
        worker = ranks.worker()
        if position.every[1] != (1 if worker is None else worker.of) and position.every[1] > 1:
            raise errors.Invalid(
                f"the state is from one of {position.every[1]} DataLoader workers",
                remedy="load merge_states of the StatefulDataLoader's state before creating the loader",
            )
        self._shared.set_loaded_epoch(position.epoch)
        if worker is None:
            self._shared.reset()
            self._loads = self._shared.loads
        # The state of a worker before its first batch has no pin. It uses the other workers' pin: a loader requests
        # batches only after all of its workers have loaded their states.
        pin = position.pin
        if pin is not None and "snapshots" not in self._query:
            self._shared.set_pin(pin)
        self._loaded, self._loaded_pid = position, os.getpid()

    def next_start(self) -> Position:
        """The position at which the next iteration begins, or the current one began."""
        loaded = self._pending()
        if loaded is not None and loaded.epoch == self._epoch:
            return loaded
        if loaded is None and self.iteration is not None:
            began = self.iteration.start
            if began.epoch == self._epoch or (self._shared.counts and not self.iteration.position.ended):
                return began
        return self._fresh(self._epoch)

    def begin(self, host: Host) -> tuple[IterationState, errors.Error | None]:
        """Begins an iteration, which consumes the loaded state. Also returns the error if it must not begin."""
        worker, turn = ranks.worker(), self._turn()
        if turn is not None and turn.count:
            host = host.later()
        loaded = self._pending()
        refused = None if worker is None else self._missed_load()
        if worker is None and loaded is not None:
            self._shared.claim_all()
        elif worker is not None and loaded is not None and self._loaded_pid != os.getpid():
            loaded = loaded if self._shared.claim(worker, self._loads) else None
        self._loaded = None
        was_set = self._shared.is_set
        begun = self._shared.begin(turn, host.epoch, self._counts)
        if begun.again and not host.evaluates:
            self._warn(begun.epoch)
        start = self._fresh(begun.epoch)
        if host.over:
            loaded = None
        if loaded is not None and "repeat" in self._query and loaded.epoch != begun.epoch:
            start = loaded  # the workers of a loader may be in different epochs
        elif loaded is not None and loaded.epoch != begun.epoch and not loaded.ended:
            refused = _other_epoch(loaded.epoch, begun.epoch, host.name if not was_set else "")
        elif loaded is not None and loaded.epoch == begun.epoch:
            start = loaded
        self._shared.set_read_by_workers(worker is not None)
        if start.every[1] == 1:
            # Workers take turns, starting at the first step that is returned.
            index, of = (0, 1) if worker is None else (worker.index, worker.of)
            start = replace(start, every=(max(0, self._skip - start.step) + index, of))
        elif start.step + start.every[0] < self._skip:
            refused = errors.Invalid(
                f"skip: the state of this worker is before step {self._skip}",
                remedy="load merge_states of the StatefulDataLoader's state before creating the loader",
            )
        self.iteration = IterationState(start, host.ahead)
        return self.iteration, refused or _resumed_elsewhere(host, loaded)

    def _turn(self) -> Turn | None:
        """Counts an iteration of this process; None if it is not a worker."""
        pid, count = self._turns
        count = count if pid == os.getpid() else 0
        self._turns = (os.getpid(), count + 1)
        worker = ranks.worker()
        return None if worker is None else Turn(worker, count)

    def _warn(self, epoch: int) -> None:
        """Warns once that an epoch is read again, if it is shuffled and the loop did not stop within one step."""
        last = self.iteration
        looked = last is not None and not last.position.ended and last.position.step - last.start.step < 2
        if self._query.get("order", "stored") == "stored" or looked or not self._shared.warn_once():
            return
        remedy = "call ds.set_epoch(epoch) before each epoch, or create the dataset with epochs='auto'"
        if "repeat" in self._query:
            remedy = "one iteration reads all epochs, so raise repeat= instead of iterating again"
        warnings.warn(
            f"epoch {epoch} of {self._dataset!r} is read again, in the same order as before: {remedy}",
            stacklevel=4,
        )

    @property
    def ahead(self) -> str:
        """How to save the position of a loop that is behind the framework; "" if the position is that of the loop."""
        iteration = self.iteration
        if iteration is None or self._pending() is not None or iteration.position.ended:
            return ""
        return iteration.ahead if iteration.position is not iteration.start else ""

    def current(self) -> Position:
        """The position after the batches that the loop received.

        Raises:
            Invalid: DataLoader workers read this dataset, and this process is not one of them.
        """
        if ranks.worker() is None and self._shared.read_by_workers:
            raise errors.Invalid(
                "DataLoader workers read this dataset: the process that started them does not know how far they are",
                remedy="save the cursor of the last batch, or the state of a torchdata StatefulDataLoader",
            )
        at = self._pending()
        if at is None and self.iteration is not None:
            at = self.iteration.position
            began = self.iteration.start.epoch
            if at.ended and began != self._epoch and (self._shared.is_set or not self._shared.counts):
                at = None
        at = self._fresh(self._epoch) if at is None else at
        return replace(at, dataset=self._dataset, snapshots=at.pin or self._shared.pin)

    def _missed_load(self) -> errors.Error | None:
        """The error if a state was loaded after this worker was started, and nothing has consumed it."""
        if self._loads == self._shared.loads or self._shared.claimed:
            return None
        return errors.Invalid(
            "a state was loaded after the workers of this DataLoader were started, and they cannot see it",
            remedy="create the DataLoader after load_state_dict",
        )

    @property
    def _epoch(self) -> int:
        return self._shared.epoch or 0

    def _pending(self) -> Position | None:
        """The loaded state, unless it was consumed."""
        if ranks.worker() is None and self._shared.claimed:
            self._loaded = None
        return self._loaded

    def _fresh(self, epoch: int) -> Position:
        return Position(self._dataset, epoch)

    def _check(self, position: Position) -> None:
        if position.dataset not in ("", self._dataset):
            raise errors.Invalid(
                f"the state is from dataset {position.dataset!r}, but this is {self._dataset!r}",
                remedy="load it into the dataset that it was saved from",
            )
        for cursor in position.cursors:
            check_query(self._query, cursor)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "iteration": None}  # it belongs to this process


def check_query(query: Mapping[str, Any], cursor: Mapping[str, Any]) -> None:
    """Refuses a cursor of a different query.

    Args:
        query: the query fields that were set.
        cursor: the cursor.

    Raises:
        Invalid: the cursor belongs to a different query; the error names the field.
    """
    for name, unsaid in DEFAULTS.items():
        if name in query or name not in cursor:
            continue
        if cursor[name] not in (unsaid, _DEFAULTS_OF_DISTINCT.get(name, unsaid)):
            raise _different_query(name, cursor[name], "none")
    shuffle = cursor.get("order"), cursor.get("shuffle")
    # The other values can be defaults: which one depends on the dataset's key.
    if "shuffle" not in query and shuffle == ("shuffled", "splits"):
        raise _different_query("shuffle", "splits", "none")
    for name in _COMPARED:
        if name in query and name in cursor and cursor[name] != query[name]:
            raise _different_query(name, cursor[name], repr(query[name]))


def _other_epoch(loaded: int, epoch: int, host: str) -> errors.Invalid:
    """Makes the exception for a state whose epoch differs from the iteration's."""
    if host:
        return errors.Invalid(
            f"the loaded state is from epoch {loaded}, but {host} is at epoch {epoch}",
            remedy=f"load the state that was saved with the checkpoint from which {host} resumes",
        )
    return errors.Invalid(
        f"the loaded state is from epoch {loaded}, but the epoch was set to {epoch}",
        remedy=f"call set_epoch({loaded}), or do not load a state; Accelerate sets the epoch of a loader that it "
        f"prepared: call loader.set_epoch({loaded}) there",
    )


def _resumed_elsewhere(host: Host, loaded: Position | None) -> errors.Invalid | None:
    """The exception if a loop resumes within an epoch but the dataset does not."""
    if not host.taken:
        return None
    if loaded is None:
        return errors.Invalid(
            f"{host.name} resumes after batch {host.taken} of epoch {host.epoch}, but a plain DataLoader does not save "
            "its position: the epoch would begin again from its first batch",
            remedy="pass the dataset itself, trainer.fit(model, ds), or torchdata's StatefulDataLoader(ds, "
            "batch_size=None); or load a batch's cursor into the dataset before the fit",
        )
    return None


def _different_query(name: str, was: Any, now: str) -> errors.Invalid:
    """Makes the exception for a state of a different query."""
    return errors.Invalid(
        f"{name}: the state has {was!r}, but the dataset has {now}",
        remedy=f"create the dataset with the {name} that the state was saved with",
        faults=(errors.Fault(field=name, message=f"the state has {was!r}"),),
    )
