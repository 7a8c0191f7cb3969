"""One iteration of a dataset, in one process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

from penstock import errors
from penstock.fields import Cursor
from penstock.position import Position
from penstock.torch.device import Mover, Stay
from penstock.torch.feeds import Direct, Feed, Prefetched, closed
from penstock.torch.limits import Watch
from penstock.torch.meter import LoopStats, Meter, StallReporter
from penstock.torch.source import Source, SourceSpec

T = TypeVar("T", covariant=True)


class IterationState:
    """The state of an iteration, which outlives it.

    Attributes:
        start: the position at which it began.
        count: returns its statistics so far.
        ahead: how to save the position of a loop that gets batches later than its framework; "" if it does not.
    """

    def __init__(self, start: Position, ahead: str = "") -> None:
        self.start = start
        self.ahead = ahead
        self.count: Callable[[], LoopStats] = Meter().stats
        self._at: Position | Cursor | bytes = start
        self._made: tuple[Position | Cursor | bytes, Position] = (start, start)  # the last one made

    @property
    def position(self) -> Position:
        """The position after the last batch that the loop received, made on demand. Other threads may call it."""
        at, (last, made) = self._at, self._made
        if isinstance(at, Position):
            return at
        if last is not at:
            cursor = json.loads(at) if isinstance(at, bytes) else at
            of = self.start.every[1]
            # A worker's position follows one of its own steps; the other workers' steps come next.
            made = replace(
                self.start, epoch=int(cursor["epoch"]), cursors=(cursor,), every=(of - 1, of), ended=False
            )
            self._made = (at, made)
        return made

    def advance(self, cursor: Cursor | bytes) -> None:
        """Moves to the position after a batch of this iteration."""
        self._at = cursor

    def end(self, cursor: Cursor | None) -> None:
        """Moves to the end of the epoch.

        Args:
            cursor: that of the stream's end; None if nothing was opened.
        """
        at = replace(self.position, ended=True)
        # A worker stays at the position after its own step.
        if at.every[1] == 1 and cursor is not None:
            at = replace(at, epoch=int(cursor["epoch"]), cursors=(cursor,))
        self._at = at


class Iteration(Iterator[T], Generic[T]):
    """Yields the batches of an epoch, starting at a position. Threads that share it get each batch once.

    Nothing is opened before the first `next`. The end, an exception, `close`, and dropping it close its thread,
    stream and connection.
    """

    _feed: Feed | None = None

    def __init__(
        self,
        spec: SourceSpec,
        state: IterationState,
        begin: Callable[[], tuple[Source, Mover]],
        prefetch: int,
        watch: Watch | None,
    ) -> None:
        """Prepares to read.

        Args:
            spec: what to read.
            state: updated with each batch.
            begin: creates the source, at the first batch, or raises.
            prefetch: how many batches a thread reads ahead; 0 reads on demand.
            watch: warns if the loop waits too long; None does not.
        """
        self._spec = spec
        self._state = state
        self._begin = begin
        self._prefetch = prefetch
        self._watch = watch
        self._meter = Meter()
        self._mover: Mover = Stay()
        self._source: Source | None = None
        self._failure: BaseException | None = None
        self._ended = False
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._pid != os.getpid():
            raise errors.Invalid(
                "the iterator was made before this process was forked",
                remedy="create one in this process: iter(dataset)",
            )
        with self._lock:
            found: T = self._next()
            return found

    def _next(self) -> Any:
        if self._failure is not None:
            raise self._failure
        if self._ended:
            raise StopIteration
        began = self._meter.start_wait()
        try:
            item = (self._feed or self._opened()).next()
        except BaseException as e:
            self._failure = e if isinstance(e, Exception) else closed()
            self.close()
            raise
        if item is None:
            self._meter.end_wait(began, None)
            self._end()
            raise StopIteration
        self._state.advance(item.cursor)
        value = self._mover.receive(item.sent)
        self._meter.end_wait(began, item.rows)
        if self._watch is not None and self._source is not None:
            self._watch.look(self._meter, self._source)
        return value

    def _end(self) -> None:
        assert self._feed is not None
        assert self._source is not None
        self._ended = True
        self._state.end(self._source.cursor)
        self._feed.finish()
        self.close()

    def close(self) -> None:
        """Ends the iteration at its current position."""
        if self._feed is not None and self._pid == os.getpid():
            self._feed.close()
            stats = self._state.count()  # the state outlives the source
            self._state.count = lambda: stats
            if self._failure is None and not self._ended:
                self._failure = closed()

    def _opened(self) -> Feed:
        if self._feed is None:
            self._source, self._mover = self._begin()
            self._meter.spent = self._source.spent
            dataset = self._spec.dataset
            count = self._state.count = _stats_of(self._meter, self._source)
            reporter = StallReporter(dataset if isinstance(dataset, str) else "", count)
            if self._prefetch:
                self._feed = Prefetched(self._source, reporter, self._prefetch)
            else:
                self._feed = Direct(self._source, reporter)
        return self._feed

    def __del__(self) -> None:
        self.close()


def _stats_of(meter: Meter, source: Source) -> Callable[[], LoopStats]:
    """Returns a function for the statistics to report that does not keep the iteration alive."""
    return lambda: meter.stats(source.stats)
