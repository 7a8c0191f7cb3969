"""What the specification promises of shuffled windows, checked on rows that were read.

Runs, parts, blocks and windows are derived here from docs/spec/order.md and the files alone; nothing of
the server is in it. The rows at which parts begin are drawn by the server: they are inferred from the rows
of each window, and every row must agree with one of them.
"""

from __future__ import annotations

import functools
import graphlib
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

Span = tuple[int, int, int]
"""A range of a lane: a split's number, and its stored rows from and to."""


@dataclass(frozen=True)
class Rules:
    """How rows are shuffled: `parts` of a run, `ranged` if each range is a run, `whole` if no split is cut.

    `shuffle` is "requests" or "rows", and `requests` whether batches are of whole requests.
    """

    window: int
    parts: int = 8
    ranged: bool = False
    whole: bool = False
    shuffle: str = "requests"
    requests: bool = False


@dataclass(frozen=True)
class Split:
    """The rows of a split as they are stored, by number, and its bucket: (number, count), or None.

    `place` compares splits in the stored order.
    """

    bucket: tuple[int | None, int] | None
    rows: list[int]
    place: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Table:
    """Splits in order, the request of each row (None for a null key), and the rows that are kept."""

    splits: list[Split]
    request: dict[int, int | None]
    kept: set[int]

    @functools.cached_property
    def firsts(self) -> set[int]:
        """The first kept row of each request."""
        return {request[0] for request in self.requests}

    @functools.cached_property
    def requests(self) -> list[list[int]]:
        """The kept rows of each split, cut where the request changes."""
        found: list[list[int]] = []
        for split in self.splits:
            before: int | None = None
            for row in (r for r in split.rows if r in self.kept):
                key = self.request[row]
                if key is None or key != before:
                    found.append([])
                found[-1].append(row)
                before = key
        return found


def shares(rows: int, of: int) -> list[int]:
    """The borders of `of` consecutive shares, of which the first rows mod of have one more."""
    size, more = divmod(rows, of)
    return [i * size + min(i, more) for i in range(of + 1)]


def deal(
    splits: Sequence[Split], lanes: int, whole: bool, begin: Callable[[int, int], int] | None = None
) -> list[list[Span]]:
    """Assigns splits to lanes: the one with the fewest rows, cut at its share of all rows.

    `begin` is given with windows. Then the splits of a bucket come together to one lane, as far as it has room, if
    splits may be cut; and it is where the first of several lanes begins that share a split, which goes round,
    by the number of its first range in the lane.
    """
    sizes = [len(split.rows) for split in splits]
    borders = shares(sum(sizes), lanes)
    quota = [math.inf if whole else borders[i + 1] - borders[i] for i in range(lanes)]
    dealt: list[list[Span]] = [[] for _ in range(lanes)]
    rows = [0] * lanes
    lane = 0
    for split, size in enumerate(sizes):
        bucket = splits[split].bucket
        same = begin and split > 0 and not whole and bucket is not None and bucket == splits[split - 1].bucket
        at, left = 0, size
        while left:
            if left < size or not same or rows[lane] == quota[lane]:
                lane = min((i for i in range(lanes) if rows[i] < quota[i]), key=lambda i: rows[i])
            count = int(min(left, quota[lane] - rows[lane]))
            if left == size > count and begin is not None:
                at = begin(lane, len(dealt[lane]))
            if at + count > size:
                dealt[lane].append((split, 0, at + count - size))
            dealt[lane].append((split, at, min(size, at + count)))
            rows[lane] += count
            left -= count
            at = (at + count) % size
    return dealt


def where_cut(lanes: Sequence[Sequence[Span]], lane: int, number: int) -> int:
    """Where the rows of a split begin in a lane of a plan, going round, if the first of its ranges has a number."""
    ranges = [span for span in lanes[lane][number : number + 2] if span[0] == lanes[lane][number][0]]
    return ranges[-1][1]


@dataclass(frozen=True)
class Run:
    """Consecutive ranges of a lane that are of one bucket, or of none: the number of its first range, and its rows."""

    first: int
    rows: list[int]


def runs(table: Table, lane: Sequence[Span], rules: Rules) -> list[Run]:
    """The runs of a lane."""
    found: list[Run] = []
    spans: list[list[Span]] = []
    before: tuple[int | None, int] | None = None
    for number, (split, begin, end) in enumerate(lane):
        bucket = table.splits[split].bucket
        cut = end - begin < len(table.splits[split].rows)
        if not found or rules.ranged or (not cut and bucket != before):
            found.append(Run(number, []))
            spans.append([])
        spans[-1].append((split, begin, end))
        before = bucket
    for run, of in zip(found, spans, strict=True):
        for split, begin, end in sorted(of, key=lambda span: table.splits[span[0]].place):
            run.rows.extend(table.splits[split].rows[begin:end])
    return found


@dataclass(frozen=True)
class Batch:
    """Rows of one lane that came together, and the position after them: range, window, rows of the window."""

    rows: list[int]
    after: tuple[int, int, int]


@dataclass
class Seen:
    """The rows of a run in the order in which they came, with the first and last window that each can be of."""

    run: Run
    rows: list[int] = field(default_factory=list)
    windows: list[tuple[int, int]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)  # the number of the batch of each row

    def by_window(self) -> list[list[int]]:
        """The rows of each window; a batch whose window is not certain is a window by itself."""
        found: list[list[int]] = []
        before: tuple[int, int, int] | None = None
        for row, (low, high), batch in zip(self.rows, self.windows, self.batches, strict=True):
            window = (low, high, -1 if low == high else batch)
            if window != before:
                found.append([])
            found[-1].append(row)
            before = window
        return found


def windows(run: Run, rules: Rules) -> int:
    """How many windows a run has."""
    return -(-len(run.rows) // rules.window)


def observe(of_lane: Sequence[Run], batches: Iterable[Batch], rules: Rules) -> list[Seen]:
    """The windows of a lane's rows, from the positions between which each came."""
    seen = [Seen(run) for run in of_lane]
    where = {row: number for number, run in enumerate(of_lane) for row in run.rows}
    before, at = (0, 0, 0), 0
    for count, batch in enumerate(batches):
        numbers = {where[row] for row in batch.rows}
        assert len(numbers) == 1, f"rows {batch.rows} of one batch are of runs {sorted(numbers)}"
        (number,) = numbers
        assert number >= at, f"row {batch.rows[0]} of run {number} comes after rows of run {at}"
        at, run = number, of_lane[number]
        last = windows(run, rules) - 1
        if batch.after[2] > 0:
            inside = batch.after
            rows = len(batch.rows) + (before[2] if before[:2] == inside[:2] else 0)
            assert inside[2] == rows, f"position {inside} after {before} and {len(batch.rows)} rows"
        else:  # the end of a window, which may have begun with this batch
            inside = before
        assert inside[0] == run.first or batch.after[2] == 0, (
            f"{inside} is not in the run of range {run.first}"
        )
        low = high = inside[1]
        if batch.after[2] == 0:
            low = before[1] if before[0] == run.first else 0
            high = batch.after[1] - 1 if batch.after[0] == run.first else last
        assert 0 <= low <= high <= last, (
            f"windows {low} to {high} of {last + 1}, between {before} and {batch.after}"
        )
        seen[number].rows += batch.rows
        seen[number].windows += [(low, high)] * len(batch.rows)
        seen[number].batches += [count] * len(batch.rows)
        before = batch.after
    return seen


def check_order(table: Table, seen: Seen, rules: Rules) -> None:
    """Sees that windows come one after the other, with the rows of a request adjacent and as stored."""
    kept = [row for row in seen.run.rows if row in table.kept]
    assert sorted(seen.rows) == sorted(kept), "a run has other rows than those that are kept"
    lows = [low for low, _ in seen.windows]
    assert lows == sorted(lows), "windows do not come in order"
    if rules.shuffle != "requests":
        return
    place = {row: at for at, row in enumerate(seen.run.rows)}
    for window in seen.by_window():
        left: set[int] = set()
        for one, other in itertools.pairwise(window):
            key, following = table.request[one], table.request[other]
            if key is not None and key == following:
                assert place[one] < place[other], (
                    f"rows {one} and {other} of request {key} have turned around"
                )
            elif key is not None:
                left.add(key)
            assert following not in left, f"request {following} is in two places of a window"


@dataclass(frozen=True)
class Part:
    """A part of a run: the first row of the run, its number, its rows, and those that it can begin at.

    `start` is the place at which it begins, or None if some of its rows were dropped, or it has one window.
    """

    run: int
    number: int
    rows: int
    starts: np.ndarray[Any, np.dtype[np.bool_]]
    start: int | None


def parts(table: Table, seen: Seen, rules: Rules) -> list[Part]:
    """The parts of a run, with the rows at which each can begin: at least one, or the windows are wrong."""
    count, total = windows(seen.run, rules), len(seen.run.rows)
    window_of = dict(zip(seen.rows, seen.windows, strict=True))
    borders = shares(total, rules.parts)
    found: list[Part] = []
    for number, (begin, end) in enumerate(itertools.pairwise(borders)):
        blocks = shares(end - begin, count)
        constraints = [
            (place, blocks[window_of[row][0]], blocks[window_of[row][1] + 1])
            for place, row in enumerate(_decided(table, seen.run.rows[begin:end], rules))
            if row in window_of
        ]
        matches = _matches(end - begin, constraints)
        agree = matches == len(constraints)
        exact = len(constraints) == end - begin and agree.sum() == 1
        start = int(agree.argmax()) if exact and count > 1 and end - begin > 1 else None
        part = Part(seen.run.rows[0], number, end - begin, agree, start)
        if end > begin and not agree.any():
            best = int(matches.argmax())
            wrong = [p for p, low, high in constraints if not low <= (p - best) % (end - begin) < high]
            places = [(p, window_of[seen.run.rows[begin + p]]) for p in wrong]
            raise AssertionError(
                f"part {number} of the run of range {seen.run.first}, {count} windows: its {end - begin} rows can "
                f"begin nowhere; from row {best} on, {len(places)} are in other windows: {places[:9]}"
            )
        if rules.ranged and end > begin:
            assert agree[0], "a run of a single range begins at another row than its first"
        found.append(part)
    return found


def _decided(table: Table, rows: Sequence[int], rules: Rules) -> list[int]:
    """The rows whose own place decides their window; -1 for others. Requests go with their first row."""
    if not rules.requests:
        return list(rows)
    return [row if row in table.firsts else -1 for row in rows]


def _matches(rows: int, constraints: Sequence[tuple[int, int, int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each start, how many places are at least `low` and less than `high` rows away from it, going round."""
    changes = np.zeros(rows + 1, np.int64)
    for place, low, high in constraints:
        first, last = place - high + 1, place - low  # the starts that agree, modulo rows
        if last < first:
            continue
        if first < 0 <= last:
            changes[[0, last + 1]] += [1, -1]
            changes[[first + rows, rows]] += [1, -1]
        else:
            shift = rows if last < 0 else 0
            changes[[first + shift, last + shift + 1]] += [1, -1]
    return np.cumsum(changes)[:rows]


def check_requests(table: Table, seen: Sequence[Seen]) -> None:
    """Sees that all rows of a request are in the window of its first row."""
    window_of = {row: (id(s), w) for s in seen for row, w in zip(s.rows, s.windows, strict=True)}
    for request in table.requests:
        places = {window_of[row] for row in request if row in window_of}
        assert len(places) <= 1, f"the request of rows {request} is in several windows"


def divided(table: Table, lanes: Sequence[Sequence[Seen]]) -> list[tuple[int, int]]:
    """For each lane, how many of its rows continue a request of another window: at least, at most."""
    where = {
        row: (lane, number, window)
        for lane, seen in enumerate(lanes)
        for number, s in enumerate(seen)
        for row, window in zip(s.rows, s.windows, strict=True)
    }
    found = [(0, 0)] * len(lanes)
    for request in table.requests:
        for one, other in itertools.pairwise(request):
            (lane, number, window), before = where[other], where[one]
            apart = before[:2] != (lane, number)
            certain = apart or window[0] > before[2][1] or window[1] < before[2][0]
            possible = certain or not window[0] == window[1] == before[2][0] == before[2][1]
            low, high = found[lane]
            found[lane] = (low + certain, high + possible)
    return found


def units(table: Table, window: Sequence[int]) -> list[list[int]]:
    """The rows of a window by request; those with a null key are alone."""
    found: list[list[int]] = []
    before: int | None = None
    for row in window:
        key = table.request[row]
        if key is None or key != before:
            found.append([])
        found[-1].append(row)
        before = key
    return found


class Priorities:
    """The order of requests or rows in all windows of a seed and epoch, which must be that of one list."""

    def __init__(self) -> None:
        self._before: dict[Hashable, set[Hashable]] = {}

    def add(self, table: Table, seen: Seen, rules: Rules) -> None:
        """Adds the windows of a run."""
        for window in seen.by_window():
            units: list[Hashable] = []
            for row in window:
                unit = table.request[row] if rules.shuffle == "requests" else row
                if unit is not None and (not units or units[-1] != unit):
                    units.append(unit)
            for one, other in itertools.pairwise(units):
                self._before.setdefault(other, set()).add(one)

    def check(self) -> None:
        """Fails if a request or row comes before another in one window, and after it in another."""
        try:
            graphlib.TopologicalSorter(self._before).prepare()
        except graphlib.CycleError as wrong:
            raise AssertionError(f"priorities differ between windows: {wrong.args[1]}") from None


Unit = TypeVar("Unit")


def steps(lanes: Sequence[Sequence[Unit]], shard: int, of: int, count: int) -> list[list[Unit]]:
    """The batches of a shard whose lanes contribute `count` rows, or requests, to each."""
    own = lanes[shard::of]
    batches = max((-(-len(lane) // count) for lane in own), default=0)
    return [
        [unit for lane in own for unit in lane[step * count : (step + 1) * count]] for step in range(batches)
    ]
