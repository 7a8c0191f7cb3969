"""The batches of one epoch, rank and worker, as the training loop takes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock import errors, query
from penstock.backoff import Backoff
from penstock.client import Client, connect
from penstock.fields import Cursor
from penstock.plan import Plan
from penstock.position import Position
from penstock.servers import another_try_helps
from penstock.stream import Stream
from penstock.torch.converter import Converter
from penstock.torch.device import Mover, Sent
from penstock.torch.options import Asked
from penstock.torch.shared import Shared

_log = logging.getLogger("penstock")

_UNKNOWN_LENGTH = (
    "nobody knows how many steps the epoch has before it is read; tail='drop' or count='exact' makes it known"
)


@dataclass(frozen=True)
class Item:
    """One step's batch.

    Attributes:
        sent: what the loop gets, perhaps on its way to a device.
        cursor: where the stream stands after it.
        rows: of the batch.
    """

    sent: Sent
    cursor: Cursor
    rows: int


@dataclass(frozen=True)
class Wanted:
    """What is read, and where it begins.

    Attributes:
        uri: the server, or several.
        dataset: the name of one that the server knows, or a dataset as a mapping.
        asked: query, rules and connection.
        rank: which rank this is, and how many there are.
        start: where to begin; its `every` says which worker this is.
        shared: what the processes of the rank know together.
    """

    uri: Any
    dataset: Any
    asked: Asked
    rank: tuple[int, int]
    start: Position
    shared: Shared

    def connect(self) -> Client:
        """Makes a client."""
        return connect(self.uri, **self.asked.connection)

    def open(self, client: Client) -> Stream:
        """Opens the stream, at the snapshots that all processes of the rank read."""
        start = self.start.of_rank(*self.rank)
        if start.cursors:
            stream = client.read(self.dataset, **self._fields(start, None))
            self.shared.adopt(stream.plan.pin)
            return stream
        pin = self.shared.pin
        stream = client.read(self.dataset, **self._fields(start, pin))
        agreed = self.shared.agree(stream.plan.pin)
        if agreed == stream.plan.pin:
            return stream
        # Another worker planned at the same moment, and somebody committed in between.
        stream.close()
        return client.read(self.dataset, **self._fields(start, agreed))

    def _fields(self, start: Position, pin: dict[str, Any] | None) -> Any:
        fields: dict[str, Any] = {**self.asked.query, "shard": self.rank}
        if self.rank[1] > 1:
            # Ranks that end at different steps wait for each other forever.
            fields.setdefault("tail", "drop")
        if start.cursors:
            fields["cursor"] = list(start.cursors) if len(start.cursors) > 1 else start.cursors[0]
        else:
            fields["epoch"] = start.epoch
            if pin is not None:
                fields["snapshots"] = pin
        if start.every[1] > 1:
            fields["every"] = {"step": start.every[0], "of": start.every[1]}
        return fields


def planned(wanted: Wanted) -> tuple[Plan, int | None]:
    """What the server plans, and how many steps the rank's epoch has, those before its start too."""
    with wanted.connect() as client, _reached(wanted, client, threading.Event()) as stream:
        try:
            return stream.plan, wanted.start.step_of(*wanted.rank) + len(stream)
        except TypeError:
            return stream.plan, None


def steps(wanted: Wanted) -> int:
    """How many steps the rank's epoch has.

    Raises:
        TypeError: nobody knows.
    """
    known = planned(wanted)[1]
    if known is None:
        raise TypeError(_UNKNOWN_LENGTH)
    return known


def _reached(wanted: Wanted, client: Client, closed: threading.Event) -> Stream:
    """Opens the stream. Once a server has answered, later epochs and other workers wait for it.

    They wait as a stream does whose server is restarted: an epoch begins, and a loop asks for its
    length, at any moment. What was never reached is rather a wrong address.
    """
    backoff = Backoff(client.reconnect)
    while True:
        try:
            return wanted.open(client)
        except errors.Error as failure:
            if wanted.shared.pin is None or not another_try_helps(failure):
                raise
            wait = backoff.next(failure.retry_after)
            if wait is None or closed.wait(wait):
                raise
            _log.warning(
                "the epoch of %s cannot begin, it is tried for %.0f s more: %s",
                query.name(wanted.dataset),
                backoff.left,
                failure,
            )


class Source:
    """Reads batches, converts and transforms them. For one thread at a time, save `close`.

    Nothing is opened before the first `next`.
    """

    def __init__(
        self,
        wanted: Wanted,
        convert: bool,
        transform: Callable[[Any], Any] | None,
        mover: Mover,
    ) -> None:
        """Prepares to read.

        Args:
            wanted: what is read.
            convert: whether into a `Batch`; else record batches come as they are.
            transform: called with each batch.
            mover: brings values to a device.
        """
        self._wanted = wanted
        self._convert = convert
        self._transform = transform
        self._mover = mover
        self._client: Client | None = None
        self._stream: Stream | None = None
        self._converter: Converter | None = None
        self._closed = threading.Event()

    @property
    def client(self) -> Client | None:
        """The connection; None before the first batch."""
        return self._client

    @property
    def plan(self) -> Plan | None:
        """What is read; None before the first batch."""
        return None if self._stream is None else self._stream.plan

    @property
    def cursor(self) -> Any:
        """Where the stream stands, behind what was read ahead; at its end, the end."""
        return None if self._stream is None else self._stream.cursor

    @property
    def resumed(self) -> int:
        """How many times the stream was taken up again after a failure."""
        return 0 if self._stream is None else self._stream.stats.resumed

    def next(self) -> Item | None:
        """The next batch; None at the end."""
        stream = self._stream or self._open()
        records = next(stream, None)
        if records is None:
            return None
        cursor = stream.cursor
        assert isinstance(cursor, dict)  # of one shard
        return Item(self._mover.send(self._made(records, cursor)), cursor, records.num_rows)

    def close(self) -> None:
        """Ends the stream and the connection, on both sides. It may be called by any thread."""
        self._closed.set()
        stream, client = self._stream, self._client
        if stream is not None:
            stream.close()
        if client is not None:
            client.close()

    def _open(self) -> Stream:
        self._client = self._wanted.connect()
        stream = _reached(self._wanted, self._client, self._closed)
        if self._convert:
            self._converter = Converter(stream.schema, **self._wanted.asked.rules)
        self._stream = stream
        if self._closed.is_set():  # meanwhile, by another thread
            self.close()
            raise errors.Invalid("the iterator was closed", remedy="make another one: iter(dataset)")
        return stream

    def _made(self, records: pa.RecordBatch, cursor: Cursor) -> Any:
        """What the loop gets of a batch."""
        if self._converter is not None:
            value: Any = self._converter(records, cursor=cursor, step=int(cursor["step"]) - 1)
            return value if self._transform is None else (self._transformed(value), cursor)
        return (records if self._transform is None else self._transformed(records)), cursor

    def _transformed(self, value: Any) -> Any:
        assert self._transform is not None
        try:
            return self._transform(value)
        except StopIteration as e:  # a loop would take it for the end of the epoch
            raise RuntimeError("transform raised StopIteration") from e
