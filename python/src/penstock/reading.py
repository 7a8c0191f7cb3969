"""Reads the batches of one endpoint, over several connections if needed."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa

from penstock import errors, reports, traces
from penstock.ahead import Ahead
from penstock.assembly import Assembly
from penstock.bound import BoundQuery, PlannedQuery
from penstock.channel import Channel
from penstock.fields import Cursor
from penstock.following import Notice
from penstock.interruption import Interruption
from penstock.messages import CursorText, Messages, Way
from penstock.plan import Endpoint, Plan
from penstock.rest import Rest
from penstock.rests import rests
from penstock.rings import Block
from penstock.servers import Choice, is_retryable, may_differ
from penstock.traces import Traces

_log = logging.getLogger("penstock")

# The end of a part of the report.
_STOPPED = "the server was told to stop"
_WENT_HOME = "the first server for the stream has returned"

# A stream that will end within this many seconds stays where it is.
_LAST = 10.0


class Reading:
    """Reads the batches of one endpoint, and resumes automatically after failures that a retry may fix.

    After a lost connection, it requests the rest with the cursor of the last batch, from another address if there are
    several. The new stream must continue the old one, with the same plan and schema, the very next step, and finally
    the planned number of rows. Otherwise, an error such as `Corrupt` is raised.

    If a server is told to stop, it ends its streams between two batches. The rest is then requested in the same way, but
    at once.

    Attributes:
        rows: rows returned so far.
        batches: batches returned so far.
        resumed: the number of times the stream was resumed after a failure.
        moved: the number of times the stream moved because its server was told to stop, or its first server has returned.
        way: how the last batch came; None before the first one.
        why: why the last batch did not come as a block; "" if it did, or if no blocks were requested.
        traces: the traces of its steps; None if the program traces nothing.
    """

    def __init__(self, bound: BoundQuery, plan: Plan, endpoint: Endpoint, shard: int | None = None) -> None:
        """Prepares to read an endpoint of a plan. Nothing is opened before the first batch.

        Args:
            bound: the query, and the servers to send it to.
            plan: the plan of the query.
            endpoint: one of the plan's endpoints.
            shard: the index of the shard to read, if there are several; None if the query selects one.
        """
        self._bound = bound
        self._plan = plan
        self._endpoint = endpoint
        # Streams of parts have steps of the same numbers, so their traces are the server's own.
        self.traces = Traces.opened_now(plan.id) if endpoint.splits is None else None
        self._assembly = Assembly(bound.servers.settings)
        headers = () if self.traces is None else ((traces.HEADER, self.traces.header),)
        told = _weakly(self._open_ahead)
        self._rest = Rest(bound, plan, endpoint, shard, assembly=self._assembly, headers=headers, told=told)
        self._choice = Choice(bound.servers, bound.key_of(endpoint, plan, shard))
        self._channel: Channel | None = None  # the last one
        self._ticket: bytes | None = self._endpoint.ticket  # None if the rest must be planned again
        self._replanned = False
        self._messages: Messages | None = None
        self._began: float | None = None  # by the monotonic clock: when the first batch came
        self._closed = threading.Event()
        self._ahead = Ahead(bound, self._rest, self._choice.key, self._closed)
        self._interruption = Interruption(bound.name, bound.servers.settings.reconnect, self._closed)
        self._parts: list[dict[str, Any]] = []
        self._text: CursorText | None = None  # the cursor of the last batch
        self._cursor: Cursor | None = None  # the same, decoded for the program, which may change it
        self._step: int | None = None  # that of this cursor
        self._ended = False
        self.way: Way | None = None
        self.why = ""
        self.rows = 0
        self.batches = 0
        self.resumed = 0
        self.moved = 0

    @classmethod
    def all_of(cls, bound: BoundQuery, found: PlannedQuery) -> list[Self]:
        """Creates a Reading for each endpoint of a planned query."""
        several = len(found.endpoints) > 1 and found.endpoints[0].splits is None
        return [
            cls(bound, found.plan, endpoint, number if several else None)
            for number, endpoint in enumerate(found.endpoints)
        ]

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint as planned."""
        return self._endpoint

    @property
    def cursor(self) -> Cursor | None:
        """The cursor after the last batch; None before the first one. The dictionary belongs to the caller."""
        report = self.report
        return self._cursor if report is None else report["cursor"]

    @property
    def _position(self) -> Cursor | None:
        """The cursor after the last batch, in a dictionary of its own."""
        return None if self._text is None else self._text.decoded()

    @property
    def report(self) -> dict[str, Any] | None:
        """The server's report; None before the end.

        If several connections were used, rows and batches are totals, `staging` is from the last connection, `partial`
        is True, and `parts` has one entry per connection. The entry of a broken connection has its rows, its batches
        and why it ended. The last entry is the server's report of the last connection, which counts from that
        connection's first row.
        """
        last = None if self._messages is None else self._messages.report
        if not self._ended or not self._parts:
            return None if last is None else reports.unbroken(last)
        # The number of rows in the requests of a broken connection is unknown.
        whole = {self._bound.unit: self.rows, "batches": self.batches}
        if last is None:  # The connection broke after the last row.
            last = reports.unreported(self._position or {}, self._plan.pin.get("staging", {}))
            return reports.resumed(whole, last, self._parts)
        return reports.resumed(whole, last, [*self._parts, last])

    def accept_blocks(self, plan: bytes) -> None:
        """Accepts blocks of a tensor plan instead of batches, where the server or a receiver can assemble them on this host."""
        self._assembly.accept_blocks(plan)

    def next(self) -> pa.RecordBatch | Block | None:
        """Returns the next batch, or its block; None after the report and the end."""
        while True:
            try:
                return self._next()
            except errors.Error as e:
                if self._messages is not None:  # otherwise a plan failed, whose call has named its server
                    self._bound.servers.name(e, self._messages.channel)
                if not self._prepare_retry(e):
                    raise

    def peek(self, rows: int) -> list[pa.RecordBatch]:
        """Reads at most this many of the remaining rows with a separate query, without changing the position.

        Raises:
            Invalid: the endpoint is a split, and no query can select its first rows.
        """
        if self._endpoint.splits is not None:
            raise errors.Invalid("the first rows of a split cannot be read alone", remedy="read a stream")
        if self._ended:
            return []
        rest = self._rest.query(self._position, self.rows)
        left = rows if rest.limit is None else min(rows, rest.limit)
        if left == 0:
            return []
        batches: list[pa.RecordBatch] = []
        bound = rest.limited(left)
        for reading in Reading.all_of(bound, bound.servers.retried(bound.plan, self._closed)):
            with contextlib.closing(reading):
                while left > 0 and (batch := reading.next()) is not None:
                    assert not isinstance(batch, Block)  # which it does not accept
                    batches.append(batch.slice(0, left))
                    left -= batches[-1].num_rows
        return batches

    def close(self) -> None:
        """Closes the stream on both sides. Safe to call from any thread."""
        self._closed.set()
        messages = self._messages
        if messages is not None:
            messages.close()
        self._ahead.close()

    def _next(self) -> pa.RecordBatch | Block | None:
        if self._ended:
            return None
        while True:
            if self._messages is None and not self._open():
                self._check_complete()
                return None
            began = time.time_ns()
            batch = self._at_home()
            messages = self._messages
            assert messages is not None
            if batch is None:
                batch = messages.next()
            if not messages.moved:
                break
            self._move(messages)
        self.resumed += self._interruption.end(self.rows)
        if batch is None:
            self._ahead.stay()
            self._check_complete()
            return None
        step: int = messages.position["step"]
        self._rest.check_next(self._step, step)
        self._rest.check_not_more(self.rows + batch.num_rows, self.batches + 1)
        self._text, self._cursor, self._step = messages.cursor, messages.position, step
        self._began = self._began or time.monotonic()
        self.way = messages.way
        self.why = "" if isinstance(batch, Block) else messages.why or self._assembly.why
        self.rows += batch.num_rows
        self.batches += 1
        self._replanned = False
        self._choice.succeeded()
        if self.traces is not None:
            self.traces.record("penstock.client.wait", messages.position, began, time.time_ns())
        self._look_home(messages)
        return batch

    def _open(self) -> bool:
        """Opens a stream for the remaining rows. Returns False if nothing remains, not even the report."""
        if self._ticket is not None:
            # The server of the plan may be another one. If this one refuses the ticket, the rest is planned.
            channel = self._choice.next()
            messages = self._rest.prepared(self._position, channel, self._ticket, self._plan)
        else:
            if self._bound.limit is not None and self.rows >= self._bound.limit:
                return False
            planned = self._rest.planned(
                self._position, self.rows, lambda bound, check: bound.plan(self._choice, check)
            )
            if planned is None:
                return False
            messages = planned
        self._messages, self._channel = messages, messages.channel
        self._bound.servers.use(messages.channel)
        self._assembly.opened()
        if self._closed.is_set():  # closed by another thread
            messages.close()
        return True

    def _open_ahead(self, messages: Messages, notice: Notice) -> None:
        """Opens the rest of a stream that will move, in another thread, while its last batches are on their way."""
        cursor = notice.get("cursor")
        # With a limit, the number of rows before the cursor would be needed.
        if messages is not self._messages or self._bound.limit is not None:
            return
        try:
            cursor = self._rest.origin(self._position).checked(cursor)
        except errors.Corrupt as e:
            _log.debug("%s does not say where a stream moves: %s", messages.channel.address, e)
            return
        self._ahead.succeed(messages.channel, cursor, self.rows)
        if messages is not self._messages:  # the reader did not wait
            self._ahead.drop_successor()

    def _look_home(self, messages: Messages) -> None:
        """Begins to open the rest at the first server for the stream, if it is time."""
        home = self._ahead.home(messages.channel)
        if home is None or messages.ending or self._is_nearly_done():
            return
        assert self._text is not None
        self._ahead.go_home(home, self._text.decoded(), self.rows)

    def _is_nearly_done(self) -> bool:
        """Reports whether the stream will probably end within seconds."""
        rows = self._endpoint.rows
        if rows is None or self._began is None:
            return False
        pace = self.rows / max(time.monotonic() - self._began, 1e-3)
        return rows - self.rows < pace * _LAST

    def _at_home(self) -> pa.RecordBatch | Block | None:
        """Returns the next batch from the first server, once it has it, and leaves the other one. Otherwise None."""
        found = None if self._step is None else self._ahead.arrived(self._step + self._bound.step_stride)
        if found is None:
            return None
        before = self._messages
        assert before is not None
        self._messages, batch = found
        self._channel = self._messages.channel
        self._bound.servers.use(self._channel)
        self._keep_part(before, _WENT_HOME)
        before.close()
        self.moved += 1
        _log.debug("the stream of %s is at its first server again, at row %d", self._bound.name, self.rows)
        return batch

    def _move(self, messages: Messages) -> None:
        """Prepares to read the rest from another server.

        Raises:
            Unavailable: all servers move the stream before its next batch. A retry waits.
        """
        first = messages.batches > 0 or not self._interruption.is_move
        if first:
            self._interruption.moves()
        rests.failed(messages.channel.address)
        others = self._choice.failed(messages.channel)
        if not (first or others):
            raise errors.Unavailable(f"{messages.channel.address} is shutting down")
        self._ahead.stay()
        self._messages, self._ticket = None, None
        self._keep_part(messages, _STOPPED)
        self.moved += 1
        self._messages = self._ahead.successor(self._position)
        if self._messages is not None:
            self._channel = self._messages.channel
        _log.debug(
            "the stream of %s moves from %s, at row %d", self._bound.name, messages.channel.address, self.rows
        )

    def _keep_part(self, messages: Messages, why: str) -> None:
        """Keeps the counts of a connection that has ended before the stream."""
        if messages.batches:
            assert messages.cursor is not None
            at = messages.cursor.decoded()
            part = {self._bound.unit: messages.rows, "batches": messages.batches, "cursor": at}
            self._parts.append({**part, "ended": why})
            self._ticket = None

    def _prepare_retry(self, failure: errors.Error) -> bool:
        """Prepares a retry if it may help: waits, and switches to the next address. Reports whether to retry."""
        messages, self._messages = self._messages, None
        self._ahead.drop_successor()
        self._ahead.stay()
        channel = self._channel if messages is None else messages.channel
        moves = messages is not None and messages.ending and isinstance(failure, errors.Unavailable)
        if messages is not None:
            self._keep_part(messages, _STOPPED if moves else str(failure))
            messages.close()
        if channel is not None and isinstance(failure, errors.Unavailable) and not failure.remedy:
            failure.remedy = f"check that `penstock serve` listens at {channel.address}, and resume with the stream's cursor"
            self._bound.servers.settings.explain_end(failure)
        if self._closed.is_set():
            return False
        if messages is not None and messages.receives and self._assembly.avoid_receiver(messages, failure):
            _log.info("reading the stream of %s again, at row %d: %s", self._bound.name, self.rows, failure)
            return True
        if not self._bound.servers.settings.reconnect:
            return False
        refused = may_differ(failure) and messages is not None and not messages.begun
        if refused and not self._replanned:
            # The ticket has expired or was signed with another server's keys, or the server has another configuration.
            # The server of the new plan accepts its ticket.
            self._ticket, self._replanned = None, True
            _log.info("planning the stream of %s again: %s", self._bound.name, failure)
            return True
        if not is_retryable(failure):
            return False
        if messages is None:  # all servers have failed to plan the rest
            return self._interruption.wait(failure, self.rows)
        messages.note_failure(failure)
        others = self._choice.failed(messages.channel)
        if moves:
            self.moved += 1
            self._interruption.moves()
        if others and (moves or not messages.begun):
            # Like every call, one that opens a stream tries all addresses.
            _log.debug(
                "the stream of %s moves on from %s: %s", self._bound.name, messages.channel.address, failure
            )
            return True
        return self._interruption.wait(failure, self.rows)

    def _check_complete(self) -> None:
        planned = self._endpoint.rows
        if planned is not None and planned != self.rows and self._bound.unit == "rows":
            raise errors.Corrupt(
                f"the server planned {planned} rows, but {self.rows} arrived",
                remedy="read again from the cursor of the last batch",
            )
        self._ended = True


def _weakly(method: Callable[[Messages, Notice], None]) -> Callable[[Messages, Notice], None]:
    """Returns a function that calls a method of an object which it does not keep alive: a stream that is dropped closes."""
    known = weakref.WeakMethod(method)

    def call(messages: Messages, notice: Notice) -> None:
        found = known()
        if found is not None:
            found(messages, notice)

    return call
