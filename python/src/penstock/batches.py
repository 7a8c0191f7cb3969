"""The common base of streams and mixes: an iterator of batches for one thread at a time."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import ClassVar, NoReturn, Self

import pyarrow as pa

from penstock import errors


class BatchIterator(ABC):
    """An iterator of record batches. After a failed read, every further read raises the same exception."""

    _what: ClassVar[str]  # the name of this kind of iterator, for messages
    _for_threads: ClassVar[str]  # what to open for each thread, for messages
    _closed = False

    def __init__(self) -> None:
        """Prepares to read the first batch."""
        self._failure: errors.Error | None = None
        self._done = False
        self._began: float | None = None
        self._seconds = 0.0  # from the first request to the latest batch
        self._waited = 0.0  # the part of _seconds spent waiting for batches
        self._lock = threading.Lock()  # gRPC aborts the process if two threads read

    @abstractmethod
    def _next(self) -> pa.RecordBatch | None:
        """Returns the next batch; None at the end."""

    @abstractmethod
    def close(self) -> None:
        """Ends reading."""

    @abstractmethod
    def _came(self, batch: pa.RecordBatch | None) -> None:
        """Called before a batch is returned, and with None at the end."""

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Returns an iterator over the remaining batches.

        Raises:
            Invalid: the iterator has ended. Without this error, a second loop would seem to read an empty result.
        """
        self._refuse_ended()
        return _Remaining(self)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuses conversion to an array: pandas and NumPy would fill it with batches instead of values."""
        raise TypeError(
            f"a {self._what} cannot become an array: use to_pandas() of a stream, or of each batch"
        )

    def _refuse_ended(self) -> None:
        if self._done:
            raise errors.Invalid(f"the {self._what} was already read to its end", remedy="read again")

    def __next__(self) -> pa.RecordBatch:
        if not self._lock.acquire(blocking=False):
            raise errors.Invalid(
                f"another thread is reading this {self._what}",
                remedy=f"guard it with a lock, or open {self._for_threads}",
            )
        try:
            return self._read_next()
        finally:
            self._lock.release()

    def _read_next(self) -> pa.RecordBatch:
        if self._done:
            raise StopIteration
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise errors.Invalid(
                f"the {self._what} is closed, and was not read to its end",
                remedy="read again from its cursor",
            )
        began = time.monotonic()
        if self._began is None:
            self._began = began
        try:
            batch = self._next()
        except errors.Error as e:
            self._failure = e
            self.close()
            raise
        except BaseException:
            self.close()  # interrupted in the middle of a message
            raise
        came = time.monotonic()
        self._waited += came - began
        self._seconds = came - self._began
        self._done = batch is None
        self._came(batch)
        if batch is None:
            raise StopIteration
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Remaining(Iterator[pa.RecordBatch]):
    """The iterator that iter(reader) returns. It allows iter() after the end, which itertools.islice calls."""

    def __init__(self, reader: BatchIterator) -> None:
        self._reader = reader

    def __next__(self) -> pa.RecordBatch:
        return next(self._reader)
