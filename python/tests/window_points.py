"""Points at which shuffled rows are compared with the specification: random queries, and what they return."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow.flight
import shuffled_tables
import window_oracle
from shuffled_tables import Key, World
from window_oracle import Batch, Part, Rules, Seen, Span, Split, Table

import penstock

Query = dict[str, Any]


@dataclass
class Shard:
    """What the stream of a shard returned."""

    batches: list[list[int]] = field(default_factory=list)
    cursors: list[dict[str, Any]] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[int]:
        return [row for batch in self.batches for row in batch]


class Client:
    """Reads as any Flight client does."""

    def __init__(self, address: str) -> None:
        self._flight = pyarrow.flight.connect(f"grpc://{address}")
        self._client = penstock.connect(address)

    def read(self, query: Query) -> list[Shard]:
        """Reads all shards of a query."""
        text = json.dumps({"columns": ["row"], **query})
        planned = self._flight.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(text))
        shards = []
        for endpoint in planned.endpoints:
            shard = Shard()
            reader = self._flight.do_get(endpoint.ticket)
            while True:
                try:
                    chunk = reader.read_chunk()
                except StopIteration:
                    break
                said = json.loads(chunk.app_metadata.to_pybytes())
                if chunk.data is None:
                    shard.report.update(said["report"])
                else:
                    shard.batches.append(chunk.data["row"].to_pylist())
                    shard.cursors.append(said)
            shards.append(shard)
        return shards

    def explain(self, query: Query) -> str:
        """The plan of a query as text, with its splits."""
        fields = {name: value for name, value in query.items() if name != "dataset"}
        return self._client.explain(query["dataset"], splits=True, **fields)

    def close(self) -> None:
        self._flight.close()
        self._client.close()


_SPLIT = re.compile(
    r"^  \d+: [0-9a-f]{16}(?: spec (?P<spec>\d+))?(?: day=(?P<day>\d+))?"
    r"(?: bucket (?P<bucket>\d+) of (?P<of>\d+)| (?P<null>null) bucket)?, (?P<rows>\d+) rows?, ",
    re.MULTILINE,
)
_LANE = re.compile(r"^  \d+: \d+ rows? in \d+ ranges?:(.*)$", re.MULTILINE)


def planned(world: World, explained: str) -> tuple[list[Key], list[list[Span]]]:
    """The partitions of the splits in order, and the ranges of each lane, as explain lists them."""
    keys: list[Key] = []
    for found in _SPLIT.finditer(explained):
        spec, day, bucket, of = (int(v) if (v := found[n]) else None for n in ("spec", "day", "bucket", "of"))
        (key,) = [
            k
            for k in world.stored
            if (spec is None or k[0] == spec)
            and k[1:3] == (day, bucket)
            and (of == k[3] or (found["null"] and k[3] is not None))
        ]
        assert len(world.stored[key]) == int(found["rows"])
        keys.append(key)
    assert sorted(keys, key=repr) == sorted(world.stored, key=repr), "explain lists other splits"
    lanes = []
    for text in _LANE.findall(explained.partition("\nlanes\n")[2]):
        spans = [tuple(int(n) for n in re.split(r"[\[:\]]", span)[:3]) for span in text.split()]
        lanes.append([(split, begin, end) for split, begin, end in spans])
    return keys, lanes


def check_splits(world: World, keys: list[Key]) -> None:
    """Sees that the buckets that agree in their first digits are adjacent, and the null bucket is last."""
    count = world.layout.buckets
    if count is None or world.layout.more_buckets is not None:
        return
    buckets = [bucket for _, _, bucket, _ in keys]
    modulus = 1
    for prime in (p for p in (2, 3, 5, 7, 11, 13) for _ in range(5) if count % p == 0):
        if count % (modulus * prime):
            continue
        modulus *= prime
        residues = [bucket if bucket is None else bucket % modulus for bucket in buckets]
        changes = sum(one != other for one, other in itertools.pairwise(residues))
        assert changes == len(set(residues)) - 1, f"buckets {buckets} modulo {modulus}"
    assert None not in buckets[: len(buckets) - buckets.count(None)]


def stored_order(world: World) -> list[Key] | None:
    """The partitions in the stored order. None for several specs."""
    return None if world.layout.more_buckets is not None else sorted(world.stored, key=place_of)


def place_of(key: Key) -> tuple[int, list[int]]:
    """What compares partitions in the stored order: the day, then the digits of the bucket."""
    _, day, bucket, of = key
    if bucket is None or of is None:
        return day or 0, [of or 0]
    digits, left = [], of
    for prime in (2, 3, 5, 7, 11, 13):
        while left % prime == 0:
            digits.append(bucket % prime)
            bucket, left = bucket // prime, left // prime
    return day or 0, digits


@dataclass
class Point:
    """A query, and the table and rules that it is read by."""

    query: Query
    rules: Rules

    @property
    def lanes(self) -> int:
        lanes: int = self.query["lanes"]
        return lanes

    def other(self, **fields: Any) -> Point:
        """The same with other fields, of which some are rules too."""
        rules = {
            f.removeprefix("shuffle_"): v
            for f, v in fields.items()
            if f in ("shuffle_window", "shuffle_parts")
        }
        return Point({**self.query, **fields}, dataclasses.replace(self.rules, **rules))

    @property
    def size(self) -> str:
        """The field that sets the size of batches."""
        return "batch_requests" if self.rules.requests else "batch_rows"

    def batches(self, per_lane: int, of: int) -> Query:
        """The query of all shards, each lane contributing `per_lane` rows, or requests, to a batch."""
        return {**self.query, "shard": {"of": of}, self.size: per_lane * self.lanes // of}


def draw_point(rng: random.Random, world: World) -> Point:
    """A random query."""
    kind = rng.choices(["requests", "rows", "batches", "distinct"], [5, 3, 2, 1])[0]
    if kind == "distinct" and (world.layout.buckets is None or world.layout.more_buckets is not None):
        kind = "rows"  # repeated rows could be in several splits
    shuffle = (
        rng.choice(["requests", "rows"]) if kind == "distinct" else "rows" if kind == "rows" else "requests"
    )
    largest = 128 if world.layout == shuffled_tables.PLAIN else 4096
    window, parts = int(16 * (largest / 16) ** rng.random()), rng.randrange(1, 9)
    query = {
        "dataset": "distinct" if kind == "distinct" else "rows",
        "order": "shuffled",
        "shuffle": shuffle,
        "shuffle_window": window,
        "seed": rng.randrange(2**40),
        "epoch": rng.randrange(3),
        "lanes": rng.randrange(1, 9),
    }
    if kind == "distinct":
        parts = 1
    elif parts != 8 or rng.random() < 0.5:  # 8 is the default
        query["shuffle_parts"] = parts
    whole = kind in ("batches", "distinct")
    return Point(query, Rules(window, parts, kind == "distinct", whole, shuffle, kind == "batches"))


def table_of(world: World, keys: list[Key], point: Point, dropped: set[int]) -> Table:
    """The splits of a plan, and the rows that are kept."""
    splits = [
        Split(None if of is None else (bucket, of), world.stored[key], place_of(key))
        for key in keys
        for _, _, bucket, of in [key]
    ]
    kept = set(world.rows) - world.deleted - dropped
    if point.query["dataset"] == "distinct":
        for split in splits:
            known = set()
            for row in (r for r in split.rows if r in kept):
                values = (
                    world.rows[row].request,
                    world.rows[row].item,
                    world.rows[row].day if world.layout.days else 0,
                )
                if values in known:
                    kept.remove(row)
                known.add(values)
    return Table(splits, {row: r.request for row, r in world.rows.items()}, kept)


def check_lanes(table: Table, lanes: list[list[Span]], point: Point) -> list[float]:
    """Sees that splits are assigned to lanes as specified, and returns where they are cut, as shares of a split."""
    cuts = []

    def cut(lane: int, number: int) -> int:
        at = window_oracle.where_cut(lanes, lane, number)
        rows = len(table.splits[lanes[lane][number][0]].rows)
        cuts.append((at + _DITHER.random()) / rows)
        return at

    assert lanes == window_oracle.deal(table.splits, point.lanes, point.rules.whole, cut)
    return cuts


_DITHER = random.Random(6)


@dataclass
class Read:
    """A point that was read lane by lane, and checked."""

    table: Table
    lanes: list[list[Seen]]
    parts: list[Part]

    @property
    def rows(self) -> list[list[int]]:
        """The rows of each lane."""
        return [[row for seen in lane for row in seen.rows] for lane in self.lanes]


def read(client: Client, world: World, point: Point, dropped: set[int] | None = None) -> Read:
    """Reads a point a row, or request, of each lane at a time, and checks splits, lanes, windows and parts."""
    keys, lanes = planned(world, client.explain(point.batches(1, point.lanes)))
    check_splits(world, keys)
    table = table_of(world, keys, point, dropped or set())
    check_lanes(table, lanes, point)
    found: list[list[Seen]] = []
    reports = []
    for lane, shard in zip(lanes, client.read(point.batches(1, point.lanes)), strict=True):
        positions = [cursor["at"][0] for cursor in shard.cursors]
        batches = [
            Batch(rows, (at["split"], at["window"], at["row"]))
            for rows, at in zip(shard.batches, positions, strict=True)
        ]
        found.append(
            window_oracle.observe(window_oracle.runs(table, lane, point.rules), batches, point.rules)
        )
        reports.append(shard.report)
    every = [seen for lane in found for seen in lane]
    for seen in every:
        window_oracle.check_order(table, seen, point.rules)
    if point.rules.requests:
        window_oracle.check_requests(table, every)
    if point.rules.shuffle == "requests" and point.query["dataset"] == "rows":
        for (low, high), report in zip(window_oracle.divided(table, found), reports, strict=True):
            assert low <= report.get("divided_requests", 0) <= high
    return Read(
        table, found, [part for seen in every for part in window_oracle.parts(table, seen, point.rules)]
    )
