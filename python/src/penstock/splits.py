"""The splits of a plan, which any process can read separately, in any order."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Self, TypeVar, overload

import pyarrow as pa

from penstock import errors, query
from penstock.bound import BoundQuery
from penstock.plan import Endpoint, Plan
from penstock.progress import ProgressOption
from penstock.reading import Reading
from penstock.servers import Servers
from penstock.settings import Settings
from penstock.stream import Stream

T = TypeVar("T")


class Split:
    """A part of a plan's rows that no other split contains.

    A split can be pickled and read in another process, which opens its own connection.

    Attributes:
        number: its position in the plan.
        name: an id of the rows, which is equal in all plans at the same snapshots.
        ids: the ids of the server's splits in it; several if the plan has more than 1,024.
        rows: the number of rows; None if unknown before reading.
    """

    def __init__(self, bound: BoundQuery, plan: Plan, endpoint: Endpoint, number: int) -> None:
        self._bound = bound
        self._plan = plan
        self._endpoint = endpoint
        self.number = number
        self.ids = endpoint.splits or ()
        self.name = hashlib.sha256(" ".join(self.ids).encode()).hexdigest()[:16]
        self.rows = endpoint.rows

    def read(self, *, progress: ProgressOption = False) -> Stream:
        """Opens the stream of the split's rows. Nothing is read before the first batch is requested.

        The stream uses the plan's ticket. If the ticket has expired or its server is gone, the split is planned again
        at the same snapshots.
        """
        reading = Reading(self._bound, self._plan, self._endpoint)
        stream = Stream(self._bound, [reading], self._plan, ordered=True)
        stream._show_progress(progress)
        return stream

    def __repr__(self) -> str:
        rows = "unknown" if self.rows is None else str(self.rows)
        return f"<penstock.Split {self.number} of {self._bound.name}: {rows} rows>"

    def __reduce__(self) -> tuple[Any, ...]:
        settings, form = self._bound.servers.settings, dict(self._bound.form)
        return (_split, (settings, form, self._plan, self._endpoint, self.number))


def _split(settings: Settings, form: dict[str, Any], plan: Plan, endpoint: Endpoint, number: int) -> Split:
    """Unpickles a split."""
    return Split(BoundQuery(Servers(settings), form), plan, endpoint, number)


class Splits(Sequence[Split]):
    """The splits of a plan, in order. Together, they have every row of the query once."""

    def __init__(self, bound: BoundQuery, plan: Plan, splits: Sequence[Split]) -> None:
        self._bound = bound
        self._plan = plan
        self._splits = tuple(splits)

    @classmethod
    def of(cls, bound: BoundQuery) -> Self:
        """Plans a query as splits.

        Raises:
            Invalid: the query sets another kind of endpoints.
        """
        found = bound.plan()
        # A plan without rows has one endpoint without splits.
        splits = [endpoint for endpoint in found.endpoints if endpoint.splits != ()]
        if any(endpoint.splits is None for endpoint in splits):
            raise query.invalid("endpoints", 'must be "splits" here')
        return cls(bound, found.plan, [Split(bound, found.plan, e, i) for i, e in enumerate(splits)])

    @property
    def plan(self) -> Plan:
        """The server's plan."""
        return self._plan

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._plan.schema

    def map(self, work: Callable[[Stream], T], *, threads: int = 4) -> Iterator[tuple[Split, T]]:
        """Yields each split with the result of `work` on its stream, in order of completion.

        Each stream is closed after `work` returns. At most `threads` splits are started before the first result is
        taken. A failure is raised when it happens and closes the open streams; leaving the iterator also closes them.
        """
        return in_threads(self, work, threads)

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> Splits: ...
    def __getitem__(self, index: int | slice) -> Split | Splits:
        if isinstance(index, slice):
            return Splits(self._bound, self._plan, self._splits[index])
        return self._splits[index]

    def __len__(self) -> int:
        return len(self._splits)

    def __repr__(self) -> str:
        return f"<penstock.Splits of {self._bound.name}: {len(self)} splits of plan {self._plan.id}>"


def in_threads(
    splits: Sequence[Split], work: Callable[[Stream], T], threads: int
) -> Iterator[tuple[Split, T]]:
    """Runs `work` for each split in several threads, and yields the results in order of completion."""
    if threads < 1:
        raise query.invalid("threads", f"must be at least 1, not {threads}")
    return _in_threads(splits, work, threads)


def _in_threads(
    splits: Sequence[Split], work: Callable[[Stream], T], threads: int
) -> Iterator[tuple[Split, T]]:
    streams: set[Stream] = set()
    ended = threading.Event()

    def one(split: Split) -> T:
        with errors.naming(repr(split)), split.read() as stream:
            streams.add(stream)
            if ended.is_set():
                stream.close()
            try:
                return work(stream)
            finally:
                streams.discard(stream)

    left = iter(splits)
    running: dict[Future[T], Split] = {}
    with ThreadPoolExecutor(threads, thread_name_prefix="penstock-split") as pool:
        try:
            while True:
                while len(running) < threads and (split := next(left, None)) is not None:
                    running[pool.submit(one, split)] = split
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    split = running.pop(future)
                    yield split, future.result()
        finally:
            # This makes running calls of work fail.
            ended.set()
            for stream in list(streams):
                stream.close()
