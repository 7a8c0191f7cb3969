"""Where the reading of a dataset stands, over its epochs: what is loaded, taken and saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock import errors
from penstock.position import Position
from penstock.torch import ranks
from penstock.torch.iteration import Place
from penstock.torch.shared import Shared

# What a query means that says nothing of these, where its cursor could mean something else.
_UNSAID: dict[str, Any] = {
    "filter": "",
    "sample": None,
    "since": None,
    "order": "stored",
    "seed": 0,
    "shuffle_window": 131072,
}
# What a cursor says in the words of the query. Of the others the server knows whether they mean the same.
_SAID = ("order", "shuffle", "shuffle_window", "seed", "lanes")


class Standing:
    """What was loaded, and where the latest pass is."""

    def __init__(self, dataset: str, query: Mapping[str, Any], shared: Shared) -> None:
        """Stands at the beginning.

        Args:
            dataset: its name.
            query: the fields that were said.
            shared: what the processes of the rank know together.
        """
        self._dataset = dataset
        self._query = query
        self._shared = shared
        self._loaded: Position | None = None
        self._loaded_in = -1
        self._loads = shared.loads
        self.place: Place | None = None

    def load(self, position: Position) -> None:
        """Has the next pass begin at a position.

        Raises:
            Invalid: it is one of another query or worker.
        """
        self._check(position)
        worker = ranks.worker()
        if position.every[1] != (1 if worker is None else worker.of) and position.every[1] > 1:
            raise errors.Invalid(
                f"the state is of one of {position.every[1]} DataLoader workers",
                remedy="load merge_states of the StatefulDataLoader's state before the loader is made",
            )
        self._shared.load_epoch(position.epoch)
        if worker is None:
            self._shared.forget()
            self._loads = self._shared.loads
        # A worker that gave nothing yet has a state without one. It takes that of the others: a loader asks
        # for no batch before all of its workers have loaded their states.
        pin = position.pin
        if pin is not None and "snapshots" not in self._query:
            self._shared.adopt(pin)
        self._loaded, self._loaded_in = position, os.getpid()

    def upcoming(self) -> Position:
        """Where the next pass begins, or the one that goes on began."""
        loaded = self._pending()
        if loaded is not None and loaded.epoch == self._epoch:
            return loaded
        if loaded is None and self.place is not None and self.place.start.epoch == self._epoch:
            return self.place.start
        return self._fresh()

    def take(self) -> tuple[Place, errors.Error | None]:
        """Begins a pass; the state that was loaded serves it alone. Says, too, why it cannot be."""
        worker = ranks.worker()
        loaded = self._pending()
        refused = None if worker is None else self._passed_by()
        if worker is None and loaded is not None:
            self._shared.take_whole()
        elif worker is not None and loaded is not None and self._loaded_in != os.getpid():
            loaded = loaded if self._shared.take(worker, self._loads) else None
        self._loaded = None
        start = self._fresh()
        if loaded is not None and loaded.epoch != self._epoch and not loaded.ended:
            refused = errors.Invalid(
                f"the state that was loaded is of epoch {loaded.epoch}, and the epoch was set to {self._epoch}",
                remedy=f"call set_epoch({loaded.epoch}), or load no state",
            )
        elif loaded is not None and loaded.epoch == self._epoch:
            start = loaded
        if worker is None:
            self._shared.note_workers(False)
        else:
            if start.every[1] == 1:
                start = replace(start, every=(worker.index, worker.of))
            self._shared.note_workers(True)
        self.place = Place(start)
        return self.place, refused

    def saved(self) -> Position:
        """Where the reading stands, for the model that took the batches so far.

        Raises:
            Invalid: DataLoader workers read, and this is not one of them.
        """
        if ranks.worker() is None and self._shared.read_by_workers:
            raise errors.Invalid(
                "DataLoader workers read this dataset: the process that started them does not know how far they are",
                remedy="save the cursor of the last batch, or the state of a torchdata StatefulDataLoader",
            )
        at = self._pending()
        if at is None and self.place is not None:
            at = self.place.position
            if at.ended and at.epoch != self._epoch:
                at = None
        at = self._fresh() if at is None else at
        return replace(at, dataset=self._dataset, snapshots=at.pin or self._shared.pin)

    def _passed_by(self) -> errors.Error | None:
        """Why a worker cannot begin that was there already when a state was loaded that nobody took."""
        if self._loads == self._shared.loads or self._shared.taken:
            return None
        return errors.Invalid(
            "a state was loaded after the workers of this DataLoader were started, and they cannot see it",
            remedy="make another DataLoader behind load_state_dict",
        )

    @property
    def _epoch(self) -> int:
        return self._shared.epoch or 0

    def _pending(self) -> Position | None:
        """What was loaded, unless it was taken."""
        if ranks.worker() is None and self._shared.taken:
            self._loaded = None
        return self._loaded

    def _fresh(self) -> Position:
        return Position(self._dataset, self._epoch)

    def _check(self, position: Position) -> None:
        if position.dataset not in ("", self._dataset):
            raise errors.Invalid(
                f"the state is of dataset {position.dataset!r}, and this is {self._dataset!r}",
                remedy="load it into the dataset that it was saved of",
            )
        for cursor in position.cursors:
            for name, unsaid in _UNSAID.items():
                if name not in self._query and cursor.get(name, unsaid) != unsaid:
                    raise _another(name, cursor[name], "none")
            shuffle = cursor.get("order"), cursor.get("shuffle")
            # Which of the others is meant where nothing is said, the dataset's key decides.
            if "shuffle" not in self._query and shuffle == ("shuffled", "splits"):
                raise _another("shuffle", "splits", "none")
            for name in _SAID:
                if name in self._query and name in cursor and cursor[name] != self._query[name]:
                    raise _another(name, cursor[name], repr(self._query[name]))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "place": None}  # of this process's own pass


def _another(name: str, was: Any, now: str) -> errors.Invalid:
    """A state of a query that says something else."""
    return errors.Invalid(
        f"{name}: the state is of {was!r}, and the dataset says {now}",
        remedy=f"make the dataset with the {name} that the state was saved with",
        faults=(errors.Fault(field=name, message=f"the state has {was!r}"),),
    )
