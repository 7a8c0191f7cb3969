"""Trainers of a mix, and their server, that are killed again and again, as in test_kills."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from killed_rank import MIX, QUERY, SECOND, train_mix
from lake import Lake
from pyiceberg.types import ListType, LongType
from server import Server
from test_kills import KILLS, Run, disturb

import penstock

ROWS = {"d": 2400, "e": 600}
SHARES = {"d": 36, "e": 12}
STEPS = ROWS["d"] // SHARES["d"]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(5)
    made = Lake(tmp_path_factory.mktemp("killed mix"))
    pad = ListType(element_id=900, element_type=LongType(), element_required=False)
    columns = {"row": LongType(), "request_id": LongType(), "pad": pad}
    datasets: dict[str, Any] = {}
    for name, count in ROWS.items():
        rows = [
            {"row": i, "request_id": i // 6, "pad": [rng.randrange(2**60) for _ in range(200)]}
            for i in range(count)
        ]
        made.write(f"ml.{name}", columns, ("request_id", 8), rows, files=2)
        datasets[name] = {"training": {"table": f"ml.{name}"}, "key": ["request_id"], "staging": []}
    return made.config(datasets)


def undisturbed(address: str, epoch: int, world: int) -> list[list[list[int]]]:
    """For each step the rows of each rank, from undisturbed mixes."""
    query = {name: value for name, value in QUERY.items() if name != "tail"}
    ranks = []
    with penstock.connect(address) as client:
        for rank in range(world):
            with penstock.mix(MIX, client=client, shard=(rank, world), epoch=epoch, **query) as mix:
                ranks.append(
                    [
                        [
                            row + SECOND * source
                            for row, source in zip(
                                batch.column("row").to_pylist(),
                                batch.column("source").indices.to_pylist(),
                                strict=True,
                            )
                        ]
                        for batch in mix
                    ]
                )
    return [list(step) for step in zip(*ranks, strict=True)]


# spec: mix-14
@pytest.mark.timeout(60 + 30 * KILLS)
def test_kills_neither_lose_nor_duplicate_rows_of_a_mix(config: Path, tmp_path: Path) -> None:
    with Server(config) as server:
        address = server.address
    rng, run = random.Random(KILLS), Run()
    with Server(config, listen=address) as server:
        kinds = Counter(disturb(run, server, rng, tmp_path / str(i), i, train_mix) for i in range(KILLS))
        assert set(kinds) == {"rank", "server"}

        last, _ = run.last
        for epoch in range(last + 1):
            worlds = {world: undisturbed(address, epoch, world) for world in (1, 2, 4)}
            assert {len(steps) for steps in worlds.values()} == {STEPS}
            for step, [rows] in enumerate(worlds[1]):
                counts = Counter(row >= SECOND for row in rows)
                assert counts == {False: SHARES["d"], True: SHARES["e"]}
                ranks = run.steps.get((epoch, step))
                if ranks is not None:
                    assert ranks == worlds[len(ranks)][step], f"epoch {epoch}, step {step}"
                    assert sorted(chain(*ranks)) == sorted(rows), "one step for all ranks"
    every = [(epoch, step) for epoch in range(last + 1) for step in range(STEPS)]
    assert list(run.steps) == [place for place in every if place <= run.last], "none lost, none twice"
