"""Where a run stands: the cursor of one rank or of several, and what is read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock import errors, query
from penstock.fields import Cursor

VERSION = 1

_FIELDS = ("v", "dataset", "epoch", "cursor", "snapshots", "every", "ended")


@dataclass(frozen=True)
class Position:
    """Where the reading of an epoch stands. A `penstock.torch.IterableDataset` keeps it as its state.

    Attributes:
        dataset: the name of the dataset; "" if nobody said.
        epoch: the number of the epoch.
        cursors: of one rank, or one of each; none at the epoch's start.
        every: the worker's number, counted from the cursors, and how many workers take turns; (0, 1) is a whole rank.
        ended: whether the epoch was read to its end.
        snapshots: what is read, where there is no cursor that says it; None if nobody knows.
    """

    dataset: str
    epoch: int
    cursors: tuple[Cursor, ...] = ()
    every: tuple[int, int] = (0, 1)
    ended: bool = False
    snapshots: Mapping[str, Any] | None = None

    @property
    def step(self) -> int:
        """How many steps of the epoch lie before it, for the rank that is furthest."""
        return max((int(cursor["step"]) for cursor in self.cursors), default=0)

    @property
    def pin(self) -> dict[str, Any] | None:
        """The snapshots that are read; None if nobody knows."""
        if self.cursors:
            return dict(self.cursors[0]["pin"])
        return None if self.snapshots is None else dict(self.snapshots)

    @property
    def shards(self) -> int:
        """Of how many ranks the cursors are; 0 without a cursor."""
        return int(self.cursors[0]["shard"]["of"]) if self.cursors else 0

    def of_rank(self, rank: int, world: int) -> Self:
        """The same for one rank of so many.

        Raises:
            Invalid: a rank is missing.
        """
        if not self.cursors:
            return self
        own = [cursor for cursor in self.cursors if cursor["shard"] == {"index": rank, "of": world}]
        if own:
            return replace(self, cursors=(own[0],))
        there = sorted(int(cursor["shard"]["index"]) for cursor in self.cursors)
        missing = sorted(set(range(self.shards)) - set(there))
        if missing:
            raise errors.Invalid(
                f"the state is of rank {_listed(there)} of {self.shards}, and this is rank {rank} of {world}",
                remedy="load merge_states of the states of all ranks",
            )
        return self

    def state(self) -> dict[str, Any]:
        """As plain JSON."""
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
        """Reads a state, a cursor or a list of cursors.

        Raises:
            Invalid: it is none of these.
        """
        if isinstance(state, Mapping):
            if "_snapshot" in state or "_num_yielded" in state:
                raise errors.Invalid(
                    "this is the state of a StatefulDataLoader",
                    remedy="give it to the loader's load_state_dict, or to this one merge_states([state])",
                )
            if "at" not in state:
                return cls._of_state(state)
        return cls._of_cursors("", query.cursor(state))

    @classmethod
    def _of_state(cls, state: Mapping[str, Any]) -> Self:
        unknown = sorted(str(name) for name in state.keys() - set(_FIELDS))
        if unknown or not {"v", "dataset", "epoch", "cursor"} <= state.keys():
            raise errors.Invalid(
                f"this is no state of a penstock dataset{': it has ' + ', '.join(unknown) if unknown else ''}",
                remedy="load what state_dict or merge_states gave, or a batch's cursor",
            )
        if state["v"] != VERSION:
            raise errors.Invalid(
                f"the state is of version {state['v']}, this package reads version {VERSION}",
                remedy="go on with the package's version that saved it",
            )
        at = cls(
            str(state["dataset"]),
            int(state["epoch"]),
            ended=bool(state.get("ended", False)),
            snapshots=state.get("snapshots"),
        )
        if state["cursor"] is not None:
            at = replace(at, cursors=cls._of_cursors(at.dataset, query.cursor(state["cursor"])).cursors)
        if "every" in state:
            at = replace(at, every=(int(state["every"]["step"]), int(state["every"]["of"])))
        return at

    @classmethod
    def _of_cursors(cls, dataset: str, given: Cursor | list[Cursor]) -> Self:
        cursors = tuple(given if isinstance(given, list) else [given])
        for cursor in cursors:
            if not {"step", "epoch", "shard", "pin"} <= cursor.keys():
                raise errors.Invalid(
                    "this is no cursor of a stream",
                    remedy="load what state_dict or merge_states gave, or a batch's cursor",
                )
        if not cursors:
            raise errors.Invalid("a list without a cursor does not mean the start", remedy="load nothing")
        return cls(dataset, int(cursors[0]["epoch"]), cursors)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
