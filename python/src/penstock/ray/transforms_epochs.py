"""The epochs of a loop whose batches actors transform, and its position within them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, SupportsIndex, TypeVar

from penstock import errors, mistakes, query
from penstock.actorcount import ActorCount
from penstock.plan import Plan
from penstock.position import Position
from penstock.ray.transforms_crew import Crew
from penstock.ray.transforms_loop import Loop
from penstock.states import of_rank
from penstock.turns import Turns

R = TypeVar("R")


class Transformed(Generic[R]):
    """The batches of one rank, transformed in actors. Created by `transformed`. Not safe for threads.

    Each iteration is an epoch. It yields the result of each step and the stream's cursor after it, as a
    `penstock.torch.IterableDataset` with a `transform` does. Their states are the same: each can load the other's.
    Actors outlive an epoch; close this object when done, or leave its `with` block.
    """

    def __init__(
        self,
        crew: Crew,
        actors: tuple[int, int],
        plan: Callable[[Mapping[str, Any]], Plan],
        form: Mapping[str, Any],
        *,
        ahead: int,
        ahead_bytes: int,
        step_timeout: float,
    ) -> None:
        """Starts nothing.

        Args:
            crew: the actors.
            actors: the least and the largest number of actors.
            plan: plans a query, in this process.
            form: the query without its position.
            ahead: the steps ahead of the loop, for each actor.
            ahead_bytes: the bytes of results ahead of the loop.
            step_timeout: the seconds that an actor may take for a step.
        """
        self._crew = crew
        self._count = ActorCount(*actors)
        self._plan = plan
        self._form = dict(form)
        self._name = query.name(form["dataset"])
        self._ahead = ahead
        self._ahead_bytes = ahead_bytes
        self._step_timeout = step_timeout
        self._planned: Plan | None = None
        self._start = Position(self._name, 0)  # where the next iteration begins
        self._loop: Loop[R] | None = None  # the latest iteration, unless a state was loaded since
        self._closed = False

    @property
    def actors(self) -> int:
        """The number of actors that take turns; 0 before the first step."""
        return 0 if self._loop is None else self._loop.actors

    @property
    def waited(self) -> float:
        """The seconds that the latest iteration waited for results after its first one."""
        return 0.0 if self._loop is None else self._loop.waited

    @property
    def cursor(self) -> Any:
        """The stream's position after the last step that the loop received; None at the beginning of an epoch."""
        return self.state_dict()["cursor"]

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Sets the epoch of the next iteration. If it is never set, all iterations read the same order.

        Raises:
            Invalid: a state within another epoch was loaded.
        """
        number, at = mistakes.whole("epoch", epoch, "set_epoch({value})", minimum=0), self._start
        if at.cursors and not at.ended and at.epoch != number:
            raise errors.Invalid(
                f"the loaded state is from epoch {at.epoch}, but the epoch was set to {number}",
                remedy=f"call set_epoch({at.epoch}), or do not load a state",
            )
        if at.epoch != number:
            self._start = Position(self._name, number, snapshots=at.pin)
        if self._loop is not None and self._loop.ended:
            self._loop = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last step that the loop received, as plain JSON.

        `penstock.merge_states` merges the states of all ranks.
        """
        at = self._start if self._loop is None else self._loop.position
        pin = None if self._planned is None else self._planned.pin
        return replace(at, dataset=self._name, snapshots=at.pin or pin).state()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Any]) -> None:
        """Makes the next iteration resume from a state. The one after it starts its epoch from the beginning.

        Args:
            state: the result of `state_dict` or `merge_states`, a step's cursor, or the cursors of all ranks.

        Raises:
            Invalid: the state belongs to a different dataset, or to one of several DataLoader workers.
        """
        at = of_rank(state)
        if at.dataset not in ("", self._name):
            raise errors.Invalid(
                f"the state is from dataset {at.dataset!r}, but this is {self._name!r}",
                remedy="load it where it was saved",
            )
        if at.every[1] > 1:
            raise errors.Invalid(
                "the state is that of one of several DataLoader workers",
                remedy="load merge_states of the states of all workers",
            )
        self._end_loop()
        self._planned, self._loop, self._start = None, None, at

    def __len__(self) -> int:
        """The number of steps in the epoch for this rank, including those before a loaded state.

        Raises:
            TypeError: the number is unknown before reading.
        """
        steps = self._query()[0].steps
        if steps is None:
            raise TypeError(
                "the number of steps in the epoch is unknown before reading; tail='drop' or count='exact' makes it known"
            )
        return steps

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Loop[R]:
        """Begins an epoch, and ends the iteration before it.

        Raises:
            Invalid: the object is closed, or the server refuses the query.
        """
        if self._closed:
            raise errors.Invalid(
                "the transformed batches are closed", remedy="call penstock.ray.transformed again"
            )
        self._end_loop()
        start = self._begin()
        _, form = self._query()
        shard = form["shard"]
        cursors = start.of_rank(*shard).cursors
        turns: Turns[Any] = Turns(
            (cursors[0] if len(cursors) == 1 else list(cursors)) if cursors else None,
            start.step_of(*shard),
            ahead=self._ahead,
            limit=self._ahead_bytes,
        )
        asked = {**form, "epoch": start.epoch}
        self._loop = Loop(self._crew, self._count, turns, asked, start, self._step_timeout)
        self._start = Position(self._name, start.epoch)
        return self._loop

    def _begin(self) -> Position:
        """The position at which the next iteration begins."""
        at = self._start
        return Position(self._name, at.epoch, snapshots=at.pin) if at.ended else at

    def _query(self) -> tuple[Plan, dict[str, Any]]:
        """Returns the plan of the next iteration, and its query with all that the plan chose.

        All epochs read the snapshots of the first plan, or those of a state that was loaded.
        """
        form = self._form
        if self._planned is None:
            start = self._begin().of_rank(*form["shard"])
            at: dict[str, Any] = {"epoch": start.epoch}
            if start.cursors:
                at = {"cursor": start.cursors[0] if len(start.cursors) == 1 else list(start.cursors)}
            elif start.pin is not None:
                at["snapshots"] = start.pin
            self._planned = self._plan({**form, **at})
        plan = self._planned
        sized = any(name in form for name in ("batch_rows", "global_batch_rows", "batch_requests"))
        return plan, {**form, "snapshots": plan.pin, **({} if sized else {"batch_rows": plan.batch_rows})}

    def _end_loop(self) -> None:
        if self._loop is not None:
            self._loop.close()

    def close(self) -> None:
        """Ends the iteration and the actors. The state remains available."""
        self._closed = True
        self._end_loop()
        self._crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_crew"):
            self._crew.close()
