"""The batches of one member of a mix, over its epochs."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock import errors
from penstock.client import Client
from penstock.members import MemberSpec
from penstock.mixcursor import MemberPosition
from penstock.servers import retried
from penstock.shares import Share
from penstock.stream import Stream


class MemberReader:
    """Reads the batches of one member for one rank.

    Attributes:
        spec: the member.
        at: its position after the last batch taken.
        share: the batches that it contributes; None before `open`.
        left: the number of batches left in its epoch.
        rows: the number of rows taken so far.
        pin: the snapshots that it reads; None before `open`.
    """

    def __init__(
        self,
        spec: MemberSpec,
        client: Client,
        shard: tuple[int, int],
        at: MemberPosition,
        pin: Any,
        turns: int = 1,
    ) -> None:
        """Prepares to read.

        Args:
            spec: the member.
            client: the client of its server.
            shard: the rank, and the number of ranks.
            at: the position to begin at.
            pin: the snapshots to read; None for the current ones.
            turns: the number of readers that take turns with the steps. If the member gives one batch to each step,
                this reader requests only the batches of its own steps.
        """
        self.spec = spec
        self._client = client
        self._shard = shard
        self.at = replace(at, lanes=_lanes(spec, at, shard[1]))
        self.share: Share | None = None
        self.left = 0
        self.rows = 0
        self.pin = pin
        self._turns = turns
        self._stream: Stream | None = None
        self._ready: pa.RecordBatch | None = None  # read ahead of `take`
        self._resumed = 0
        self._moved = 0
        self._closed = threading.Event()

    @property
    def lanes(self) -> int:
        """The number of its lanes."""
        assert self.at.lanes is not None
        return self.at.lanes

    @property
    def schema(self) -> pa.Schema:
        """The schema of its batches."""
        assert self._stream is not None
        return self._stream.schema

    @property
    def resumed(self) -> int:
        """The number of times its streams were resumed after a failure."""
        return self._resumed + (0 if self._stream is None else self._stream.stats.resumed)

    @property
    def moved(self) -> int:
        """The number of times its streams moved because their server was told to stop."""
        return self._moved + (0 if self._stream is None else self._stream.stats.moved)

    def open(self, share: Share, ahead: int) -> bool:
        """Plans the stream from the current position, and reports whether it did.

        It does nothing if the stream's batches already have the right size.

        Args:
            share: the batches to contribute.
            ahead: the number of steps before this reader's next step.
        """
        if self.share is not None and self.share.rows == share.rows:
            self.share = share
            return False
        self.share = share
        self._plan(ahead)
        return True

    def start(self) -> None:
        """Reads the first batch ahead, so that the server admits the stream. May be called in any thread."""
        if self._ready is None and self.left:
            assert self._stream is not None
            self._ready = self._advance(self._stream)  # None if all its steps belong to other readers

    def take(self, ahead: int) -> pa.RecordBatch | None:
        """Returns the next batch. If the epoch has no more batches, a repeating member begins its next epoch.

        Args:
            ahead: the number of steps before this reader's next step. Unless it is 0, the result may be None.
        """
        if not self.left:
            self._begin_next_epoch(ahead)
        self.left -= 1
        if ahead and self._takes_turns:
            return None
        batch, self._ready = (self._next() if self._ready is None else self._ready), None
        stream = self._stream
        assert stream is not None
        assert isinstance(stream.cursor, dict)
        self.at = replace(self.at, cursors=(stream.cursor,))
        self.rows += batch.num_rows
        return batch

    def end(self) -> None:
        """Ends the member, while the mix continues."""
        self.at = replace(self.at, ended=True)
        self._finish()

    def close(self) -> None:
        """Closes its stream. Safe to call from any thread."""
        self._closed.set()
        if self._stream is not None:
            self._stream.close()

    def _next(self) -> pa.RecordBatch:
        assert self._stream is not None
        batch = self._advance(self._stream)
        if batch is None:
            raise self._differs()
        return batch

    def _advance(self, stream: Stream) -> pa.RecordBatch | None:
        """Returns the next batch of a stream; None at its end."""
        with errors.naming(f"member {self.spec.name!r}"):
            return next(stream, None)

    @property
    def _takes_turns(self) -> bool:
        return self._turns > 1 and self.share is not None and self.share.rate == 1

    def _begin_next_epoch(self, ahead: int) -> None:
        whole = self._stream is None or not self.at.cursors
        if not whole:
            self._finish()
            self.at = replace(self.at, epoch=self.at.epoch + 1, cursors=())
            self._plan(ahead)
        if not self.left:
            assert self.share is not None
            raise errors.Invalid(
                f"member {self.spec.name!r} cannot repeat: epoch {self.at.epoch} has no batch of {self.share.rows} rows",
                remedy="use a smaller global_batch_rows, or fewer lanes",
            )

    def _finish(self) -> None:
        """Ends the stream, and checks that it has no more batches than planned."""
        stream = self._stream
        if stream is None:
            return
        if not self.left and not self._closed.is_set() and self._advance(stream) is not None:
            raise self._differs()
        stream.close()

    def _differs(self) -> errors.Corrupt:
        return errors.Corrupt(
            f"the stream of member {self.spec.name!r} has not as many batches as planned",
            remedy="read again from the cursor of the last step",
        )

    def _plan(self, ahead: int) -> None:
        """Plans the rest of the epoch. Plans after the first one wait for servers that do not respond."""
        fields = self._fields()
        stream = self._read(fields)
        self.pin = stream.plan.pin
        try:
            self.left = len(stream)
        except TypeError as e:
            raise errors.Internal(f"the server did not count the batches of member {self.spec.name!r}") from e
        if self._takes_turns:
            stream.close()
            if not self.at.cursors:
                fields["snapshots"] = self.pin
            stream = self._read({**fields, "every": (ahead, self._turns)})
        if self._stream is not None:
            stats = self._stream.stats
            self._resumed, self._moved = self._resumed + stats.resumed, self._moved + stats.moved
            self._stream.close()
        self._stream, self._ready = stream, None
        if self._closed.is_set():  # closed by another thread
            stream.close()

    def _fields(self) -> dict[str, Any]:
        assert self.share is not None
        fields: dict[str, Any] = {
            **self.spec.query,
            "shard": self._shard,
            "tail": "drop",  # all ranks end with the same step
            "lanes": self.lanes,
            "global_batch_rows": self.share.rows,
        }
        if self.at.cursors:
            fields["cursor"] = list(self.at.cursors) if len(self.at.cursors) > 1 else self.at.cursors[0]
        else:
            fields["epoch"] = self.at.epoch
            if self.pin is not None:
                fields["snapshots"] = self.pin
        return fields

    def _read(self, fields: dict[str, Any]) -> Stream:
        def ask() -> Stream:
            return self._client._read_once(self.spec.dataset, **fields)

        with errors.naming(f"member {self.spec.name!r}"):
            return ask() if self._stream is None else retried(ask, self._client.reconnect, self._closed)


def _lanes(spec: MemberSpec, at: MemberPosition, world: int) -> int:
    """Returns the number of lanes: as set by the query, else of the position, else one per rank."""
    given = spec.query.get("lanes")
    if given is not None:
        return int(given)
    return world if at.lanes is None else at.lanes
