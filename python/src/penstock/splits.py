"""The splits of a plan, each of which is read on its own: in any order, by any process."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Self, TypeVar, overload

import pyarrow as pa

from penstock import errors, query
from penstock.asked import Asked
from penstock.channel import Settings
from penstock.plan import Endpoint, Plan
from penstock.progress import Wanted
from penstock.reading import Reading
from penstock.servers import Servers
from penstock.stream import Stream

T = TypeVar("T")


class Split:
    """Some of a plan's rows, which no other split of it has.

    It can be pickled and read in another process, which then has a connection of its own.

    Attributes:
        number: its place in the plan's order.
        name: the same for the same rows whenever they are planned at the same snapshots.
        ids: of the splits that it stands for, where a plan has more than 1,024 of them.
        rows: None if nobody knows them before reading.
    """

    def __init__(self, asked: Asked, plan: Plan, endpoint: Endpoint, number: int) -> None:
        self._asked = asked
        self._plan = plan
        self._endpoint = endpoint
        self.number = number
        self.ids = endpoint.splits or ()
        self.name = hashlib.sha256(" ".join(self.ids).encode()).hexdigest()[:16]
        self.rows = endpoint.rows

    def read(self, *, progress: Wanted = False) -> Stream:
        """Opens the stream of its rows. Nothing is read before the first batch.

        Its ticket is the one of the plan; where that is too old, or of a server that is gone, the split is
        planned again, at the same snapshots.
        """
        reading = Reading(self._asked, self._plan, self._endpoint, self._asked.servers.current)
        stream = Stream(self._asked, [reading], self._plan, ordered=True)
        stream.show_progress(progress)
        return stream

    def __repr__(self) -> str:
        rows = "unknown" if self.rows is None else str(self.rows)
        return f"<penstock.Split {self.number} of {self._asked.name}: {rows} rows>"

    def __reduce__(self) -> tuple[Any, ...]:
        settings, form = self._asked.servers.settings, dict(self._asked.form)
        return (_split, (settings, form, self._plan, self._endpoint, self.number))


def _split(settings: Settings, form: dict[str, Any], plan: Plan, endpoint: Endpoint, number: int) -> Split:
    """Makes a split of what was pickled."""
    return Split(Asked(Servers(settings), form), plan, endpoint, number)


class Splits(Sequence[Split]):
    """The splits of a plan, in its order. All of them together have every row of the query once."""

    def __init__(self, asked: Asked, plan: Plan, splits: Sequence[Split]) -> None:
        self._asked = asked
        self._plan = plan
        self._splits = tuple(splits)

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """Plans a query as splits.

        Raises:
            Invalid: the query asks for other endpoints.
        """
        found = asked.found()
        # A plan without rows has one endpoint, which is of no split.
        splits = [endpoint for endpoint in found.endpoints if endpoint.splits != ()]
        if any(endpoint.splits is None for endpoint in splits):
            raise query.invalid("endpoints", "the server listed shards, and splits are to be read")
        return cls(asked, found.plan, [Split(asked, found.plan, e, i) for i, e in enumerate(splits)])

    @property
    def plan(self) -> Plan:
        """What the server planned."""
        return self._plan

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._plan.schema

    def map(self, work: Callable[[Stream], T], *, threads: int = 4) -> Iterator[tuple[Split, T]]:
        """Gives each split with what `work` makes of its stream, as they are done.

        The streams are closed behind `work`. At most so many splits are begun before the first result is
        taken as there are threads. A failure is raised when it happens, and ends the streams that are open; so
        does leaving the iterator.
        """
        return in_threads(self, work, threads)

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> Splits: ...
    def __getitem__(self, index: int | slice) -> Split | Splits:
        if isinstance(index, slice):
            return Splits(self._asked, self._plan, self._splits[index])
        return self._splits[index]

    def __len__(self) -> int:
        return len(self._splits)

    def __repr__(self) -> str:
        return f"<penstock.Splits of {self._asked.name}: {len(self)} splits of plan {self._plan.id}>"


def in_threads(
    splits: Sequence[Split], work: Callable[[Stream], T], threads: int
) -> Iterator[tuple[Split, T]]:
    """Does some work for each split, in so many threads, and gives the results as they are done."""
    if threads < 1:
        raise query.invalid("threads", f"must be at least 1, not {threads}")
    return _in_threads(splits, work, threads)


def _in_threads(
    splits: Sequence[Split], work: Callable[[Stream], T], threads: int
) -> Iterator[tuple[Split, T]]:
    streams: set[Stream] = set()
    ended = threading.Event()

    def one(split: Split) -> T:
        with split.read() as stream:
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
                    try:
                        result = future.result()
                    except errors.Error as e:
                        e.add_note(f"This was {split!r}.")
                        raise
                    yield split, result
        finally:
            # Those that still run find their streams closed.
            ended.set()
            for stream in list(streams):
                stream.close()
