"""Batches that a function transforms in Ray's actors, in the order of the stream."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

import pyarrow as pa
import ray

from penstock import arguments, errors, mistakes, query
from penstock.access import Access, Files
from penstock.client import Client
from penstock.fields import RunQuery
from penstock.plan import Plan
from penstock.query import Dataset
from penstock.ray.transforms_actor import Transformer
from penstock.ray.transforms_crew import Crew
from penstock.ray.transforms_epochs import Transformed
from penstock.signatures import lists

R = TypeVar("R")

# Query fields that depend on the position in the stream, and those that need all steps in one stream.
_ITS_OWN = ("cursor", "endpoints", "epoch", "every", "limit")


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
    step_timeout: float = 600.0,
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
        step_timeout: how many seconds an actor may take for a step, with the time until the server has sent its batch.
            A step that takes longer ends the loop with `Unavailable`, which names the actor's process and node.
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
        step_timeout=arguments.seconds("step_timeout", step_timeout),
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
