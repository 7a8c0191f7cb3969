"""Shuffled rows of random tables, compared with the specification of runs, parts and windows."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import shuffled_tables
import window_oracle
from server import Server
from shuffled_tables import World
from window_draws import Drawn
from window_oracle import Priorities, steps, units
from window_points import (
    Client,
    Point,
    Read,
    Shard,
    check_lanes,
    draw_point,
    planned,
    read,
    stored_order,
    table_of,
)

TABLES, POINTS = 4, 5  # of each test
LONG = bool(os.environ.get("PENSTOCK_LONG"))


def check_dropped(client: Client, world: World, point: Point, base: Read) -> None:
    """Sees that rows which a filter, a join or a sample drops leave the order of the others."""
    filtered = {row for row, r in world.rows.items() if not r.text.endswith("y")}
    if point.rules.requests or point.query["dataset"] == "distinct":
        # What is dropped decides which rows are first: of a request, or of equal rows.
        if point.rules.requests:
            read(client, world, point.other(filter=shuffled_tables.FILTER), filtered)
        return
    of_lanes = point.batches(7, point.lanes)
    for lane, shard in zip(
        base.rows, client.read({**of_lanes, "filter": shuffled_tables.FILTER}), strict=True
    ):
        assert shard.rows == [row for row in lane if row not in filtered]
    read(client, world, point.other(filter=shuffled_tables.FILTER), filtered)
    for lane, shard in zip(base.rows, client.read({**of_lanes, "dataset": "inner"}), strict=True):
        assert shard.rows == [row for row in lane if world.rows[row].request in world.joined]
    for lane, shard in zip(base.rows, client.read({**of_lanes, "sample": {"rate": 0.5}}), strict=True):
        sampled = set(shard.rows)
        assert shard.rows == [row for row in lane if row in sampled]


def check_batches(client: Client, rng: random.Random, point: Point, base: Read) -> None:
    """Sees that steps have rows of all lanes, and that streams resume in mid-window."""
    if point.rules.requests:
        of_lanes = [
            [unit for seen in lane for window in seen.by_window() for unit in units(base.table, window)]
            for lane in base.lanes
        ]
    else:
        of_lanes = [[[row] for row in lane] for lane in base.rows]
    of, per_lane = rng.choice([n for n in range(1, 9) if point.lanes % n == 0]), rng.randrange(1, 100)
    shards = client.read(point.batches(per_lane, of))
    for index, shard in enumerate(shards):
        assert shard.batches == _steps(of_lanes, index, of, per_lane)
    dropped = client.read({**point.batches(per_lane, of), "tail": "drop"})
    count = min(len(lane) // per_lane for lane in of_lanes)
    assert [s.batches for s in dropped] == [s.batches[:count] for s in shards]
    unit = "requests" if point.rules.requests else "rows"
    leftover = {left["lane"]: left[unit] for s in dropped for left in s.report["leftover"]}
    assert leftover == {i: left for i, lane in enumerate(of_lanes) if (left := len(lane) - count * per_lane)}
    check_resuming(client, rng, point, of_lanes, shards, per_lane)


def check_resuming(
    client: Client,
    rng: random.Random,
    point: Point,
    of_lanes: list[list[list[int]]],
    shards: list[Shard],
    per_lane: int,
) -> None:
    """Sees that streams resume from cursors with the very next row."""
    shard, of = rng.choice(shards), len(shards)
    if not shard.batches:
        return
    # One shard, from a cursor in the middle of it, with batches of another size.
    step = rng.randrange(len(shard.batches))
    index, again = shards.index(shard), rng.randrange(1, 100)
    resumed = {
        "dataset": point.query["dataset"],
        "cursor": shard.cursors[step],
        point.size: again * point.lanes // of,
    }
    left = [lane[(step + 1) * per_lane :] for lane in of_lanes]
    assert [s.batches for s in client.read(resumed)] == [_steps(left, index, of, again)]
    # All shards, as another number of shards.
    step = min(step, *(len(s.batches) - 1 for s in shards))
    if step >= 0:
        other = rng.choice([n for n in range(1, 9) if point.lanes % n == 0])
        cursors = [s.cursors[step] for s in shards]
        left = [lane[(step + 1) * per_lane :] for lane in of_lanes]
        resumed = {
            **resumed,
            "cursor": cursors,
            "shard": {"of": other},
            point.size: again * point.lanes // other,
        }
        for number, s in enumerate(client.read(resumed)):
            assert s.batches == _steps(left, number, other, again)


def check_unpermuted(client: Client, world: World, point: Point) -> None:
    """Sees that without windows the rows of a split come as stored, and splits in the order that was asked for."""
    shuffled = {name: point.query[name] for name in ("seed", "epoch", "lanes")}
    if point.rules.ranged or point.rules.requests:
        return
    expected = stored_order(world)
    for query in ({"lanes": point.lanes}, {**shuffled, "order": "shuffled", "shuffle": "splits"}):
        query = {"dataset": "rows", **query}
        keys, lanes = planned(world, client.explain(query))
        if "order" in query:
            assert keys == planned(world, client.explain(point.query))[0]
        elif expected is not None:
            assert keys == expected
        table = table_of(world, keys, point, set())
        assert lanes == window_oracle.deal(table.splits, point.lanes, whole=False)
        read = client.read({**query, "shard": {"of": point.lanes}, "batch_rows": 50})
        for lane, shard in zip(lanes, read, strict=True):
            stored = [row for split, begin, end in lane for row in table.splits[split].rows[begin:end]]
            assert shard.rows == [row for row in stored if row in table.kept]


def _steps(of_lanes: list[list[list[int]]], shard: int, of: int, per_lane: int) -> list[list[int]]:
    """The rows of each step, when lanes contribute units."""
    return [[row for unit in step for row in unit] for step in steps(of_lanes, shard, of, per_lane)]


# spec: order-1, order-3, order-4, order-5, order-6, order-7, order-9, order-10, order-12, order-13, order-14, order-15, order-16, order-17, order-20, order-22, order-23, order-24, order-25, order-26
# spec: cursor-10, cursor-11, cursor-15, cursor-23, request-4
@pytest.mark.parametrize("group", range(15 if LONG else 1))
@pytest.mark.timeout(900)  # a group takes up to three minutes on a busy machine
def test_windows_are_as_specified(tmp_path: Path, group: int) -> None:
    drawn = Drawn()
    for number in range(TABLES):
        rng = random.Random(1000 * group + number)
        world = shuffled_tables.make(tmp_path / str(number), 1000 * group + number, plain=number == 0)
        with Server(world.config) as server:
            client = Client(server.address)
            for _ in range(POINTS):
                check_point(client, rng, world, drawn)
            client.close()
    drawn.check()


def check_point(client: Client, rng: random.Random, world: World, drawn: Drawn) -> None:
    """Checks a random query."""
    point = draw_point(rng, world)
    try:
        base = read(client, world, point)
        check_dropped(client, world, point, base)
        check_batches(client, rng, point, base)
        check_unpermuted(client, world, point)
        priorities = Priorities()
        one = point.other(lanes=1)
        ways = [point, one, point.other(shuffle_window=rng.randrange(16, 4096))]
        reads = [base, *(read(client, world, way) for way in ways[1:])]
        for way, found in zip(ways, reads, strict=True):
            for seen in (s for lane in found.lanes for s in lane):
                priorities.add(found.table, seen, way.rules)
        priorities.check()
        for seen in (s for lane in base.lanes for s in lane):
            drawn.add_order(base.table, seen, point.rules)
        epoch = read(client, world, one.other(epoch=point.query["epoch"] + 1))
        seed = read(client, world, one.other(seed=point.query["seed"] + 1))
        if len(base.table.kept) > 50:
            assert all(other.rows != reads[1].rows for other in (epoch, seed))
        # Cuts are drawn by seed, epoch and split alone: with the same seeds for all points of a table, the same few
        # draws would be counted as many.
        for other in (point.other(lanes=8, seed=point.query["seed"] + n) for n in range(5)):
            keys, lanes = planned(world, client.explain(other.batches(1, 1)))
            drawn.add_cuts(check_lanes(table_of(world, keys, other, set()), lanes, other))
        if not point.rules.ranged:
            drawn.add(reads[1].parts, {"epochs": epoch.parts, "seeds": seed.parts})
    except AssertionError as wrong:
        raise AssertionError(f"{wrong}\n{point}\n{world.layout}") from wrong
