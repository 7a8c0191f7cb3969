"""The splits of a query as tasks of an engine, which may run on any machine of a cluster and be repeated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock import errors, mistakes, query
from penstock.access import Access, Files
from penstock.bound import BoundQuery, PlannedQuery
from penstock.fields import RunQuery
from penstock.plan import Endpoint, Plan
from penstock.servers import Servers
from penstock.splits import Split

# Query fields that engines' functions set themselves.
_ITS_OWN = ("cursor", "endpoints", "every", "lanes", "limit", "shard", "tail")


class Query(RunQuery, Files, total=False):
    """The fields of a query whose splits are tasks, and paths of credentials.

    Attributes:
        epoch: the epoch of a shuffled order.
    """

    epoch: int | None


@dataclass(frozen=True)
class Part:
    """Consecutive splits of a plan, which a task reads in order. It can be pickled and contains no secret.

    Attributes:
        plan: the plan.
        endpoints: the plan's endpoints with the splits.
        first: the number of the first one in the plan.
    """

    plan: Plan
    endpoints: tuple[Endpoint, ...]
    first: int

    def splits(self, servers: Servers, form: Mapping[str, Any]) -> list[Split]:
        """Returns the splits, to be read from these servers.

        Args:
            servers: the servers, as this process reaches them.
            form: the query of the plan, pinned to its snapshots.
        """
        bound = BoundQuery(servers, form)
        return [Split(bound, self.plan, one, number) for number, one in enumerate(self.endpoints, self.first)]

    def batches(self, servers: Servers, form: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yields the batches of all splits, one split after the other. A note of a failure names the split.

        Args:
            servers: the servers, as this process reaches them.
            form: the query of the plan, pinned to its snapshots.
        """
        for split in self.splits(servers, form):
            with errors.naming(repr(split)), split.read() as stream:
                yield from stream


def separated(
    function: str, fields: Query, wires: tuple[str, ...] = ("plain", "auto")
) -> tuple[dict[str, Any], Files]:
    """Separates the fields of a query from the files with credentials.

    Args:
        function: the name of the function that the fields were passed to, for messages.
        fields: the fields and files.
        wires: the forms in which batches may come, all of which become plain columns.

    Raises:
        Invalid: a field is set that the function sets itself, or that does not exist.
    """
    given: dict[str, Any] = dict(fields)
    files: Any = {name: given.pop(name) for name in Files.__annotations__ if name in given}
    for name in _ITS_OWN:
        if given.get(name) is not None:
            raise query.invalid(name, f"is set by {function} itself; leave it out")
    if given.get("wire") not in (None, *wires):
        raise query.invalid(
            "wire", f"must be {' or '.join(wires)} for {function}, which returns plain columns"
        )
    mistakes.refuse(given)
    return given, files


def planned(access: Access, form: Mapping[str, Any]) -> tuple[dict[str, Any], Plan, list[Endpoint]]:
    """Plans a query with `endpoints: splits`.

    Returns the query with its wire form, the plan, and the endpoints that have rows.
    """
    servers = Servers(access.settings())

    def ask(form: dict[str, Any]) -> tuple[dict[str, Any], PlannedQuery]:
        return form, BoundQuery(servers, form).plan()

    try:
        sent, found = servers.retried(lambda: query.in_smallest_form(form, ask))
    finally:
        servers.close()
    return sent, found.plan, with_rows(found)


def with_rows(found: PlannedQuery) -> list[Endpoint]:
    """Returns the endpoints of a plan with splits."""
    return [endpoint for endpoint in found.endpoints if endpoint.splits]


def dealt(plan: Plan, endpoints: Sequence[Endpoint], parallelism: int) -> list[Part]:
    """Returns a part for each group of `together`."""
    groups = together(endpoints, parallelism)
    firsts = itertools.accumulate(map(len, groups), initial=0)
    return [Part(plan, group, first) for group, first in zip(groups, firsts, strict=False)]


def together(endpoints: Sequence[Endpoint], parallelism: int) -> list[tuple[Endpoint, ...]]:
    """Divides endpoints into groups of consecutive ones that join the same staging files.

    A group has at most its share of the rows, of `parallelism` groups, or a single endpoint. If the rows of an endpoint are
    unknown, endpoints count as equally large.
    """
    sizes = weights(endpoints)
    most = sum(sizes) // max(1, parallelism)
    groups: list[list[Endpoint]] = []
    room = 0
    for one, size in zip(endpoints, sizes, strict=True):
        if groups and size <= room and one.files is not None and one.files == groups[-1][-1].files:
            groups[-1].append(one)
            room -= size
        else:
            groups.append([one])
            room = most - size
    return [tuple(group) for group in groups]


def weights(endpoints: Sequence[Endpoint]) -> list[int]:
    """Returns the rows of each endpoint, or 1 for each if those of some are unknown."""
    known = [one.rows for one in endpoints if one.rows is not None]
    return known if len(known) == len(endpoints) else [1] * len(endpoints)
