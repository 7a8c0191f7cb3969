"""Reads the batches of one epoch, rank and worker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import torch

from penstock import errors, query
from penstock.client import Client, connect
from penstock.fields import Cursor
from penstock.mixing import Mix
from penstock.plan import Plan
from penstock.position import Position
from penstock.rings import Block
from penstock.servers import is_retryable, retried
from penstock.stream import Stats, Stream
from penstock.torch import lent, ranks
from penstock.torch.batch import Batch
from penstock.torch.blocks import Blocks
from penstock.torch.converter import Converter
from penstock.torch.device import Mover, Sent, memory_of
from penstock.torch.lent import LentBatch
from penstock.torch.meter import Spent
from penstock.torch.options import DatasetOptions
from penstock.torch.shared import SharedState

_UNKNOWN_LENGTH = (
    "the number of steps in the epoch is unknown before reading; tail='drop' or count='exact' makes it known"
)


class Item(NamedTuple):
    """One step's batch.

    Attributes:
        sent: the value for the loop, possibly being copied to a device.
        cursor: the stream's position after it, possibly as text.
        rows: the number of rows in the batch.
    """

    sent: Sent
    cursor: Cursor | bytes
    rows: int


@dataclass(frozen=True)
class StepRange:
    """The steps of an epoch to return: all from `first` up to but excluding `end`, if it is not None."""

    first: int = 0
    end: int | None = None

    def count(self, steps: int) -> int:
        """The number of steps to return in an epoch of `steps` steps."""
        return max(0, (steps if self.end is None else min(steps, self.end)) - self.first)

    def is_before_end(self, step: int) -> bool:
        """Whether a step is before the end."""
        return self.end is None or step < self.end


@dataclass(frozen=True)
class SourceSpec:
    """The data to read, and the position at which to begin.

    Attributes:
        uri: the address of a server, or of several.
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        options: query, conversion rules and connection.
        rank: the rank, and the number of ranks.
        start: the position to begin at; its `every` selects the worker's steps, and skips those before them.
        shared: the state that the rank's processes share.
        steps: which steps of an epoch to return.
    """

    uri: Any
    dataset: Any
    options: DatasetOptions
    rank: tuple[int, int]
    start: Position
    shared: SharedState
    steps: StepRange

    @property
    def next_step(self) -> int:
        """The first step to return."""
        return self.start.step_of(*self.rank) + self.start.every[0]

    def returns(self, step: int) -> bool:
        """Whether to return a step that was read. If epochs repeat, each has a step 0, and all steps are returned."""
        return "repeat" in self.options.query or step >= self.next_step

    @property
    def name(self) -> str:
        """The dataset's name, for messages."""
        return query.name(self.dataset)

    def connect(self) -> Client:
        """Creates a client."""
        return connect(self.uri, **self.options.connection)

    def open(self, client: Client) -> Stream | Mix:
        """Opens the stream, at the snapshots that all processes of the rank read."""
        start = self.start.of_rank(*self.rank)
        if start.cursors:
            stream = client._read_once(self.dataset, **self._fields(start, None))
            self.shared.set_pin(stream.plan.pin)
            return stream
        pin = self.shared.pin
        stream = client._read_once(self.dataset, **self._fields(start, pin))
        agreed = self.shared.agree_on_pin(stream.plan.pin)
        if agreed == stream.plan.pin:
            return stream
        # Another worker planned at the same time, and the tables changed in between.
        stream.close()
        return client._read_once(self.dataset, **self._fields(start, agreed))

    def _fields(self, start: Position, pin: dict[str, Any] | None) -> Any:
        fields: dict[str, Any] = {**self.options.query, "shard": self.rank}
        if self.rank[1] > 1:
            # Ranks that end at different steps would wait for each other forever.
            fields.setdefault("tail", "drop")
        if start.cursors:
            fields["cursor"] = list(start.cursors) if len(start.cursors) > 1 else start.cursors[0]
        else:
            fields["epoch"] = start.epoch
            if pin is not None:
                fields["snapshots"] = pin
        if start.every[1] > 1:
            fields["every"] = {"step": start.every[0] % start.every[1], "of": start.every[1]}
        return fields


def plan_steps(spec: SourceSpec) -> tuple[Plan | None, int | None]:
    """Returns the server's plan, None for a mix, and the number of steps to return in an epoch, with those before its start."""
    with spec.connect() as client, _open_with_retries(spec, client, threading.Event()) as stream:
        try:
            return stream.plan, spec.steps.count(spec.start.step_of(*spec.rank) + len(stream))
        except TypeError:
            return stream.plan, None


def steps(spec: SourceSpec) -> int:
    """Returns the number of steps to return in an epoch.

    Raises:
        TypeError: the number is unknown.
    """
    if "repeat" in spec.options.query:
        raise TypeError("the number of steps of several epochs is unknown before reading")
    known = plan_steps(spec)[1]
    if known is None:
        raise TypeError(_UNKNOWN_LENGTH)
    return known


def _open_with_retries(spec: SourceSpec, client: Client, closed: threading.Event) -> Stream | Mix:
    """Opens the stream. Once a server has answered, later epochs and other workers retry.

    They retry like a stream whose server restarts, since an epoch can begin, and a loop can ask for its length, at
    any time. If the server was never reached, its address is probably wrong.
    """

    def may_retry(failure: errors.Error) -> bool:
        return spec.shared.pin is not None and is_retryable(failure)

    return retried(lambda: spec.open(client), client.reconnect, closed, may_retry)


class Source:
    """Reads batches, converts and transforms them. Not safe for threads, except `close`.

    Nothing is opened before the first `next`.
    """

    def __init__(
        self,
        spec: SourceSpec,
        convert: bool,
        transform: Callable[[Any], Any] | None,
        mover: Mover,
        sized: str = "",
    ) -> None:
        """Prepares to read.

        Args:
            spec: what to read.
            convert: whether to convert to a `Batch`; otherwise record batches are returned unchanged.
            transform: called with each batch.
            mover: copies values to a device.
            sized: the framework that needs to know the number of steps; "" if none does.
        """
        self._spec = spec
        self._convert = convert
        self._transform = transform
        self._mover = mover
        self._sized = sized
        self._in_worker = ranks.worker() is not None
        self.spent = Spent()
        self._client: Client | None = None
        self._stream: Stream | Mix | None = None
        self._converter: Converter | None = None
        self._blocks: Blocks | None = None  # makes the batches of blocks; None if there are none
        self._closed = threading.Event()
        self._next_step = spec.next_step

    @property
    def client(self) -> Client | None:
        """The connection; None before the first batch."""
        return self._client

    @property
    def plan(self) -> Plan | None:
        """The plan; None before the first batch, and for a mix."""
        return None if self._stream is None else self._stream.plan

    @property
    def cursor(self) -> Any:
        """The stream's position, including read-ahead."""
        return None if self._stream is None else self._stream.cursor

    @property
    def rank(self) -> tuple[int, int]:
        """The rank, and the number of ranks."""
        return self._spec.rank

    @property
    def stats(self) -> Stats | None:
        """The statistics of the stream; None before it is opened."""
        return None if self._stream is None else self._stream.stats

    def next(self) -> Item | None:
        """Returns the next batch; None at the end."""
        while self._spec.steps.is_before_end(self._next_step):
            stream = self._stream or self._open()
            if self._in_worker:
                lent.collect()
            records: Any = next(stream, None)
            if records is None:
                return None
            given = stream.cursor
            assert isinstance(given, dict)  # of one shard
            step = int(given["step"]) - 1
            # A worker passes the text, which the process of the loop decodes on demand.
            cursor = records.cursor if isinstance(records, Block) and self._in_worker else given
            self._next_step = step + self._spec.start.every[1]
            if self._spec.returns(step):
                with errors.naming(f"step {step} of {self._spec.name!r}"):
                    sent = self._traced(stream, records, cursor, step)
                return Item(sent, cursor, records.num_rows)
        return None

    def close(self) -> None:
        """Closes the stream and the connection, on both sides. Safe to call from any thread."""
        self._closed.set()
        stream, client = self._stream, self._client
        if stream is not None:
            stream.close()
        if client is not None:
            client.close()

    def _open(self) -> Stream | Mix:
        self._client = self._spec.connect()
        stream = _open_with_retries(self._spec, self._client, self._closed)
        if self._sized:
            self._check_sized(stream)
        if self._convert:
            self._converter = Converter(stream.schema, **self._spec.options.rules)
            if isinstance(stream, Stream):
                plan = self._converter.tensor_plan()
                self._blocks = Blocks(plan)
                stream._accept_blocks(plan.text().encode())
        self._stream = stream
        if self._closed.is_set():  # closed by another thread
            self.close()
            raise errors.Invalid("the iterator was closed", remedy="make another one: iter(dataset)")
        return stream

    def _check_sized(self, stream: Stream | Mix) -> None:
        try:
            len(stream)
        except TypeError as unknown:
            stream.close()
            raise errors.Invalid(
                f"{self._sized} takes a batch ahead of its loop if the number of steps is unknown, and its checkpoints "
                "would lose that batch",
                remedy="create the dataset with ends='mix', or pass DataLoader(ds, batch_size=None) and save the "
                "cursor of the last batch"
                if isinstance(stream, Mix)
                else "create the dataset with tail='drop' or count='exact'",
            ) from unknown

    def _traced(
        self, stream: Stream | Mix, records: pa.RecordBatch | Block, cursor: Cursor | bytes, step: int
    ) -> Sent:
        """Starts to copy the loop's value, and records how long its conversion takes if the step is traced."""
        traces = stream._traces if isinstance(stream, Stream) else None
        if traces is None:
            return self._sent(records, cursor, step)
        began = time.time_ns()
        sent = self._sent(records, cursor, step)
        given = json.loads(cursor) if isinstance(cursor, bytes) else cursor
        traces.record("penstock.client.convert", given, began, time.time_ns())
        return sent

    def _sent(self, records: pa.RecordBatch | Block, cursor: Cursor | bytes, step: int) -> Sent:
        """Starts to copy the loop's value to its device."""
        began = time.monotonic()
        if isinstance(records, Block):
            self.spent.bytes += records.size
            blocks = self._blocks
            assert blocks is not None  # it was accepted
            if self._transform is None:

                def made(memory: torch.Tensor) -> Batch:
                    batch = blocks.batch(memory, records.memory, cursor=cursor, step=step)
                    return LentBatch.of(batch, records, blocks) if self._in_worker else batch

                sent = self._mover.send_block(records, made)
                self._count(began, began)
                return sent
            value = self._made(blocks.batch(memory_of(records), cursor=cursor, step=step), cursor)
        else:
            self.spent.bytes += records.nbytes
            value = records
            if self._converter is not None:
                value = self._converter(records, cursor=cursor, step=step)
            value = self._made(value, cursor)
        ready = time.monotonic()
        sent = self._mover.send(value)
        self._count(began, ready)
        return sent

    def _count(self, began: float, made: float) -> None:
        """Counts the time of a batch that was converted from `began` to `made`, and then sent."""
        now = time.monotonic()
        if not self._mover.copies:
            made = now
        self.spent.converting += made - began
        self.spent.copying += now - made

    def _made(self, value: Any, cursor: Cursor | bytes) -> Any:
        """Makes the loop's value from a batch."""
        if self._transform is None and self._converter is not None:
            return value
        if self._transform is not None:
            value = self._transformed(value)
        return value, json.loads(cursor) if isinstance(cursor, bytes) else cursor

    def _transformed(self, value: Any) -> Any:
        assert self._transform is not None
        try:
            return self._transform(value)
        except StopIteration as e:  # it would end the loop
            raise RuntimeError("transform raised StopIteration") from e
