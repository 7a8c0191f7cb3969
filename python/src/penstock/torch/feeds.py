"""Feeds: pass batches from their source to the loop, on demand or with read-ahead."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from typing import Protocol

from torch.utils.data import get_worker_info

from penstock import errors
from penstock.torch.meter import StallReporter
from penstock.torch.source import Item, Source

# Seconds that `close` waits for a thread that is inside a call or a transformation.
_PATIENCE = 5.0

# Seconds that the exit of a DataLoader worker waits for the thread that sends its last batches.
_SENDING_LIMIT = 1.0


class Feed(Protocol):
    """Returns the items of a source, and reports the loop's waiting time to the server."""

    def next(self) -> Item | None:
        """The next item; None at the end."""

    def finish(self) -> None:
        """Reports the rest after the end, and closes."""

    def close(self) -> None:
        """Closes everything. Safe to call more than once."""


class Direct:
    """Reads on demand."""

    def __init__(self, source: Source, reporter: StallReporter) -> None:
        self._source = source
        self._reporter = reporter
        self._closed = False
        _open.add(self)

    def next(self) -> Item | None:
        """The next item; None at the end."""
        item = self._source.next()
        if item is not None and not self._reporter.due:
            _report(self._reporter, self._source)
        return item

    def finish(self) -> None:
        """Reports the rest, and closes."""
        _report(self._reporter, self._source)
        self.close()

    def close(self) -> None:
        """Closes the source."""
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        self._source.close()


class Prefetched:
    """Reads ahead, in a thread."""

    def __init__(self, source: Source, reporter: StallReporter, depth: int) -> None:
        """Prepares to read ahead. The thread is started by the first `next`.

        Args:
            source: the source to read.
            reporter: reports to the server.
            depth: the maximum number of items that wait for the loop.
        """
        self._source = source
        self._reporter = reporter
        self._depth = depth
        self._ready: deque[Item] = deque()
        self._failure: BaseException | None = None
        self._ended = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        _open.add(self)

    def next(self) -> Item | None:
        """The next item; None at the end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._read, name="penstock", daemon=True)
            self._thread.start()
        with self._changed:
            while not (self._ready or self._ended):
                self._changed.wait()
            if self._ready:
                item = self._ready.popleft()
                self._changed.notify_all()
                return item
        if self._failure is not None:
            raise self._failure
        if self._closed:  # by another thread: this is not the end
            raise closed()
        return None

    def finish(self) -> None:
        """Reports the rest, and closes."""
        self._join()
        _report(self._reporter, self._source)
        self.close()

    def close(self) -> None:
        """Ends the thread and closes the source."""
        if self._closed:
            return
        _open.discard(self)
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._source.close()
        self._join()

    def _join(self) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)

    def _read(self) -> None:
        try:
            while self._hand_over(self._source.next()):
                pass
        except BaseException as e:
            with self._changed:
                self._failure = e
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _hand_over(self, item: Item | None) -> bool:
        """Queues an item once there is room. Reports whether to continue."""
        if item is None:
            return False
        while True:
            with self._changed:
                if self._closed:
                    return False
                if len(self._ready) < self._depth:
                    self._ready.append(item)
                    self._changed.notify_all()
                    break
                self._changed.wait(max(self._reporter.due, 0.001))
            if not self._reporter.due:
                _report(self._reporter, self._source)
        if not self._reporter.due:
            _report(self._reporter, self._source)
        return True


def closed() -> errors.Error:
    """Makes the exception that a closed iterator raises."""
    return errors.Invalid("the iterator was closed", remedy="create another one: iter(dataset)")


def _report(reporter: StallReporter, source: Source) -> None:
    plan = source.plan
    reporter.report(source.client, "" if plan is None else plan.id)


# Open feeds, to be closed before the interpreter exits: Arrow must not run after that.
_open: weakref.WeakSet[Direct | Prefetched] = weakref.WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)  # they are the parent's


@atexit.register
def _close_all() -> None:
    for feed in list(_open):
        feed.close()
    if get_worker_info() is None:
        return
    # Leaving a loop early ends its workers while a thread of their queue may be sending batches. If that thread
    # is inside torch when the interpreter ends, torch aborts the process.
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(_SENDING_LIMIT)
