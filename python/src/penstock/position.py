"""The position of a run: its dataset and snapshots, and the cursors of one or several ranks."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock import errors, query
from penstock.fields import Cursor

VERSION = 1

_FIELDS = ("v", "dataset", "epoch", "cursor", "snapshots", "every", "ended")
_LOAD = "load the result of state_dict or merge_states, or a batch's cursor"


@dataclass(frozen=True)
class Position:
    """A position in an epoch, which a `penstock.torch.IterableDataset` saves as its state.

    Attributes:
        dataset: the name of the dataset; "" if unknown.
        epoch: the number of the epoch.
        cursors: the cursor of one rank, or of each rank; empty at the start of the epoch.
        every: the worker's first step, counted from the cursors, and the number of workers that take turns; (0, 1) for
            a whole rank.
        ended: whether the epoch was read to its end.
        snapshots: the snapshots to read if there is no cursor; None if unknown.
    """

    dataset: str
    epoch: int
    cursors: tuple[Cursor, ...] = ()
    every: tuple[int, int] = (0, 1)
    ended: bool = False
    snapshots: Mapping[str, Any] | None = None

    @property
    def step(self) -> int:
        """The number of steps before the position, for the rank that is furthest."""
        return max((int(cursor["step"]) for cursor in self.cursors), default=0)

    @property
    def pin(self) -> dict[str, Any] | None:
        """The snapshots to read; None if unknown."""
        if self.cursors:
            return dict(self.cursors[0]["pin"])
        return None if self.snapshots is None else dict(self.snapshots)

    @property
    def shards(self) -> int:
        """The number of ranks of the run that saved the cursors; 0 without a cursor."""
        return int(self.cursors[0]["shard"]["of"]) if self.cursors else 0

    def step_of(self, rank: int, world: int) -> int:
        """Returns the number of steps before the position, for one rank."""
        return max((int(cursor["step"]) for cursor in self._own(rank, world)), default=self.step)

    def of_rank(self, rank: int, world: int) -> Self:
        """Returns the position of one rank out of `world`.

        A complete set of cursors is kept as a whole, so that the server can check that they belong together.

        Raises:
            Invalid: a rank is missing.
        """
        if not self.cursors:
            return self
        there = sorted(int(cursor["shard"]["index"]) for cursor in self.cursors)
        if there == list(range(self.shards)):
            return self
        own = self._own(rank, world)
        if not own:
            raise errors.Invalid(
                f"the state is from rank {listed(there)} of {self.shards}, but this is rank {rank} of {world}",
                remedy="load merge_states of the states of all ranks",
            )
        return replace(self, cursors=own)

    def _own(self, rank: int, world: int) -> tuple[Cursor, ...]:
        """Returns the cursor of one rank out of `world`, if there is one."""
        return tuple(one for one in self.cursors if one["shard"] == {"index": rank, "of": world})

    def state(self) -> dict[str, Any]:
        """Returns the state as plain JSON."""
        cursors: Any = None
        if self.cursors:
            cursors = self.cursors[0] if len(self.cursors) == 1 else list(self.cursors)
        out: dict[str, Any] = {
            "v": VERSION,
            "dataset": self.dataset,
            "epoch": self.epoch,
            "cursor": cursors,
        }
        if not self.cursors and self.snapshots is not None:
            out["snapshots"] = dict(self.snapshots)
        if self.every[1] > 1:
            out["every"] = {"step": self.every[0], "of": self.every[1]}
        if self.ended:
            out["ended"] = True
        return out

    @classmethod
    def of(cls, state: Mapping[str, Any] | Sequence[Any] | str | bytes) -> Self:
        """Decodes a state, a cursor or a list of cursors, as objects or JSON text.

        Raises:
            Invalid: the value is none of these.
        """
        if isinstance(state, (str, bytes)):
            state = parsed(state)
        if isinstance(state, Mapping) and "at" not in state:
            return cls._of_state(state)
        return cls._of_cursors("", query.cursor(state))

    @classmethod
    def _of_state(cls, state: Mapping[str, Any]) -> Self:
        unknown = sorted(str(name) for name in state.keys() - set(_FIELDS))
        if unknown or not {"v", "dataset", "epoch", "cursor"} <= state.keys():
            raise errors.Invalid(
                f"this is not a state of a penstock dataset{': it has ' + ', '.join(unknown) if unknown else ''}",
                remedy=_LOAD,
            )
        if state["v"] != VERSION:
            raise errors.Invalid(
                f"the state has version {state['v']}; this package reads version {VERSION}",
                remedy="use the package version that saved it",
            )
        at = cls(
            str(state["dataset"]),
            _number("epoch", state["epoch"]),
            ended=bool(state.get("ended", False)),
            snapshots=_object("snapshots", state["snapshots"]) if "snapshots" in state else None,
        )
        if state["cursor"] is not None:
            read = cls._of_cursors(at.dataset, query.cursor(state["cursor"]))
            if read.epoch != at.epoch:
                raise errors.Invalid(
                    f"the state is from epoch {at.epoch}, but its cursor is from epoch {read.epoch}",
                    remedy=_LOAD,
                )
            at = replace(at, cursors=read.cursors)
        if "every" in state:
            every = _object("every", state["every"])
            of = _number("every.of", every.get("of"))
            step = _number("every.step", every.get("step"), below=1 << 63 if of else 0)
            at = replace(at, every=(step, of))
        return at

    @classmethod
    def _of_cursors(cls, dataset: str, given: Cursor | list[Cursor]) -> Self:
        cursors = tuple(given if isinstance(given, list) else [given])
        for cursor in cursors:
            if not {"step", "epoch", "shard", "pin"} <= cursor.keys():
                several = "cursor" in cursor and "v" in cursor
                raise errors.Invalid(
                    "this is not a stream's cursor",
                    remedy="load merge_states of the states of all ranks" if several else _LOAD,
                )
            shard = _object("cursor.shard", cursor["shard"])
            _number("cursor.shard.index", shard.get("index"), below=_number("of", shard.get("of")))
            _object("cursor.pin", cursor["pin"])
            _number("cursor.step", cursor["step"])
        if not cursors:
            raise errors.Invalid("an empty list of cursors does not mean the start", remedy="load nothing")
        check_ranks(cursors)
        epochs = {_number("cursor.epoch", cursor["epoch"]) for cursor in cursors}
        _check_equal("epoch", epochs)
        return cls(dataset, epochs.pop(), cursors)


def check_ranks(cursors: Sequence[Cursor]) -> None:
    """Checks that all cursors have the same number of ranks, and that no rank has two cursors.

    Raises:
        Invalid: the numbers of ranks differ, or a rank has two cursors.
    """
    shards = [(int(cursor["shard"]["index"]), int(cursor["shard"]["of"])) for cursor in cursors]
    _check_equal("numbers of rank", {of for _, of in shards})
    twice = sorted({index for index, of in shards if shards.count((index, of)) > 1})
    if twice:
        raise errors.Invalid(
            f"two states are from rank {listed(twice)}", remedy="merge one state of each rank"
        )


def _check_equal(what: str, found: set[int]) -> None:
    if len(found) > 1:
        raise errors.Invalid(
            f"the states are from different {what}s: {listed(sorted(found))}",
            remedy="merge states that were saved at the same step",
        )


def _number(name: str, value: Any, below: int = 1 << 63) -> int:
    """Checks a whole number in a state, which may have been edited by hand.

    Raises:
        Invalid: the value is not a whole number or is too large.
    """
    if not hasattr(value, "__index__") or not 0 <= operator.index(value) < below:
        raise errors.Invalid(f"{name}: {value!r} cannot be in a state", remedy=_LOAD)
    return operator.index(value)


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise errors.Invalid(f"{name}: {value!r} cannot be in a state", remedy=_LOAD)
    return value


def parsed(text: str | bytes) -> Any:
    """Decodes a state from JSON text.

    Raises:
        Invalid: the text is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as e:
        raise errors.Invalid(f"the state is not JSON: {e}", remedy=_LOAD) from e


def listed(values: Iterable[object]) -> str:
    """Writes several values, such as ranks or steps, for a message."""
    return ", ".join(map(str, values))
