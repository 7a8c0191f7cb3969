"""Plans the rest of a stream, prepares to read it, and checks that it continues the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock import errors
from penstock.assembly import Assembly
from penstock.bound import BoundQuery, PlannedQuery
from penstock.channel import Channel
from penstock.fields import Cursor
from penstock.following import Notice
from penstock.messages import AGAIN, Messages, Origin
from penstock.plan import Endpoint, Plan


class Rest:
    """What is left of the stream of one endpoint after a position."""

    def __init__(
        self,
        bound: BoundQuery,
        plan: Plan,
        endpoint: Endpoint,
        shard: int | None,
        *,
        assembly: Assembly,
        headers: Iterable[tuple[str, str]],
        told: Callable[[Messages, Notice], None],
    ) -> None:
        """Takes what was planned for the whole stream.

        Args:
            bound: the query, and the servers to send it to.
            plan: the plan of the query.
            endpoint: one of the plan's endpoints.
            shard: the index of the shard to read, if there are several; None if the query selects one.
            assembly: where the tensors of the stream are assembled.
            headers: sent with each ticket.
            told: called in another thread when a server knows where it ends the stream because it stops.
        """
        self._bound = bound
        self._plan = plan
        self._endpoint = endpoint
        self._shard = shard
        self._assembly = assembly
        self._headers = tuple(headers)
        self._told = told

    def query(self, cursor: Cursor | None, rows: int) -> BoundQuery:
        """Returns the query for the rest.

        Args:
            cursor: the position before the rest; None for the start of the stream.
            rows: the number of rows before the rest.
        """
        if cursor is None:
            return self._bound.restarted(self._plan, self._shard)
        return self._bound.rest(self._plan, cursor, rows)

    def planned(
        self,
        cursor: Cursor | None,
        rows: int,
        plan: Callable[[BoundQuery, Callable[[PlannedQuery], None]], PlannedQuery],
    ) -> Messages | None:
        """Plans the rest, and prepares to read it; None if nothing remains, not even the report.

        Args:
            cursor: the position before the rest; None for the start of the stream.
            rows: the number of rows before the rest.
            plan: plans a query. The second argument checks the plan.

        Raises:
            Corrupt: the schema has changed.
            Internal: the server does not follow the protocol.
        """
        bound = self.query(cursor, rows)
        found = plan(bound, self._check_same)
        if not found.plan.schema.equals(self._plan.schema):
            # The dataset may have other columns now. The stream keeps its original columns.
            found = plan(bound.with_columns_of(self._plan.schema), self._check_same)
        if not found.plan.schema.equals(self._plan.schema):
            raise errors.Corrupt(
                f"the stream of {self._bound.name} cannot resume: its schema has changed",
                remedy="read it from the start",
            )
        endpoint = self._endpoint_of(found, started=cursor is not None)
        return None if endpoint is None else self.prepared(cursor, found.channel, endpoint.ticket, found.plan)

    def prepared(self, cursor: Cursor | None, channel: Channel, ticket: bytes, plan: Plan) -> Messages:
        """Prepares to read the rest, without opening it.

        Args:
            cursor: the position before the rest; None for the start of the stream.
            channel: the connection to the server that accepts the ticket.
            ticket: the ticket.
            plan: the plan of the ticket.
        """
        return Messages(
            channel,
            ticket,
            self._plan.schema,
            self.origin(cursor),
            wire=self._bound.form.get("wire", "plain"),
            local_socket=plan.local_socket,
            tensor_plan=self._assembly.plan,
            receiver=self._assembly.receives,
            headers=self._headers,
            told=self._told,
        )

    def _check_same(self, found: PlannedQuery) -> None:
        """Checks that a plan of the rest is a part of the stream's plan.

        Raises:
            Expired: it is another plan, or has other expressions. A server with another configuration may have the plan.
        """
        if found.plan.id != self._plan.id:
            raise errors.Expired(
                f"the stream of {self._bound.name} cannot resume: its plan was {self._plan.id}, and is "
                f"{found.plan.id} now; the dataset's configuration has changed",
                remedy="read it from the start",
            )
        # A server of an older version has no digests.
        theirs = found.plan.computed
        changed = [name for name, ours in self._plan.computed.items() if theirs.get(name, ours) != ours]
        if changed:
            raise errors.Expired(
                f"the stream of {self._bound.name} cannot resume: the expression of column {changed[0]}, or a fitted list "
                "that it names, has changed since the stream began",
                remedy="read it from the start, or restore the expression and the list in the config file",
            )

    def _endpoint_of(self, found: PlannedQuery, *, started: bool) -> Endpoint | None:
        """Returns the endpoint for the remaining rows; None if there are none.

        Args:
            found: the plan of the remaining rows.
            started: whether rows come before them.
        """
        ours = self._endpoint.splits
        if ours is None:
            if len(found.endpoints) != 1:
                raise errors.Internal(
                    f"the server returned {len(found.endpoints)} endpoints for the rest of one shard"
                )
            return found.endpoints[0]
        if not started:
            same = [endpoint for endpoint in found.endpoints if endpoint.splits == ours]
            if len(same) != 1:
                raise errors.Internal("the server does not list the splits that it listed before")
            return same[0]
        first = found.endpoints[0]
        theirs = first.splits or ()
        if theirs and ours[-len(theirs) :] == theirs:
            return first
        if set(theirs) & set(ours):
            raise errors.Internal("the server's splits after the cursor differ from those of the plan")
        return None

    def check_next(self, before: int | None, after: int) -> None:
        """Checks that a batch directly follows the last one, of whatever connection.

        Args:
            before: the step of the last batch's cursor; None if there was no batch.
            after: the step of the batch's cursor.

        Raises:
            Corrupt: it does not.
        """
        due = None if before is None else before + self._bound.step_stride
        if due not in (None, after):
            raise errors.Corrupt(
                f"the stream of {self._bound.name} went on at step {after}, instead of step {due}",
                remedy=AGAIN,
            )

    def check_not_more(self, rows: int, batches: int) -> None:
        """Checks that not more has come than was planned: a server might send batches without end.

        Args:
            rows: the rows that have come, or the requests.
            batches: the batches that have come.

        Raises:
            Corrupt: more has come.
        """
        planned = self._endpoint.rows if self._bound.unit == "rows" else None
        for unit, most, came in (("rows", planned, rows), ("batches", self._endpoint.batches, batches)):
            if most is not None and came > most:
                raise errors.Corrupt(f"the server planned {most} {unit}, and sends more", remedy=AGAIN)

    def origin(self, before: Cursor | None) -> Origin:
        """Returns the plan and the shard of all further batches.

        Args:
            before: the cursor of the last batch; None if there was none.
        """
        if before is not None:
            return Origin(self._plan.id, before["shard"])
        given = self._bound.form.get("shard") or {}
        index = given.get("index") if self._shard is None else self._shard
        if index is None or self._endpoint.splits is not None:
            return Origin(self._plan.id, None)
        return Origin(self._plan.id, {"index": index, "of": self._plan.shards})
