"""Simulate which lane a split comes to in successive epochs, and how well batches are mixed.

Three ways to assign splits to lanes are compared:

- `fewest`: each split goes to the lane with the fewest rows.
- `together`: so it does, but splits of one bucket go to one lane until that lane is full. The server does this.
- `classes`: the splits of a bucket go to a lane that is congruent to the bucket, modulo the greatest common
  divisor of the numbers of lanes and buckets, as long as one of these is below its quota. The rest
  then goes to the lanes with the fewest rows.

Splits are cut where a lane is full; the server cuts them at drawn rows. The table is simulated: rows ordered by time over some days, in requests of five, by bucket of the
request, with and without day partitions. Splits, runs and windows are those of docs/spec/order.md.

    .venv/bench/bin/python benchmarks/lanes.py [--epochs 20] [--lanes 1 2 4 8 16 32] [--skew 0.3]
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

ROWS, DAYS, BUCKETS, REQUEST, BATCH, WINDOW, PARTS = 300_000, 20, 16, 5, 1024, 2048, 8


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows of one bucket: of one day, or of all days."""

    bucket: int
    day: int
    rows: np.ndarray  # numbers of rows, as stored


Range = tuple[int, int, int]  # a split, and its rows from and to
Lanes = list[list[Range]]


def draw(*words: object) -> int:
    """A number that depends only on the words."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "big")


def splits_of(buckets: np.ndarray, by_day: bool) -> list[Split]:
    """The splits of a table whose row i is of bucket buckets[i]."""
    days = np.arange(len(buckets)) * DAYS // len(buckets)
    made = []
    for bucket in range(BUCKETS):
        for day in range(DAYS) if by_day else [-1]:
            rows = np.flatnonzero((buckets == bucket) & (days == day if by_day else True))
            if len(rows):
                made.append(Split(bucket, day, rows))
    return made


def in_order(splits: list[Split], epoch: int) -> list[int]:
    """The splits in the shuffled order of an epoch, by number."""

    def key(number: int) -> tuple[list[int], int]:
        bucket, digits, modulus = splits[number].bucket, [], 1
        while modulus < BUCKETS:  # BUCKETS is a power of two
            drawn = sorted(range(2), key=lambda d: draw(epoch, "digit", modulus, bucket % modulus, d))
            digits.append(drawn.index(bucket // modulus % 2))
            modulus *= 2
        return digits, draw(epoch, "partition", bucket, splits[number].day)

    return sorted(range(len(splits)), key=key)


def quotas(splits: list[Split], count: int) -> list[int]:
    """How many rows each lane gets."""
    total = sum(len(s.rows) for s in splits)
    return [total // count + (lane < total % count) for lane in range(count)]


def fewest(splits: list[Split], order: list[int], count: int) -> Lanes:
    """Assign each split to the lane with the fewest rows."""
    assigned = Assigned(splits, count)
    for number in order:
        assigned.add((number, 0, len(splits[number].rows)), range(count), near=False)
    return assigned.lanes


def together(splits: list[Split], order: list[int], count: int) -> Lanes:
    """Assign the splits of a bucket to one lane as long as it has room."""
    assigned = Assigned(splits, count)
    for number in order:
        assigned.add((number, 0, len(splits[number].rows)), range(count))
    return assigned.lanes


def classes(splits: list[Split], order: list[int], count: int) -> Lanes:
    """Assign splits to lanes of their residue class, and then the rest to the others."""
    modulus, assigned, rest = math.gcd(count, BUCKETS), Assigned(splits, count), list[Range]()
    for number in order:
        own = range(splits[number].bucket % modulus, count, modulus)
        rest += assigned.add((number, 0, len(splits[number].rows)), own)
    for left in rest:
        assigned.add(left, range(count), near=False)
    return assigned.lanes


class Assigned:
    """The ranges of each lane, with their rows and quotas."""

    def __init__(self, splits: list[Split], count: int) -> None:
        self.splits = splits
        self.quota = quotas(splits, count)
        self.rows = [0] * count
        self.lanes: Lanes = [[] for _ in range(count)]
        self.last = 0
        self.bucket = -1

    def add(self, left: Range, own: range, near: bool = True) -> list[Range]:
        """Assign a range to the own lanes with the fewest rows, and return what finds none below its quota.

        If near, it goes to the lane of the range before it, if both are of one bucket.
        """
        number, at, end = left
        near = near and self.splits[number].bucket == self.bucket
        self.bucket = self.splits[number].bucket
        while at < end:
            below = [lane for lane in own if self.rows[lane] < self.quota[lane]]
            if not below:
                return [(number, at, end)]
            if not near or self.last not in below:
                self.last = min(below, key=lambda i: (self.rows[i], i))
            until = min(end, at + self.quota[self.last] - self.rows[self.last])
            self.lanes[self.last].append((number, at, until))
            self.rows[self.last] += until - at
            at, near = until, False
        return []


def runs(splits: list[Split], lane: list[Range]) -> Iterator[np.ndarray]:
    """The rows of each run of a lane: consecutive ranges of one bucket, and cut ones behind them."""
    bucket, rows = None, list[np.ndarray]()
    for number, begin, end in lane:
        if rows and end - begin == len(splits[number].rows) and splits[number].bucket != bucket:
            yield np.sort(np.concatenate(rows))
            rows = []
        bucket = splits[number].bucket
        rows.append(splits[number].rows[begin:end])
    if rows:
        yield np.sort(np.concatenate(rows))


def parted(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The rows of a run in the order of an epoch: of each window, requests by a drawn priority."""
    windows = math.ceil(len(rows) / WINDOW)
    blocks = list[list[np.ndarray]]()
    for part in np.array_split(rows, PARTS):  # the first parts have one row more
        turned = np.roll(part, -int(random.integers(max(len(part), 1))))
        blocks.append(np.array_split(turned, windows))
    out = list[np.ndarray]()
    for window in range(windows):
        inside = np.sort(np.concatenate([block[window] for block in blocks]))
        requests, of = np.unique(inside // REQUEST, return_inverse=True)
        out.append(inside[np.argsort(random.permutation(len(requests))[of], kind="stable")])
    return np.concatenate(out)


def batches(splits: list[Split], lanes: Lanes, random: np.random.Generator) -> np.ndarray:
    """All full batches of an epoch: a row of numbers of rows for each."""
    of_lane = [np.concatenate([parted(run, random) for run in runs(splits, lane)]) for lane in lanes]
    share = BATCH // len(lanes)
    steps = min(len(rows) for rows in of_lane) // share
    return np.concatenate([rows[: steps * share].reshape(steps, share) for rows in of_lane], axis=1)


def deviation_of_days(read: np.ndarray) -> float:
    """The standard deviation of the mean day of batches, over that of draws of whole requests."""
    day = DAYS / ROWS
    drawn = day * ROWS / math.sqrt(12) * math.sqrt(REQUEST / BATCH)
    return float((read * day).mean(axis=1).std() / drawn)


def deviation_of_buckets(buckets: np.ndarray, read: np.ndarray) -> float:
    """The root of the mean square of the rows per bucket of batches, over that of draws of whole requests."""
    expected = np.bincount(buckets, minlength=BUCKETS) * BATCH / ROWS
    squares = [
        float(((np.bincount(buckets[batch], minlength=BUCKETS) - expected) ** 2 / expected).sum())
        for batch in read
    ]
    return math.sqrt(float(np.mean(squares)) / (BUCKETS - 1) / REQUEST)


def again(first: np.ndarray, second: np.ndarray) -> float:
    """How often two rows of different requests that shared a batch share one again, over chance."""
    batch_of = np.full(ROWS, -1)
    batch_of[second.ravel()] = np.repeat(np.arange(len(second)), second.shape[1])
    shared, pairs = 0, 0
    for batch in first:
        known = batch[batch_of[batch] >= 0]
        shared += ordered_pairs(batch_of[known]) - ordered_pairs(
            known // REQUEST * len(second) + batch_of[known]
        )
        pairs += len(known) ** 2 - ordered_pairs(known // REQUEST)
    return shared / pairs * len(second)


def ordered_pairs(values: np.ndarray) -> int:
    """The number of ordered pairs of equal values, each value with itself included."""
    return int((np.unique(values, return_counts=True)[1] ** 2).sum())


def kept(before: Lanes, after: Lanes) -> float:
    """The share of rows that come to the lane to which they came before."""

    def lane_of(lanes: Lanes) -> dict[int, list[tuple[int, int, int]]]:
        found: dict[int, list[tuple[int, int, int]]] = {}
        for lane, ranges in enumerate(lanes):
            for number, begin, end in ranges:
                found.setdefault(number, []).append((begin, end, lane))
        return found

    first, second, same, total = lane_of(before), lane_of(after), 0, 0
    for number, ranges in first.items():
        for begin, end, lane in ranges:
            total += end - begin
            for start, stop, other in second.get(number, []):
                same += max(0, min(end, stop) - max(begin, start)) if lane == other else 0
    return same / total


def open_at_once(splits: list[Split], lanes: Lanes) -> float:
    """How many buckets the lanes read at the same time, on average."""
    of_lane = [
        np.concatenate([np.full(end - begin, splits[number].bucket) for number, begin, end in lane])
        for lane in lanes
    ]
    steps = range(0, min(len(b) for b in of_lane), 64)
    return float(np.mean([len({int(b[step]) for b in of_lane}) for step in steps]))


@dataclasses.dataclass
class Figures:
    """What a way to assign splits gives: the share kept from each epoch to the next, and means over epochs."""

    kept: list[float]
    met: float
    at_once: float
    unequal: int
    day: float
    bucket: float
    again: float


Way = Callable[[list[Split], list[int], int], Lanes]


def simulate(buckets: np.ndarray, splits: list[Split], way: Way, count: int, epochs: int) -> Figures:
    """Read the table for several epochs."""
    random = np.random.default_rng(7)
    dealt = [way(splits, in_order(splits, epoch), count) for epoch in range(epochs)]
    read = [batches(splits, lanes, random) for lanes in dealt[:6]]
    rows = [sum(end - begin for _, begin, end in lane) for lanes in dealt for lane in lanes]
    return Figures(
        kept=[100 * kept(a, b) for a, b in itertools.pairwise(dealt)],
        met=float(
            np.mean(
                [len({splits[number].bucket for number, _, _ in lane}) for lanes in dealt for lane in lanes]
            )
        ),
        at_once=float(np.mean([open_at_once(splits, lanes) for lanes in dealt[:6]])),
        unequal=max(rows) - min(rows),
        day=float(np.mean([deviation_of_days(epoch) for epoch in read])),
        bucket=float(np.mean([deviation_of_buckets(buckets, epoch) for epoch in read])),
        again=float(np.mean([again(a, b) for a, b in itertools.pairwise(read)])),
    )


def table_of(skew: float) -> np.ndarray:
    """The bucket of each row: that of its request, where bucket 0 has this share of all requests."""
    random = np.random.default_rng(1)
    shares = np.full(BUCKETS, (1 - skew) / BUCKETS)
    shares[0] += skew
    return np.repeat(random.choice(BUCKETS, ROWS // REQUEST, p=shares), REQUEST)


def main() -> None:
    """Print a table for each layout."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument(
        "--skew", type=float, default=0.0, help="the share of requests that bucket 0 has beyond its own"
    )
    arguments = parser.parse_args()
    buckets = table_of(arguments.skew)
    for by_day in (False, True):
        print(f"\n{BUCKETS} buckets, {f'{DAYS} day partitions' if by_day else 'no other partitions'}\n")
        print(
            "| lanes | assigned | rows that keep their lane | by chance | buckets of a lane | buckets at once |",
            end="",
        )
        print(" rows of lanes differ by | deviation of day | of bucket | pairs again, times chance |")
        print("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        splits = splits_of(buckets, by_day)
        for count in arguments.lanes:
            for way in (fewest, together, classes):
                f = simulate(buckets, splits, way, count, arguments.epochs)
                print(
                    f"| {count} | {way.__name__} | {np.mean(f.kept):.1f} ({min(f.kept):.0f} to {max(f.kept):.0f}) % | {100 / count:.1f} % | {f.met:.1f} | {f.at_once:.1f} |"
                    f" {f.unequal} | {f.day:.2f} | {f.bucket:.2f} | {f.again:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
