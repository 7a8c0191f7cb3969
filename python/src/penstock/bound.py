"""A query and the servers to send it to."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, query
from penstock.addresses import Key, Portion
from penstock.channel import Channel
from penstock.fields import Cursor
from penstock.indexed import plain_schema
from penstock.plan import Endpoint, Plan
from penstock.servers import Choice, Servers


@dataclass(frozen=True)
class PlannedQuery:
    """A query with a server's plan for it.

    Attributes:
        plan: the server's plan.
        endpoints: the endpoints to read, in row order if `ordered` is set.
        ordered: whether the endpoints are consecutive parts of one stream.
        channel: the connection to the server that made the plan.
    """

    plan: Plan
    endpoints: tuple[Endpoint, ...]
    ordered: bool
    channel: Channel


@dataclass(frozen=True)
class BoundQuery:
    """A query in its wire form, and the servers to send it to.

    Attributes:
        servers: servers of the same datasets; any of them can answer.
        form: the query, as returned by `query.form`.
    """

    servers: Servers
    form: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The dataset's name, for messages."""
        return query.name(self.form["dataset"])

    @property
    def step_stride(self) -> int:
        """The number of steps between two batches, which is the number of DataLoader workers that share the shard."""
        every = self.form.get("every") or {}
        return int(every.get("of", 1))

    @property
    def unit(self) -> str:
        """The unit that one row of a batch represents: "rows" or "requests"."""
        return "requests" if self.form.get("wire") == "grouped" else "rows"

    @property
    def limit(self) -> int | None:
        """The number of rows after which the stream ends."""
        return self.form.get("limit")

    @property
    def key(self) -> str:
        """The key of the query's dataset, by which its plans are placed."""
        dataset = self.form["dataset"]
        return self.servers.settings.group or (
            dataset if isinstance(dataset, str) else json.dumps(dataset, sort_keys=True)
        )

    def key_of(self, endpoint: Endpoint, plan: Plan, shard: int | None) -> Key:
        """Returns the key by which an endpoint's stream is placed: its shard, or the staging files that its splits join.

        It has neither the epoch nor the columns, so that jobs that differ in these share reads and caches. If there are
        fewer groups of files than servers, each split is placed alone, so that all servers read.

        Args:
            endpoint: an endpoint of the plan.
            plan: the plan.
            shard: the index of the endpoint's shard; None if the query selects one.
        """
        if endpoint.files is not None and endpoint.files.of >= len(self.servers.addresses()):
            return Portion(f"{self.key} files", endpoint.files.index, endpoint.files.of)
        if endpoint.splits is not None:
            return f"{self.key} {' '.join(endpoint.splits[:1])}"
        given = self.form.get("shard") or {}
        return Portion(self.key, given.get("index", 0) if shard is None else shard, plan.shards)

    def plan(
        self, choice: Choice | None = None, accept: Callable[[PlannedQuery], None] = lambda _: None
    ) -> PlannedQuery:
        """Plans the query.

        Args:
            choice: the servers to ask; by default, those of the dataset.
            accept: checks the plan. If it raises `Expired`, one more server is tried.

        Raises:
            Internal: the server does not follow the protocol.
        """
        return self.servers.ask(
            lambda channel: self.planned_by(channel, accept), choice or Choice(self.servers, self.key)
        )

    def planned_by(
        self, channel: Channel, accept: Callable[[PlannedQuery], None], *, within: float | None = None
    ) -> PlannedQuery:
        """Returns the plan of one server.

        Args:
            channel: the connection to the server.
            accept: checks the plan.
            within: the seconds that the call may take; None for the client's `timeout`, or no limit if rows are counted.
        """
        descriptor = flight.FlightDescriptor.for_command(query.text(self.form))
        counts = self.form.get("tail") == "drop" or self.form.get("count") == "exact"
        found = channel.call(
            lambda client, options: client.get_flight_info(descriptor, options),
            unlimited=counts,
            within=within,
        )
        with channel.compared():
            plan, endpoints = Plan.of(found), tuple(Endpoint.of(listed) for listed in found.endpoints)
        if not endpoints:
            raise errors.Internal("the server planned the query without an endpoint to read from")
        planned = PlannedQuery(plan, endpoints, found.ordered, channel)
        if self.form.get("tail") == "drop":
            _warn_without_steps(query.name(self.form["dataset"]), plan)
        accept(planned)
        return planned

    def action(self, name: str, **more: str) -> bytes:
        """Calls a server action with the query, and returns its only result.

        Args:
            name: the action.
            more: fields of the action's body beside the query; without them, the query is the body.
        """
        fields = {"query": self.form, **more} if more else self.form
        return self.servers.action(name, fields, key=self.key)

    def pinned(self, plan: Plan) -> BoundQuery:
        """Returns the same query, pinned to the snapshots of its plan."""
        # A cursor already contains the snapshots.
        return (
            self
            if self.form.get("cursor")
            else BoundQuery(self.servers, {**self.form, "snapshots": plan.pin})
        )

    def restarted(self, plan: Plan, shard: int | None) -> BoundQuery:
        """Returns the same query, for a stream that has not returned any batch.

        Args:
            plan: the stream's plan. The query reads its snapshots and ignores later commits.
            shard: the index of the stream's shard; None if the query specifies the shard.
        """
        return BoundQuery(self.servers, self._with_sizes(dict(self.pinned(plan).form), plan, shard))

    def rest(self, plan: Plan, cursor: Cursor, given: int) -> BoundQuery:
        """Returns the query for the rows after a cursor.

        Args:
            plan: the stream's plan.
            cursor: the stream's position.
            given: the number of rows already returned.
        """
        form = {**self.form, "cursor": cursor, "shard": cursor["shard"]}
        if self.limit is not None:
            form["limit"] = self.limit - given
        if self.step_stride > 1:
            # A worker's cursor follows one of its own steps; the other workers' steps come next.
            form["every"] = {"step": self.step_stride - 1, "of": self.step_stride}
        return BoundQuery(self.servers, self._with_sizes(form, plan, None))

    def limited(self, rows: int) -> BoundQuery:
        """Returns the query with a limit of this many rows. Shards have no limit: their reader must count rows."""
        shard = self.form.get("shard") or {}
        return self if int(shard.get("of", 1)) > 1 else BoundQuery(self.servers, {**self.form, "limit": rows})

    def with_columns_of(self, schema: pa.Schema) -> BoundQuery:
        """Returns the same query with the given columns, if it names none.

        Args:
            schema: the schema of its batches, in any wire form.
        """
        if "columns" in self.form:
            return self
        packed = self.form.get("dense") or {}
        columns = [name for name in plain_schema(schema).names if name not in packed]
        return BoundQuery(self.servers, {**self.form, "columns": columns})

    def _with_sizes(self, form: dict[str, Any], plan: Plan, shard: int | None) -> dict[str, Any]:
        """Adds the batch size and shard that the server chose in its first plan, so that a new plan keeps them."""
        if not any(name in form for name in ("batch_rows", "global_batch_rows", "batch_requests")):
            # The query set no batch size, so batches are counted in rows.
            form["batch_rows"] = plan.batch_rows
        if shard is not None:
            form["shard"] = {"index": shard, "of": plan.shards}
        return form


def _warn_without_steps(name: str, plan: Plan) -> None:
    """Warns if a plan drops all of its rows, since no step is full: a training loop would end at once, without an error."""
    if plan.steps != 0 or not plan.rows:
        return
    unit, size, setting = (
        ("rows", plan.batch_rows, "batch_rows or global_batch_rows")
        if plan.batch_requests is None
        else ("requests", plan.batch_requests, "batch_requests")
    )
    warnings.warn(
        f"the epoch of {name!r} has no step: tail='drop' drops its {plan.rows} rows, which do not fill a batch of {size} {unit} on each of "
        f"{plan.shards} ranks, with as many {unit} of each of {plan.lanes} lanes. Set a smaller {setting}, or fewer lanes, "
        "or tail='keep' to read all rows",
        stacklevel=2,
    )
