"""Batches that a function transforms in Ray's actors, in the order of the stream."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, SupportsIndex, TypeVar, Unpack

import pyarrow as pa
import ray

from penstock import arguments, errors, mistakes, query
from penstock.access import Access, Files
from penstock.actorcount import ActorCount
from penstock.client import Client
from penstock.fields import RunQuery
from penstock.plan import Plan
from penstock.position import Position
from penstock.query import Dataset
from penstock.ray.transforms_actor import Transformer
from penstock.ray.transforms_crew import Crew
from penstock.ray.transforms_loop import Loop
from penstock.signatures import lists
from penstock.states import of_rank
from penstock.turns import Turns

R = TypeVar("R")

# Query fields that depend on the position in the stream, and those that need all steps in one stream.
_ITS_OWN = ("cursor", "endpoints", "epoch", "every", "limit")


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
    ) -> None:
        """Starts nothing.

        Args:
            crew: the actors.
            actors: the least and the largest number of actors.
            plan: plans a query, in this process.
            form: the query without its position.
            ahead: the steps ahead of the loop, for each actor.
            ahead_bytes: the bytes of results ahead of the loop.
        """
        self._crew = crew
        self._count = ActorCount(*actors)
        self._plan = plan
        self._form = dict(form)
        self._name = query.name(form["dataset"])
        self._ahead = ahead
        self._ahead_bytes = ahead_bytes
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
        self._loop = Loop(self._crew, self._count, turns, {**form, "epoch": start.epoch}, start)
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


class Fields(RunQuery, Files, total=False):
    """The fields of a query for transforms, and paths of credentials."""


@lists(RunQuery, Files)
def transformed(
    servers: Client | str | Sequence[str] | Callable[[], Client],
    dataset: Dataset,
    function: Callable[[pa.RecordBatch], R] | type[Callable[[pa.RecordBatch], R]],
    *,
    actors: tuple[int, int] = (1, 8),
    shard: tuple[int, int] | None = None,
    ahead: int = 2,
    ahead_bytes: int = 256 << 20,
    options: Mapping[str, Any] | None = None,
    start_timeout: float = 300.0,
    **fields: Unpack[Fields],
) -> Transformed[R]:
    """Transforms the batches of a stream in actors of Ray, and returns the results in the order of the stream.

        with penstock.ray.transformed("loader:8815", "homefeed", augment, actors=(1, 8),
                                      batch_rows=8192, order="shuffled", seed=1) as steps:
            for value, cursor in steps:
                train(value)

    Each of k actors reads every k-th step of the shard and calls the function. Their number follows the time that the
    loop waits for them. Steps, order and cursors are those of a plain read. If an actor or its node dies, other actors
    make its steps. An exception in the function ends the loop at its step, and is not retried.

    Args:
        servers: the servers' addresses as in `penstock.connect`, or a client without credentials of its own; or a
            function without arguments that creates a client. It is called in each actor, and here to plan, so it can
            start a server for each node: `lambda: penstock.open("penstock.yaml")`.
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        function: called with each batch in an actor; or a class, whose instance is called, created once for each actor.
            It may return anything that can be pickled. Arrow and NumPy arrays are copied once, into Ray's object store,
            and are read-only in the loop; tensors are copied more often.
        actors: the least and the largest number of actors.
        shard: the rank, and the number of ranks. Required if WORLD_SIZE is above 1.
        ahead: how many steps each actor may be ahead of the loop.
        ahead_bytes: how many bytes of results all actors may be ahead of the loop, judging by the largest result so
            far. One step is always made. A value that the loop keeps also keeps its part of the object store.
        options: the actors' options in Ray, such as `num_cpus`, which is 1 if omitted, or `scheduling_strategy`.
        start_timeout: how many seconds the loop waits for Ray to start an actor, if it has none.
        fields: the fields of the query, and files with credentials. With several ranks, `tail` is "drop" unless it is
            set.

    Raises:
        Invalid: an argument is not valid, or the client's credentials would be pickled.
    """
    rank, given = _rank(shard), dict(fields)
    files: Any = {name: given.pop(name) for name in Files.__annotations__ if name in given}
    form = {name: value for name, value in given.items() if value is not None}
    for name in _ITS_OWN:
        if name in form:
            raise query.invalid(name, "is set by penstock.ray.transformed itself; leave it out")
    mistakes.refuse(form)
    if rank[1] > 1:
        form.setdefault("tail", "drop")
    if not callable(function):
        raise errors.Invalid("function: must be callable", remedy="pass a function of a pyarrow.RecordBatch")
    create: Callable[[], Client] = (
        servers if callable(servers) else functools.partial(_client, Access.of(servers, files))
    )
    remote = ray.remote(Transformer).options(
        **{"num_cpus": 1, **(options or {}), "max_restarts": 0, "max_task_retries": 0}
    )
    crew = Crew(lambda: remote.remote(create, function), arguments.seconds("start_timeout", start_timeout))

    def plan(asked: Mapping[str, Any]) -> Plan:
        with create() as client:
            return client.plan(**asked)

    return Transformed(
        crew,
        _limits(actors),
        plan,
        {**form, "dataset": dataset, "shard": rank},
        ahead=mistakes.whole("ahead", ahead, minimum=1),
        ahead_bytes=mistakes.whole("ahead_bytes", ahead_bytes, minimum=0),
    )


def _client(access: Access) -> Client:
    return Client(access.settings())


def _rank(shard: Any) -> tuple[int, int]:
    if shard is None:
        world = os.environ.get("WORLD_SIZE", "1")
        if world not in ("", "1"):
            raise errors.Invalid(
                f"WORLD_SIZE is {world}, and no shard is set: each rank would read all rows",
                remedy="pass shard=(rank, world)",
            )
        return 0, 1
    index, of = _pair("shard", shard)
    if not 0 <= index < of:
        raise errors.Invalid(f"shard: there is no shard {index} of {of}", remedy=f"use 0 to {of - 1}")
    return index, of


def _limits(actors: Any) -> tuple[int, int]:
    least, most = _pair("actors", actors)
    if not 1 <= least <= most:
        raise errors.Invalid(
            f"actors: {least} and {most} are no limits",
            remedy="write actors=(1, 8): at least one, and at most 8",
        )
    return least, most


def _pair(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise errors.Invalid(f"{name}: {value!r} is not a pair of numbers", remedy=f"write {name}=(1, 8)")
    first, second = value
    return mistakes.whole(name, first), mistakes.whole(name, second)
