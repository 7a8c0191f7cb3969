"""The oracle of shuffled windows accepts what the specification says, and finds what differs from it."""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from window_draws import Drawn
from window_oracle import (
    Batch,
    Part,
    Priorities,
    Rules,
    Run,
    Seen,
    Split,
    Table,
    check_order,
    check_requests,
    deal,
    divided,
    observe,
    parts,
    runs,
    shares,
    units,
)

Blocks = Callable[[Run, Rules, random.Random], list[list[int]]]


def table(rng: random.Random, deleted: float) -> Table:
    """Splits of two buckets over some days, with requests of a few rows."""
    request: dict[int, int | None] = {}
    splits = []
    for bucket in range(2):
        for _ in range(3):
            rows: list[int] = []
            for _ in range(rng.randrange(10, 60)):
                key = rng.choice([None, rng.randrange(60), 1000 + len(request)])
                for _ in range(rng.randrange(1, 6)):
                    request[len(request)] = key
                    rows.append(len(request) - 1)
            splits.append(Split((bucket, 2), rows))
    return Table(splits, request, {row for row in request if rng.random() >= deleted})


def right(run: Run, rules: Rules, rng: random.Random) -> list[list[int]]:
    """The rows of each window as the specification has them."""
    count = -(-len(run.rows) // rules.window)
    found: list[list[int]] = [[] for _ in range(count)]
    for begin, end in itertools.pairwise(shares(len(run.rows), rules.parts)):
        part = run.rows[begin:end]
        start = rng.randrange(max(1, len(part)))
        turned = part[start:] + part[:start]
        for window, (low, high) in enumerate(itertools.pairwise(shares(len(part), count))):
            found[window] += turned[low:high]
    return found


def consecutive(run: Run, rules: Rules, rng: random.Random) -> list[list[int]]:
    """Windows of consecutive rows."""
    del rng
    return [run.rows[at : at + rules.window] for at in range(0, len(run.rows), rules.window)]


def last_shares_are_larger(run: Run, rules: Rules, rng: random.Random) -> list[list[int]]:
    """The last parts and blocks have one row more, rather than the first ones."""
    found = right(Run(run.first, run.rows[::-1]), rules, rng)
    return found[::-1]


def one_block_turns_back(run: Run, rules: Rules, rng: random.Random) -> list[list[int]]:
    """Two windows have changed places in the first part."""
    found = right(run, rules, rng)
    if len(found) > 2:
        first = set(run.rows[: shares(len(run.rows), rules.parts)[1]])
        one, other = found[0], found[1]
        found[0] = [r for r in one if r not in first] + [r for r in other if r in first]
        found[1] = [r for r in other if r not in first] + [r for r in one if r in first]
    return found


def a_part_too_many(run: Run, rules: Rules, rng: random.Random) -> list[list[int]]:
    """A run has one part more."""
    return right(run, Rules(rules.window, rules.parts + 1), rng)


def rows_change_windows(run: Run, rules: Rules, rng: random.Random) -> list[list[int]]:
    """A row of the first window comes with the last one."""
    found = right(run, rules, rng)
    if len(found) > 1:
        found[-1].append(found[0].pop(len(found[0]) // 2))
    return found


def read(of: Table, lane: Sequence[Run], rules: Rules, blocks: Blocks, rng: random.Random) -> list[Batch]:
    """What a lane returns, a row at a time."""
    priority = {key: rng.random() for key in {*of.request.values()} if key is not None}
    alone = {row: rng.random() for row in of.request}
    window_of: list[tuple[int, int, list[int]]] = []
    for run in lane:
        place = {row: at for at, row in enumerate(run.rows)}
        windows = blocks(run, rules, rng)
        if rules.requests:
            first = {row: request[0] for request in of.requests for row in request}
            number = {row: w for w, rows in enumerate(windows) for row in rows}
            windows = [
                [r for r in run.rows if r in of.kept and number[first[r]] == w] for w in range(len(windows))
            ]
        for window, rows in enumerate(windows):
            kept = [row for row in rows if row in of.kept]
            if rules.shuffle == "requests":
                kept.sort(key=lambda r: (alone[r] if (k := of.request[r]) is None else priority[k], place[r]))
            else:
                kept.sort(key=alone.__getitem__)
            window_of.append((run.first, window, kept))
    batches: list[Batch] = []
    following = [*((first, window, 0) for first, window, _ in window_of[1:]), (10**6, 0, 0)]
    for (run_at, window, rows), after in zip(window_of, following, strict=True):
        for at, row in enumerate(rows):
            position = (run_at, window, at + 1) if at + 1 < len(rows) else after
            key = of.request[row]
            if rules.requests and at > 0 and key is not None and key == of.request[rows[at - 1]]:
                batches[-1] = Batch([*batches[-1].rows, row], position)
            else:
                batches.append(Batch([row], position))
    return batches


def check(of: Table, rules: Rules, lanes: int, blocks: Blocks, rng: random.Random) -> list[list[Seen]]:
    """Reads all lanes, and checks them."""
    dealt = deal(of.splits, lanes, rules.whole, lambda lane, number: 7 * (lane + number) % 10)
    found = []
    seed = rng.random()
    for lane in dealt:
        of_lane = runs(of, lane, rules)
        found.append(observe(of_lane, read(of, of_lane, rules, blocks, random.Random(seed)), rules))
        for seen in found[-1]:
            check_order(of, seen, rules)
            assert sum(part.rows for part in parts(of, seen, rules)) == len(seen.run.rows)
    if rules.requests:
        check_requests(of, [seen for lane in found for seen in lane])
    return found


def drawn(seed: int) -> tuple[random.Random, Table, Rules, int]:
    rng = random.Random(seed)
    requests = rng.random() < 0.3
    rules = Rules(
        window=rng.choice([4, 16, 100]),
        parts=rng.randrange(1, 9),
        whole=requests,
        requests=requests,
        shuffle="requests" if requests or rng.random() < 0.5 else "rows",
    )
    return rng, table(rng, rng.choice([0, 0.3])), rules, rng.randrange(1, 5)


@pytest.mark.parametrize("seed", range(30))
def test_what_the_specification_says_passes(seed: int) -> None:
    rng, made, rules, lanes = drawn(seed)
    found = check(made, rules, lanes, right, rng)
    priorities = Priorities()
    for lane in found:
        for seen in lane:
            priorities.add(made, seen, rules)
    priorities.check()
    assert all(low <= high for low, high in divided(made, found))
    if rules.requests:
        assert {low for low, _ in divided(made, found)} == {0}
        for seen in (s for lane in found for s in lane):
            found_units = [unit for window in seen.by_window() for unit in units(made, window)]
            assert [len(unit) for unit in found_units] == [*Counter(seen.batches).values()]


@pytest.mark.parametrize(
    "wrong", [consecutive, one_block_turns_back, last_shares_are_larger, a_part_too_many, rows_change_windows]
)
def test_other_windows_are_found(wrong: Blocks) -> None:
    caught = 0
    for seed in range(30):
        rng, made, rules, lanes = drawn(seed)
        try:
            check(made, rules, lanes, wrong, rng)
        except AssertionError:
            caught += 1
    assert caught > 12


def test_the_places_at_which_parts_begin_are_found() -> None:
    made = Table([Split((0, 1), list(range(1000)))], dict.fromkeys(range(1000)), set(range(1000)))
    rules = Rules(window=100, parts=4, shuffle="rows")
    (seen,) = check(made, rules, 1, right, random.Random(3))[0]
    found = [part.start for part in parts(made, seen, rules)]
    assert None not in found
    assert len(set(found)) == 4


def test_priorities_that_differ_are_found() -> None:
    made = Table([Split(None, [0, 1])], {0: 7, 1: 8}, {0, 1})
    run, priorities = Run(0, [0, 1]), Priorities()
    priorities.add(made, Seen(run, [0, 1], [(0, 0)] * 2, [0, 1]), Rules(4))
    priorities.check()
    priorities.add(made, Seen(run, [1, 0], [(0, 0)] * 2, [0, 1]), Rules(4))
    with pytest.raises(AssertionError, match="priorities differ"):
        priorities.check()


def draw(run: Run, starts: Callable[[int, int], int]) -> list[Part]:
    """The parts of a run, each of which begins at a row that depends on its number and rows."""
    rows = [end - begin for begin, end in itertools.pairwise(shares(len(run.rows), 8))]
    begins = [starts(number, count) for number, count in enumerate(rows)]
    return [Part(run.rows[0], i, rows[i], np.zeros(rows[i], np.bool_), begins[i]) for i in range(8)]


@pytest.mark.parametrize(
    ("epochs", "finding"),
    [
        (lambda _run, epoch, number, rows: random.Random(f"{_run} {epoch} {number}").randrange(rows), None),
        (lambda _run, _epoch, _number, _rows: 0, "starts"),
        (lambda run, epoch, _number, rows: random.Random(f"{run} {epoch}").randrange(rows), "parts"),
        (lambda run, _epoch, number, rows: random.Random(f"{run} {number}").randrange(rows), "epochs"),
    ],
)
def test_starts_that_are_not_drawn_are_found(
    epochs: Callable[[int, int, int, int], int], finding: str | None
) -> None:
    drawn = Drawn()
    for number in range(40):
        run = Run(0, list(range(1000 * number, 1000 * number + 200)))
        first, second = (draw(run, functools.partial(epochs, number, epoch)) for epoch in range(2))
        drawn.add(first, {"epochs": second})
    if finding is None:
        drawn.check()
    else:
        with pytest.raises(AssertionError, match=finding):
            drawn.check()
