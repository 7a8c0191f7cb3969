"""The read state of a dataset over its epochs: the loaded state, and the latest iteration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock import errors
from penstock.position import Position
from penstock.torch import ranks
from penstock.torch.iteration import IterationState
from penstock.torch.shared import SharedState

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
# Fields that cursor and query have in the same form. For the others, only the server can compare them.
_COMPARED = ("order", "shuffle", "shuffle_window", "shuffle_parts", "seed", "lanes")


class ReadState:
    """The loaded state, and the latest iteration."""

    def __init__(self, dataset: str, query: Mapping[str, Any], shared: SharedState) -> None:
        """Starts at the beginning.

        Args:
            dataset: the dataset's name.
            query: the query fields that were set.
            shared: the state that the rank's processes share.
        """
        self._dataset = dataset
        self._query = query
        self._shared = shared
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
        # The state of a worker before its first batch has no pin. It uses that of the others: a loader requests
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
        if loaded is None and self.iteration is not None and self.iteration.start.epoch == self._epoch:
            return self.iteration.start
        return self._fresh()

    def begin(self) -> tuple[IterationState, errors.Error | None]:
        """Begins an iteration, which consumes the loaded state. Also returns the error if it must not begin."""
        worker = ranks.worker()
        loaded = self._pending()
        refused = None if worker is None else self._missed_load()
        if worker is None and loaded is not None:
            self._shared.claim_all()
        elif worker is not None and loaded is not None and self._loaded_pid != os.getpid():
            loaded = loaded if self._shared.claim(worker, self._loads) else None
        self._loaded = None
        start = self._fresh()
        if loaded is not None and "repeat" in self._query and loaded.epoch != self._epoch:
            start = loaded  # the workers of a loader may be in different epochs
        elif loaded is not None and loaded.epoch != self._epoch and not loaded.ended:
            refused = errors.Invalid(
                f"the loaded state is from epoch {loaded.epoch}, but the epoch was set to {self._epoch}",
                remedy=f"call set_epoch({loaded.epoch}), or do not load a state",
            )
        elif loaded is not None and loaded.epoch == self._epoch:
            start = loaded
        if worker is None:
            self._shared.set_read_by_workers(False)
        else:
            if start.every[1] == 1:
                start = replace(start, every=(worker.index, worker.of))
            self._shared.set_read_by_workers(True)
        self.iteration = IterationState(start)
        return self.iteration, refused

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
            if at.ended and self.iteration.start.epoch != self._epoch:
                at = None
        at = self._fresh() if at is None else at
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

    def _fresh(self) -> Position:
        return Position(self._dataset, self._epoch)

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
        if name not in query and cursor.get(name, unsaid) != unsaid:
            raise _different_query(name, cursor[name], "none")
    shuffle = cursor.get("order"), cursor.get("shuffle")
    # The other values can be defaults: which one depends on the dataset's key.
    if "shuffle" not in query and shuffle == ("shuffled", "splits"):
        raise _different_query("shuffle", "splits", "none")
    for name in _COMPARED:
        if name in query and name in cursor and cursor[name] != query[name]:
            raise _different_query(name, cursor[name], repr(query[name]))


def _different_query(name: str, was: Any, now: str) -> errors.Invalid:
    """Makes the exception for a state of a different query."""
    return errors.Invalid(
        f"{name}: the state has {was!r}, but the dataset has {now}",
        remedy=f"create the dataset with the {name} that the state was saved with",
        faults=(errors.Fault(field=name, message=f"the state has {was!r}"),),
    )
