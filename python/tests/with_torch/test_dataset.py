"""IterableDataset in one process: rows, order, ranks, epochs, lengths, and what an iteration gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trained import Served, rows, served


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("dataset") / "lake") as found:
        yield found


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_give_what_shards_give(here: Served, world: int, prefetch: int) -> None:
    for rank in range(world):
        ds = here.dataset(rank=rank, world=world, prefetch=prefetch)
        expected = here.steps(rank, world)
        assert rows(ds) == expected
        assert len(ds) == len(expected) > 5
