"""The splits of a query as tasks of an engine, which may run on any machine of a cluster and be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock import mistakes, query
from penstock.access import Access, Files
from penstock.bound import BoundQuery
from penstock.fields import RunQuery
from penstock.plan import Endpoint, Plan
from penstock.servers import Servers
from penstock.splits import Split

# Query fields that engines' functions set themselves.
_ITS_OWN = ("cursor", "endpoints", "every", "lanes", "limit", "shard", "tail", "wire")


class Query(RunQuery, Files, total=False):
    """The fields of a query whose splits are tasks, and paths of credentials.

    Attributes:
        epoch: the epoch of a shuffled order.
    """

    epoch: int | None


@dataclass(frozen=True)
class Part:
    """A split of a plan, and its number. It can be pickled and contains no secret."""

    plan: Plan
    endpoint: Endpoint
    number: int

    def of(self, servers: Servers, form: Mapping[str, Any]) -> Split:
        """Returns the split, to be read from these servers.

        Args:
            servers: the servers, as this process reaches them.
            form: the query of the plan, pinned to its snapshots.
        """
        return Split(BoundQuery(servers, form), self.plan, self.endpoint, self.number)


def separated(function: str, fields: Query) -> tuple[dict[str, Any], Files]:
    """Separates the fields of a query from the files with credentials.

    Args:
        function: the name of the function that the fields were passed to, for messages.
        fields: the fields and files.

    Raises:
        Invalid: a field is set that the function sets itself, or that does not exist.
    """
    given: dict[str, Any] = dict(fields)
    files: Any = {name: given.pop(name) for name in Files.__annotations__ if name in given}
    for name in _ITS_OWN:
        if given.get(name) is not None:
            raise query.invalid(name, f"is set by {function} itself; leave it out")
    mistakes.refuse(given)
    return given, files


def planned(access: Access, form: Mapping[str, Any]) -> tuple[Plan, list[Part]]:
    """Plans a query with `endpoints: splits`, and returns the parts that have rows."""
    servers = Servers(access.settings())
    try:
        found = servers.retried(BoundQuery(servers, form).plan)
    finally:
        servers.close()
    endpoints = [endpoint for endpoint in found.endpoints if endpoint.splits]
    return found.plan, [Part(found.plan, one, number) for number, one in enumerate(endpoints)]
