"""The parts of a plan that tasks of engines read."""

from __future__ import annotations

import itertools
import random
from typing import Any

from penstock.parts import dealt, together
from penstock.plan import Endpoint, JoinedFiles


def test_groups_are_consecutive_endpoints_of_the_same_files() -> None:
    rng = random.Random(57)
    for _ in range(300):
        count, parallelism = rng.randrange(1, 30), rng.randrange(1, 12)
        joined = [rng.choice([None, *(JoinedFiles(i, 2) for i in range(2))]) for _ in range(3)]
        rows = [rng.choice([rng.randrange(100), None]) if rng.random() < 0.1 else 7 for _ in range(count)]
        endpoints = [Endpoint(b"", n, n, (str(i),), joined[i * 3 // count]) for i, n in enumerate(rows)]
        groups = together(endpoints, parallelism)
        assert [one for group in groups for one in group] == endpoints
        sizes = [1] * count if None in rows else [one or 0 for one in rows]
        weight = dict(zip(endpoints, sizes, strict=True))
        several = [group for group in groups if len(group) > 1]
        assert all(group[0].files is not None and len({one.files for one in group}) == 1 for group in several)
        assert all(sum(weight[one] for one in group) * parallelism <= sum(sizes) for group in several)
        for group, following in itertools.pairwise(groups):  # no group could have been longer
            more = (sum(weight[one] for one in group) + weight[following[0]]) * parallelism > sum(sizes)
            assert more or group[0].files is None or following[0].files != group[0].files


def test_parts_have_the_numbers_of_their_splits() -> None:
    plan: Any = None
    files = [JoinedFiles(i // 3, 2) for i in range(6)]
    endpoints = [Endpoint(b"", 2, 1, (str(i),), one) for i, one in enumerate(files)]
    for parallelism, sizes in (1, [3, 3]), (3, [2, 1, 2, 1]), (6, [1] * 6):
        parts = dealt(plan, endpoints, parallelism)
        assert [len(part.endpoints) for part in parts] == sizes
        assert [part.first + i for part in parts for i in range(len(part.endpoints))] == list(range(6))
        assert [one for part in parts for one in part.endpoints] == endpoints
    assert dealt(plan, [], 3) == []
