"""What a stream was asked for, and how the rest of it is asked for again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.flight as flight

from penstock import errors, query
from penstock.channel import Channel
from penstock.fields import Cursor
from penstock.plan import Endpoint, Plan
from penstock.servers import Servers


@dataclass(frozen=True)
class Found:
    """A query that was planned.

    Attributes:
        plan: the server's.
        endpoints: what there is to read, in the order of the rows where `ordered` says so.
        ordered: whether the endpoints are parts of one stream.
        channel: the server that planned.
    """

    plan: Plan
    endpoints: tuple[Endpoint, ...]
    ordered: bool
    channel: Channel


@dataclass(frozen=True)
class Asked:
    """A query as it is sent, and the servers to send it to.

    Attributes:
        servers: any of them can answer.
        form: the query, as `query.form` makes it.
    """

    servers: Servers
    form: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The dataset's, for people."""
        return query.name(self.form["dataset"])

    @property
    def steps_between(self) -> int:
        """How many steps a stream's next batch lies behind the one before: those of its workers."""
        every = self.form.get("every") or {}
        return int(every.get("of", 1))

    @property
    def counted(self) -> str:
        """What a batch of it has a row for: "rows", or "requests"."""
        return "requests" if self.form.get("wire") == "grouped" else "rows"

    @property
    def limit(self) -> int | None:
        """The number of rows after which a stream of it ends."""
        return self.form.get("limit")

    def found(self) -> Found:
        """Plans the query.

        Raises:
            Internal: the server does not follow the protocol.
        """
        descriptor = flight.FlightDescriptor.for_command(query.text(self.form))
        counts = self.form.get("tail") == "drop" or self.form.get("count") == "exact"
        found, channel = self.servers.call_from(
            lambda client, options: client.get_flight_info(descriptor, options), unlimited=counts
        )
        endpoints = tuple(Endpoint.of(listed) for listed in found.endpoints)
        if not endpoints:
            raise errors.Internal("the server planned the query without an endpoint to read from")
        return Found(Plan.of(found), endpoints, found.ordered, channel)

    def act(self, name: str) -> bytes:
        """Asks an action of the server about the query, and returns its one result."""
        action = flight.Action(name, query.text(self.form))
        results = self.servers.call(lambda client, options: list(client.do_action(action, options)))
        if len(results) != 1:
            raise errors.Internal(f"the server answered {name} with {len(results)} results, not with one")
        return bytes(results[0].body.to_pybytes())

    def pinned(self, plan: Plan) -> Asked:
        """The same query at the snapshots of its plan."""
        # With a cursor they are the cursor's.
        return self if self.form.get("cursor") else Asked(self.servers, {**self.form, "snapshots": plan.pin})

    def again(self, plan: Plan, shard: int | None) -> Asked:
        """The same query, of a stream that has given nothing yet.

        Args:
            plan: of the stream. Its snapshots are read, whatever was committed meanwhile.
            shard: which of several the stream reads; None if the query says it.
        """
        return Asked(self.servers, self._read_alike(dict(self.pinned(plan).form), plan, shard))

    def after(self, plan: Plan, cursor: Cursor, given: int) -> Asked:
        """The rest of the query.

        Args:
            plan: of the stream.
            cursor: where the stream stands.
            given: how many rows it gave.
        """
        form = {**self.form, "cursor": cursor, "shard": cursor["shard"]}
        if self.limit is not None:
            form["limit"] = self.limit - given
        if self.steps_between > 1:
            # A worker's cursor stands right behind a step of its own; the others' come first.
            form["every"] = {"step": self.steps_between - 1, "of": self.steps_between}
        return Asked(self.servers, self._read_alike(form, plan, None))

    def _read_alike(self, form: dict[str, Any], plan: Plan, shard: int | None) -> dict[str, Any]:
        """Says what the first answer decided, so that it cannot be decided otherwise."""
        if not any(name in form for name in ("batch_rows", "global_batch_rows", "batch_requests")):
            # It named none, so that batches are of rows.
            form["batch_rows"] = plan.batch_rows
        if shard is not None:
            form["shard"] = {"index": shard, "of": plan.shards}
        return form
