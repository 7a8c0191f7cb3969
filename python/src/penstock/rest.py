"""Plans the rest of a stream, and checks that it continues the stream."""

from __future__ import annotations

import json
from collections.abc import Callable

from penstock import errors
from penstock.bound import BoundQuery, PlannedQuery
from penstock.fields import Cursor
from penstock.plan import Endpoint, Plan


class Rest:
    """What is left of the stream of one endpoint after a position."""

    def __init__(self, bound: BoundQuery, plan: Plan, endpoint: Endpoint, shard: int | None) -> None:
        """Takes what was planned for the whole stream.

        Args:
            bound: the query, and the servers to send it to.
            plan: the plan of the query.
            endpoint: one of the plan's endpoints.
            shard: the index of the shard to read, if there are several; None if the query selects one.
        """
        self._bound = bound
        self._plan = plan
        self._endpoint = endpoint
        self._shard = shard

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
    ) -> tuple[PlannedQuery, Endpoint] | None:
        """Returns the plan of the rest, and the endpoint that has it; None if nothing remains.

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
        return None if endpoint is None else (found, endpoint)

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

    def check_continuation(self, last: bytes | None, first: bytes | None) -> None:
        """Checks that the first batch of a new connection directly follows the last batch of the one before.

        Args:
            last: the cursor of the last batch; None if there was none.
            first: the cursor of the first batch.

        Raises:
            Corrupt: it does not.
        """
        before, after = json.loads(last or b"{}"), json.loads(first or b"{}")
        due = before.get("step", 0) + self._bound.step_stride
        if after.get("step") != due or after.get("plan") != before.get("plan"):
            raise errors.Corrupt(
                f"the stream of {self._bound.name} resumed at step {after.get('step')} of plan "
                f"{after.get('plan')}, instead of step {due} of plan {before.get('plan')}",
                remedy="read again from the cursor of the last batch",
            )
