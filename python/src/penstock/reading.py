"""The batches of one endpoint, over as many connections as it takes."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any, Self

import pyarrow as pa

from penstock import errors
from penstock.asked import Asked, Found
from penstock.backoff import Backoff
from penstock.channel import Channel
from penstock.fields import Cursor
from penstock.messages import Messages
from penstock.plan import Endpoint, Plan
from penstock.servers import another_try_helps

_log = logging.getLogger("penstock")


class Reading:
    """Gives the batches of one endpoint, and goes on by itself where another try may help.

    After a lost connection the rest is asked for with the cursor of the batch last given, of the next
    address if there are several. What then comes must be what would have come: the same plan and
    schema, the very next step, and in the end as many rows as were planned; else it is `Corrupt`.

    Attributes:
        rows: of the batches given so far.
        batches: given so far.
        resumed: how many times the stream was taken up again.
    """

    def __init__(
        self, asked: Asked, plan: Plan, endpoint: Endpoint, channel: Channel, shard: int | None = None
    ) -> None:
        """Prepares to read an endpoint of a plan. Nothing is opened before the first batch.

        Args:
            asked: the query.
            plan: what the server made of it.
            endpoint: one of the plan's.
            channel: the server to hand the ticket in at.
            shard: which of several that the query asks for; None if it asks for one.
        """
        self._asked = asked
        self._plan = plan
        self._endpoint = endpoint
        self._shard = shard
        self._channel = channel
        self._ticket: bytes | None = self._endpoint.ticket  # None: it is out of date
        self._planned_for_nothing = False
        self._messages: Messages | None = None
        self._backoff = Backoff(asked.servers.settings.reconnect)
        self._closed = threading.Event()
        self._parts: list[dict[str, Any]] = []
        self._cursor: bytes | None = None
        self._ended = False
        self.rows = 0
        self.batches = 0
        self.resumed = 0

    @classmethod
    def all_of(cls, asked: Asked, found: Found) -> list[Self]:
        """Those of all endpoints that were found."""
        several = len(found.endpoints) > 1 and found.endpoints[0].splits is None
        return [
            cls(asked, found.plan, endpoint, found.channel, number if several else None)
            for number, endpoint in enumerate(found.endpoints)
        ]

    @property
    def endpoint(self) -> Endpoint:
        """What the server said of it when it was planned."""
        return self._endpoint

    @property
    def cursor(self) -> Cursor | None:
        """Where the reading stands; None before the first batch."""
        report = self.report
        if report is not None:
            end: Cursor = report["cursor"]
            return end
        return None if self._cursor is None else json.loads(self._cursor)

    @property
    def report(self) -> dict[str, Any] | None:
        """The server's; None before the end.

        If it took several connections, rows and batches are those that were given here, and `parts`
        has for each connection what it gave and why it broke, and at last the server's own report,
        whose counts begin at the cursor before it.
        """
        last = None if self._messages is None else self._messages.report
        if not self._ended or not self._parts:
            return last
        # Nobody knows how many rows the requests of a connection that broke had.
        whole: dict[str, Any] = {self._asked.counted: self.rows, "batches": self.batches}
        if last is None:  # It broke behind the last row.
            return {**whole, "cursor": json.loads(self._cursor or b"{}"), "parts": list(self._parts)}
        once: dict[str, Any] = {name: last[name] for name in ("cursor", "leftover", "sample") if name in last}
        return {**whole, **once, "parts": [*self._parts, last]}

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None after the report and the end."""
        while True:
            try:
                return self._next()
            except errors.Error as e:
                if not self._goes_on_after(e):
                    raise

    def close(self) -> None:
        """Ends the reading on both sides. It may be called by any thread."""
        self._closed.set()
        messages = self._messages
        if messages is not None:
            messages.close()

    def _next(self) -> pa.RecordBatch | None:
        if self._ended:
            return None
        if self._messages is None and not self._open():
            self._check_whole()
            return None
        messages = self._messages
        assert messages is not None
        batch = messages.next()
        if self._backoff.tries:
            self.resumed += 1
            self._backoff.went_well()
        if batch is None:
            self._check_whole()
            return None
        if self._parts and messages.batches == 1:
            self._check_seam(messages.cursor)
        self._cursor = messages.cursor
        self.rows += batch.num_rows
        self.batches += 1
        self._planned_for_nothing = False
        return batch

    def _open(self) -> bool:
        """Asks for what is left. Says whether there is anything, the report included."""
        channel, ticket = self._channel, self._ticket
        if ticket is None:
            if self._asked.limit is not None and self.rows >= self._asked.limit:
                return False
            found = self._planned_again()
            left = self._left_of(found)
            if left is None:
                return False
            channel, ticket = found.channel, left.ticket
        wire = self._asked.form.get("wire", "plain")
        self._messages = Messages(channel, ticket, self._plan.schema, wire=wire)
        if self._closed.is_set():  # meanwhile, by another thread
            self._messages.close()
        return True

    def _planned_again(self) -> Found:
        cursor = self.cursor
        if cursor is None:
            found = self._asked.again(self._plan, self._shard).found()
        else:
            found = self._asked.after(self._plan, cursor, self.rows).found()
        if found.plan.id != self._plan.id:
            raise errors.Expired(
                f"the stream of {self._asked.name} cannot go on: its plan was {self._plan.id}, and is "
                f"{found.plan.id} now; the dataset's configuration has changed",
                remedy="read it anew",
            )
        if not found.plan.schema.equals(self._plan.schema):
            raise errors.Corrupt(
                f"the stream of {self._asked.name} cannot go on: its schema is another than it was",
                remedy="read it anew",
            )
        return found

    def _left_of(self, found: Found) -> Endpoint | None:
        """The endpoint that gives what is left; None if nothing is."""
        ours = self._endpoint.splits
        if ours is None:
            if len(found.endpoints) != 1:
                raise errors.Internal(
                    f"the server gave {len(found.endpoints)} endpoints for the rest of one shard"
                )
            return found.endpoints[0]
        if self._cursor is None:
            same = [endpoint for endpoint in found.endpoints if endpoint.splits == ours]
            if len(same) != 1:
                raise errors.Internal("the server does not list the splits that it listed before")
            return same[0]
        first = found.endpoints[0]
        theirs = first.splits or ()
        if theirs and ours[-len(theirs) :] == theirs:
            return first
        if set(theirs) & set(ours):
            raise errors.Internal("the server lists other splits behind a cursor than before it")
        return None

    def _goes_on_after(self, failure: errors.Error) -> bool:
        """Makes ready for another try, if one may help: waits, and turns to the next address."""
        messages, self._messages = self._messages, None
        channel = self._channel if messages is None else messages.channel
        if messages is not None:
            if messages.batches:
                cursor = json.loads(messages.cursor or b"{}")
                part = {self._asked.counted: messages.rows, "batches": messages.batches, "cursor": cursor}
                self._parts.append({**part, "ended": str(failure)})
                self._ticket = None
            messages.close()
        if isinstance(failure, errors.Unavailable) and not failure.remedy:
            failure.remedy = f"see that `penstock serve` listens at {channel.location}, and read on with the stream's cursor"
        if self._closed.is_set() or not self._asked.servers.settings.reconnect:
            return False
        refused = isinstance(failure, errors.Expired) and messages is not None and not messages.begun
        if refused and not self._planned_for_nothing:
            # A ticket of another server's keys, or too old. What is planned now is of the server that
            # gives it.
            self._ticket, self._planned_for_nothing = None, True
            _log.info("the stream of %s is planned again: %s", self._asked.name, failure)
            return True
        if not another_try_helps(failure):
            return False
        wait = self._backoff.next(failure.retry_after)
        if wait is None:
            failure.add_note(
                f"Tried again {self._backoff.tries} times in {self._asked.servers.settings.reconnect:g} seconds."
            )
            return False
        self._asked.servers.leave(channel)
        self._channel = self._asked.servers.current
        _log.warning(
            "the stream of %s broke after %d rows, try %d follows in %.1f s, the last one in %.0f s: %s",
            self._asked.name,
            self.rows,
            self._backoff.tries,
            wait,
            self._backoff.left,
            failure,
        )
        return not self._closed.wait(wait)

    def _check_seam(self, cursor: bytes | None) -> None:
        """Whether the first batch of a further connection is the very next one."""
        before, after = json.loads(self._cursor or b"{}"), json.loads(cursor or b"{}")
        due = before.get("step", 0) + self._asked.steps_between
        if after.get("step") != due or after.get("plan") != before.get("plan"):
            raise errors.Corrupt(
                f"the stream of {self._asked.name} goes on with step {after.get('step')} of plan "
                f"{after.get('plan')}, and step {due} of {before.get('plan')} is due",
                remedy="read again from the cursor of the last batch",
            )

    def _check_whole(self) -> None:
        planned = self._endpoint.rows
        if planned is not None and planned != self.rows and self._asked.counted == "rows":
            raise errors.Corrupt(
                f"the server planned {planned} rows, {self.rows} arrived",
                remedy="read again from the cursor of the last batch",
            )
        self._ended = True
