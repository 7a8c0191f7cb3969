"""One pass of a dataset, in one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

from penstock import errors
from penstock.position import Position
from penstock.stream import Stats
from penstock.torch.device import Mover, Stay
from penstock.torch.feeds import Ahead, Direct, Feed, closed
from penstock.torch.meter import Meter, Teller
from penstock.torch.source import Source, Wanted


class Place:
    """Where a pass stands, which outlives it.

    Attributes:
        start: where it began.
        position: after the batch that the loop took last.
        stats: how it went so far.
    """

    def __init__(self, start: Position) -> None:
        self.start = start
        self.position = start
        self.stats = Stats(0, 0, 0.0, 0.0, 0)


class Iteration(Iterator[Any]):
    """Gives the batches of an epoch, from a position on. Threads that share it get each batch once.

    Nothing is opened before the first `next`. The end, an exception, `close` and dropping it end what was
    opened: thread, stream and connection.
    """

    _feed: Feed | None = None

    def __init__(
        self,
        wanted: Wanted,
        place: Place,
        begin: Callable[[], tuple[Source, Mover]],
        prefetch: int,
    ) -> None:
        """Prepares to read.

        Args:
            wanted: what is read.
            place: kept up to date.
            begin: makes the source, at the first batch; or says why there is none.
            prefetch: how many batches are read ahead, by a thread; 0 reads when asked.
        """
        self._wanted = wanted
        self._place = place
        self._begin = begin
        self._prefetch = prefetch
        self._meter = Meter()
        self._mover: Mover = Stay()
        self._source: Source | None = None
        self._failure: BaseException | None = None
        self._ended = False
        self._pid = os.getpid()
        self._one = threading.RLock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._pid != os.getpid():
            raise errors.Invalid(
                "the iterator was made before this process was forked",
                remedy="make one in this process: iter(dataset)",
            )
        with self._one:
            return self._next()

    def _next(self) -> Any:
        if self._failure is not None:
            raise self._failure
        if self._ended:
            raise StopIteration
        asked = self._meter.asked()
        try:
            item = self._opened().next()
        except BaseException as e:
            self._failure = e if isinstance(e, Exception) else closed()
            self.close()
            raise
        self._meter.came(asked, None if item is None else item.rows)
        assert self._source is not None
        self._place.stats = self._meter.stats(self._source.resumed)
        if item is None:
            self._end()
            raise StopIteration
        of = self._wanted.start.every[1]
        # A worker stands right behind a step of its own: those of the others come first.
        self._place.position = replace(
            self._place.position, cursors=(item.cursor,), every=(of - 1, of), ended=False
        )
        return self._mover.receive(item.sent)

    def _end(self) -> None:
        assert self._feed is not None
        assert self._source is not None
        self._ended = True
        at = replace(self._place.position, ended=True)
        if at.every[1] == 1:  # a worker stays behind a step of its own
            at = replace(at, cursors=(self._source.cursor,))
        self._place.position = at
        self._feed.finish()

    def close(self) -> None:
        """Ends the pass where it is."""
        if self._feed is not None and self._pid == os.getpid():
            self._feed.close()
            if self._failure is None and not self._ended:
                self._failure = closed()

    def _opened(self) -> Feed:
        if self._feed is None:
            self._source, self._mover = self._begin()
            dataset = self._wanted.dataset
            teller = Teller(dataset if isinstance(dataset, str) else "", _counted(self._meter, self._source))
            if self._prefetch:
                self._feed = Ahead(self._source, teller, self._prefetch)
            else:
                self._feed = Direct(self._source, teller)
        return self._feed

    def __del__(self) -> None:
        self.close()


def _counted(meter: Meter, source: Source) -> Callable[[], Stats]:
    """What there is to tell. The thread that tells must not keep the iteration alive."""
    return lambda: meter.stats(source.resumed)
