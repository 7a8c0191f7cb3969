"""The messages of one ticket: batches with a cursor after each, and a report at the end, or that the stream moves."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeGuard, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, receivers
from penstock.answers import parsed
from penstock.call import Call
from penstock.channel import Channel
from penstock.fields import Cursor
from penstock.following import Follower, Notice
from penstock.indexed import expand, plain_schema
from penstock.lease import Lease
from penstock.local import Session
from penstock.rests import rests
from penstock.rings import Block

AGAIN = "read again from the cursor of the last batch"
"""The remedy for a stream that is broken at some position."""

Received = TypeVar("Received", pa.RecordBatch, Block)

Way = Literal["ring", "receiver", "mapped", "network"]
"""How a batch came: as a block of the server or of a receiver, in mapped memory, or over the network."""


class CursorText(NamedTuple):
    """A cursor as a server has sent it.

    Attributes:
        text: the text.
        in_message: whether the text is a message that has the cursor as a field.
    """

    text: bytes
    in_message: bool = False

    def decoded(self) -> Cursor:
        """Returns the cursor in a dictionary of its own."""
        found = _object(self.text)
        return found["cursor"] if self.in_message else found


@dataclass(frozen=True)
class Origin:
    """The plan and the shard that all batches of a stream come from.

    Attributes:
        plan: the id of the plan.
        shard: the shard, in the form of a cursor; None if it is unknown before the first batch.
    """

    plan: str
    shard: Mapping[str, Any] | None

    def checked(self, cursor: Any) -> Cursor:
        """Returns a cursor that a server has sent.

        Raises:
            Corrupt: it is not a cursor of this plan and shard.
        """
        plan, shard, step = (
            map(cursor.get, ("plan", "shard", "step")) if isinstance(cursor, dict) else (None,) * 3
        )
        if type(step) is not int or not isinstance(shard, dict):
            raise errors.Corrupt("a batch came with a cursor that cannot be read", remedy=AGAIN)
        if plan != self.plan or self.shard not in (None, shard):
            raise errors.Corrupt(
                f"a batch came of shard {shard} of plan {plan}, instead of shard {self.shard} of plan {self.plan}",
                remedy=AGAIN,
            )
        return cursor


class Messages:
    """Reads the messages of one ticket, and checks them against the wire protocol.

    The schema comes first, then batches with one cursor each, then one message with the report, then the end. Instead of
    the report, a server that was told to stop says that the stream moves. Anything else raises `Corrupt`.

    Attributes:
        channel: the connection to the server that accepts the ticket.
        begun: whether the server accepted the ticket.
        receives: whether the stream comes through a receiver.
        receiver: the process of this receiver.
        way: how the last batch came.
        why: why the last batch did not come as a block; "" if it did, or if no blocks were requested.
        cursor: the cursor of the last batch, as sent; None before the first one.
        position: the same cursor, decoded, which belongs to the reader of the stream; empty before the first one.
        rows: rows returned so far.
        batches: batches returned so far.
        report: the server's report; None until received.
        moved: whether the stream has ended because its server was told to stop. The rest is read from another one.
        ending: whether the server has said that it will end the stream, because it was told to stop.
    """

    # These are class attributes because __del__ also runs if __init__ was interrupted.
    _lease: Lease | None = None
    _session: Session | None = None
    _lost = False  # the session's server has stopped answering
    _follower: Follower | None = None
    _number = 0
    _closed = False

    def __init__(
        self,
        channel: Channel,
        ticket: bytes,
        schema: pa.Schema,
        of: Origin,
        *,
        wire: str = "plain",
        local_socket: str | None = None,
        tensor_plan: bytes | None = None,
        receiver: bool = False,
        headers: Iterable[tuple[str, str]] = (),
        told: Callable[[Messages, Notice], None] | None = None,
    ) -> None:
        """Prepares to read.

        Args:
            channel: the connection to the server that accepts the ticket.
            ticket: the ticket, as received.
            schema: the planned schema.
            of: the plan and the shard of each batch.
            wire: with "auto", the server chooses the form, and batches are converted to plain ones. With "grouped", a
                batch has one row per request, and the report counts requests.
            local_socket: the path of the server's socket for batches in mapped memory; None if it has none.
            tensor_plan: the plan of the blocks to get through this socket or a receiver; None to get batches.
            receiver: whether to read through a receiver if the server makes no blocks for this process.
            headers: sent with the ticket.
            told: called in another thread when the server knows where it ends the stream because it stops.
        """
        self._headers = tuple(headers)
        self._told = told
        self.channel = channel
        self._ticket = ticket
        self._schema = schema
        self._of = of
        self._auto = wire == "auto"
        self._unit = "requests" if wire == "grouped" else "rows"
        self._call = Call()
        self._local_socket = local_socket if channel.settings.local else None
        self._tensor_plan = tensor_plan
        self._may_receive = receiver and tensor_plan is not None
        self.receives = False
        self.receiver = 0
        self.way: Way = "network"
        self.why = ""
        self.begun = False
        self.cursor: CursorText | None = None
        self.position: Cursor = {}
        self.rows = 0
        self.batches = 0
        self.report: dict[str, Any] | None = None
        self.moved = False
        self.ending = False

    def next(self) -> pa.RecordBatch | Block | None:
        """Returns the next batch; None after the report and the end of the stream, or if it has moved.

        With a tensor plan, it may be a block.
        """
        try:
            return self._next()
        except errors.Unavailable:
            if self.channel.closed:  # closing canceled the read
                raise _client_closed() from None
            if self._lease is not None:
                self._lease.broken = True
            raise

    def _next(self) -> pa.RecordBatch | Block | None:
        if self._lease is not None and self._lease.foreign:
            raise errors.Invalid(
                "the stream was opened before this process was forked",
                remedy="open it in the process that reads it, and pass a cursor to resume",
            )
        self.open()
        block = self._next_block()
        if block is not None:
            self.way, self.why = "receiver" if self.receives else "ring", ""
            return self._received(block, CursorText(block.cursor), _object(block.cursor))
        with self._call.translated(unclassified=errors.Corrupt):
            return self._next_message()

    def note_failure(self, failure: errors.Error) -> None:
        """Begins a rest of the server's address, if the server did not send the failure itself.

        A receiver that cannot reach the server passes on such a failure, too. If the receiver is what has failed, this is not
        called.
        """
        if isinstance(failure, errors.Unavailable) and not failure.of_server:
            rests.failed(self.channel.address)

    def open(self) -> None:
        """Opens the stream, if it is not open yet. The server then reads the first batch."""
        if self.begun:
            return
        self._begin()
        if self._is_of_another_server() and self._may_receive:
            self._leave()
            self._lease = None
            self._begin()
        self.begun = True
        rests.answered(self.channel.address)
        self._follow()

    def _follow(self) -> None:
        """Begins to follow the stream, if this is possible."""
        if self._told is None or self._follower is None:
            return
        # The server's call must not keep a stream that was dropped.
        this, told = weakref.ref(self), self._told

        def tell(notice: Notice) -> None:
            messages = this()
            if messages is not None:
                messages.ending = True
                told(messages, notice)

        self._follower.follow(self._number, self._call, tell)

    def _begin(self) -> None:
        """Opens the stream, and checks its schema."""
        if self._closed:
            raise _client_closed()
        through = self._connected()
        session = None if self._session is None else self._session.identity
        headers = self._headers
        if self._told is not None and self.channel.settings.moves:
            self._follower = self.channel.follower
            self._number, header = self._follower.number()
            headers = (*headers, header)
        self._lease, self._call = through.stream(flight.Ticket(self._ticket), session, headers)
        if self._closed:  # meanwhile, when there was nothing to release
            self._leave()
        with self._call.translated(unclassified=errors.Corrupt):
            if not self._is_planned(self._reader().schema):
                raise errors.Corrupt("the stream's schema differs from the planned one", remedy="read again")

    def _is_of_another_server(self) -> bool:
        """Reports whether the session is one of another server, whose socket has the same path on this host. Ends it then."""
        session = self._session
        if session is None or self._call.session == session.identity:
            return False
        session.stop()
        self._session = self._local_socket = None
        return True

    def _next_message(self) -> pa.RecordBatch | None:
        """Returns the batch of the next message; None after the report and the end of the stream."""
        while True:
            try:
                chunk = self._reader().read_chunk()
            except StopIteration:
                self._ended()
                return None
            if chunk.data is not None:
                if chunk.app_metadata is None:
                    raise errors.Corrupt("a batch came without its cursor")
                self._note("network")
                text = chunk.app_metadata.to_pybytes()
                return self._planned(self._received(chunk.data, CursorText(text), _object(text)))
            text = b"" if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
            message = _object(text)
            if "delivery" in message:
                return self._mapped(message, text)
            self._last(message)

    def _connected(self) -> Channel:
        """Begins the session, if there can be one. Returns the connection to read from."""
        if self._local_socket is not None:
            self._session = Session.open(self._local_socket, self._tensor_plan)
        if self._session is None and self._may_receive and self._tensor_plan is not None:
            try:
                through, self._session, self.receiver = receivers.session(self.channel, self._tensor_plan)
            except errors.Error as e:
                self.why = e.message
            else:
                self.receives = True
                return through
        return self.channel

    @property
    def refusal(self) -> str:
        """Why the receiver does not pass on the stream; "" unless this is why the stream failed."""
        return self._call.refusal

    @property
    def lost_receiver(self) -> bool:
        """Whether the receiver has stopped answering."""
        return self.receives and self._lost

    def _is_planned(self, schema: pa.Schema) -> bool:
        """Reports whether a stream's schema equals the planned one, after conversion if needed."""
        if self._auto:
            schema = pa.schema(sorted(plain_schema(schema), key=lambda field: self._position(field.name)))
        return bool(schema.equals(self._schema))

    def _position(self, name: str) -> int:
        return int(self._schema.get_field_index(name))

    def _planned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch to the planned form: indexed batches of an auto stream are expanded."""
        return expand(batch).select(self._schema.names) if self._auto else batch

    def close(self) -> None:
        """Closes the stream on both sides. If it is not open yet, it stays closed."""
        self._closed = True
        self._leave()

    def _leave(self) -> None:
        if self._follower is not None:
            self._follower.leave(self._number)
        if self._session is not None:
            self._session.stop()
            self._lost = self._session.lost
        if self._lease is not None:
            self._lease.release()
        self._session = None  # the session ends when its last batch is freed

    def _reader(self) -> flight.FlightStreamReader:
        """Returns the open reader. Do not store it: exceptions keep the locals of their frames alive."""
        reader = None if self._lease is None else self._lease.reader
        if reader is None:
            raise _client_closed()
        return reader

    def _next_block(self) -> Block | None:
        """Returns the next block; None if the next message comes over the network."""
        session = self._session
        if session is None or not session.takes_blocks or self._has_last:
            return None
        return session.block()

    @property
    def _has_last(self) -> bool:
        """Whether the last message has come."""
        return self.report is not None or self.moved

    def _note(self, way: Way) -> None:
        """Notes how a batch came that is not a block."""
        self.way = way
        if self._session is not None and self._session.takes_blocks:
            made = f"the {'receiver' if self.receives else 'server'} made no block of the batch"
            full = (
                ", since the program keeps as many batches as the ring has slots"
                if self._session.full
                else ""
            )
            self.why = made + full

    def _received(self, batch: Received, text: CursorText, cursor: Any) -> Received:
        """Checks and counts a batch, given its cursor as it came and decoded."""
        if self._has_last:
            raise errors.Corrupt("a batch came after the stream's last message")
        self.position = self._of.checked(cursor)
        self.cursor = text
        self.rows += batch.num_rows
        self.batches += 1
        return batch

    def _mapped(self, message: dict[str, Any], text: bytes) -> pa.RecordBatch:
        """Returns the batch whose delivery number is in a message."""
        session = self._session
        # Fails if another thread has closed the stream, which also closes the session.
        schema = self._reader().schema
        if session is None or not isinstance(message.get("cursor"), dict):
            raise errors.Corrupt("the stream names a batch in mapped memory, which was not requested")
        batch = session.batch(message, schema)
        self._note("mapped")
        return self._planned(self._received(batch, CursorText(text, in_message=True), message["cursor"]))

    def _last(self, message: dict[str, Any]) -> None:
        moved = message.get("moved")
        if isinstance(moved, dict) and not self._has_last:
            self._check_moved(moved)
            self.moved = True
            return
        report = message.get("report")
        if self._has_last or not _is_report(report):
            raise errors.Corrupt("the stream contains a message that is neither a batch nor its report")
        self.report = report

    def _check_moved(self, moved: Mapping[str, Any]) -> None:
        """Checks that the stream moves at the position of this reader."""
        at = None if self.cursor is None else self.cursor.decoded()
        if moved.get("batches") != self.batches or moved.get("cursor") != at:
            raise errors.Corrupt(
                f"the stream moved after {moved.get('batches')} batches, {self.batches} of which arrived",
                remedy=AGAIN,
            )

    def _ended(self) -> None:
        if self.moved:
            assert self._lease is not None
            self._lease.broken = True  # further calls need a new connection
            self.close()
            return
        if self.report is None:
            raise errors.Corrupt(
                f"the stream ended after {self.rows} rows without its report; rows are missing",
                remedy=AGAIN,
            )
        counts = (self.report.get(self._unit, 0), self.report.get("batches"))
        if counts != (self.rows, self.batches):
            rows, batches = counts
            self.report = None
            raise errors.Corrupt(
                f"the server sent {rows} {self._unit} in {batches} batches, {self.rows} in {self.batches} arrived",
                remedy=AGAIN,
            )
        self.close()

    def __del__(self) -> None:
        self.close()


def _client_closed() -> errors.Invalid:
    return errors.Invalid("the client was closed while its stream was being read", remedy="connect again")


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = parsed(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_report(report: Any) -> TypeGuard[dict[str, Any]]:
    """Reports whether a report has the form that `penstock.reports` reads."""
    if not isinstance(report, dict) or not isinstance(report.get("cursor"), dict):
        return False
    tables, promoted = report.get("staging", {}), report.get("promoted", {})
    return (
        isinstance(tables, dict)
        and all(isinstance(one, dict) for one in tables.values())
        and isinstance(promoted, dict)
    )
