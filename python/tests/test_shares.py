"""The shares of a mix's members, as a function of the step's number."""

from __future__ import annotations

import random
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import pytest

from penstock import Invalid, blend, shares

WINDOW = 10_000


def worst_share(sources: Iterable[int], weights: list[Fraction]) -> float:
    """How far the share of a member is from its weight in the worst window of consecutive rows."""
    found = list(sources)
    assert len(found) >= WINDOW
    worst = 0.0
    for member, weight in enumerate(weights):
        before = [0, *accumulate(int(source == member) for source in found)]
        for start in range(len(found) - WINDOW + 1):
            rows = before[start + WINDOW] - before[start]
            worst = max(worst, abs(rows / WINDOW - float(weight / sum(weights))))
    return worst


def sources(made: tuple[shares.Share, ...], first: int, rows: int) -> list[int]:
    """The members of at least this many rows, from a step on."""
    out: list[int] = []
    while len(out) < rows:
        counts = tuple(share.due(first) * share.rows for share in made)
        out += blend._order(counts)[1].to_pylist()
        first += 1
    return out


CASES: list[tuple[list[float], list[int], int]] = [
    ([0.7, 0.2, 0.1], [1, 1, 1], 1000),
    ([0.7, 0.2, 0.1], [8, 8, 8], 24),
    ([0.7, 0.2, 0.1], [8, 8, 8], 256),
    ([0.7, 0.2, 0.1], [8, 8, 8], 512),
    ([0.7, 0.2, 0.1], [8, 8, 8], 1000),
    ([0.7, 0.2, 0.1], [8, 4, 16], 1024),
    ([0.7, 0.2, 0.1], [8, 8, 8], 8192),
    ([0.7, 0.2, 0.1], [64, 64, 64], 30_000),
    ([0.999, 0.001], [4, 4], 100),
    ([5, 3, 1, 0.5, 0.5], [4, 4, 4, 4, 4], 300),
]


# spec: mix-2
@pytest.mark.parametrize(("weights", "lanes", "rows"), CASES)
def test_shares_are_within_one_percent_over_any_window(
    weights: list[float], lanes: list[int], rows: int
) -> None:
    exact = [shares.weight(weight) for weight in weights]
    made = shares.divide(exact, lanes, rows)
    for share, of in zip(made, lanes, strict=True):
        assert share.rows > 0
        assert share.rows % of == 0
    for first in (0, 12_345):
        assert worst_share(sources(made, first, 2 * WINDOW), exact) <= 0.01


# spec: mix-2, mix-3
def test_shares_of_random_mixes_stay_within_the_bound() -> None:
    rng = random.Random(4)
    refused = 0
    for _ in range(150):
        members = rng.randrange(1, 7)
        weights = [shares.weight(rng.choice([1, 0.1, 0.03, rng.random() + 0.001])) for _ in range(members)]
        lanes = [rng.choice([1, 2, 3, 4, 8, 24, 64]) for _ in range(members)]
        rows = int(10 ** rng.uniform(1, 5))
        try:
            made = shares.divide(weights, lanes, rows)
        except Invalid as e:
            refused += 1
            enough = int(e.remedy.split("=")[1].split(",")[0])
            shares.divide(weights, lanes, enough)  # is not refused
            continue
        whole = sum(weights)
        given = [0] * members
        least = [0] * members  # how far a member was behind its share, at the worst
        most = [0] * members
        for step in range(100):
            counts = [share.due(step) * share.rows for share in made]
            assert sum(counts) > 0, "no step is empty"
            assert all(count % of == 0 for count, of in zip(counts, lanes, strict=True))
            given = [before + count for before, count in zip(given, counts, strict=True)]
            for at, share in enumerate(made):
                exact = share.rate * share.rows * (step + 1)
                least[at] = min(least[at], int(given[at] - exact))
                most[at] = max(most[at], int(given[at] - exact))
        for at, share in enumerate(made):
            assert most[at] - least[at] <= share.rows, "never a whole batch ahead or behind"
            off = abs(share.rate * share.rows / sum(s.rate * s.rows for s in made) - weights[at] / whole)
            assert off <= Fraction(2, 100) * weights[at] / whole
    assert 0 < refused < 75


def test_a_step_of_usual_size_is_the_same_in_each_step() -> None:
    weights = [shares.weight(weight) for weight in (0.7, 0.2, 0.1)]
    made = shares.divide(weights, [8, 8, 8], 8192)
    assert [share.rows for share in made] == [5736, 1640, 816]
    assert {share.rate for share in made} == {Fraction(1)}


# spec: mix-1
def test_a_small_share_is_a_batch_in_every_nth_step() -> None:
    made = shares.divide([shares.weight(0.99), shares.weight(0.01)], [8, 8], 100)
    due = [made[1].due(step) for step in range(800)]
    assert set(due) == {0, 1}
    assert sum(due) == 100
    apart = [at for at, batches in enumerate(due) if batches]
    assert {b - a for a, b in pairwise(apart)} == {8}


# spec: mix-8
def test_the_last_step_is_the_last_one_that_is_due_no_more() -> None:
    for rate in (Fraction(1), Fraction(3, 10), Fraction(14, 5), Fraction(1, 100)):
        share = shares.Share(8, rate)
        for batches in range(30):
            last = share.last_step(batches)
            assert share.before(last) <= batches < share.before(last + 1)


# spec: mix-3
@pytest.mark.parametrize("rows", [23, 200])
def test_a_step_that_is_too_small_is_refused(rows: int) -> None:
    with pytest.raises(Invalid, match="global_batch_rows") as refused:
        shares.divide([shares.weight(weight) for weight in (1, 2, 5)], [64, 64, 64], rows)
    assert refused.value.faults[0].field == "global_batch_rows"
    assert "global_batch_rows=" in refused.value.remedy


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "0.x", None])
def test_what_is_no_weight_is_refused(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        shares.weight(value)
