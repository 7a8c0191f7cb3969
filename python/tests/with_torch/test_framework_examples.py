"""The examples of training frameworks, killed in the middle of an epoch and started again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_runs import finished, killed, losses, ranks
from lake import Lake
from pyiceberg.types import IntegerType, LongType
from server import Server

KILLS = 6 if os.environ.get("PENSTOCK_LONG") == "1" else 1
ROWS, STEP_ROWS, EPOCHS, CHECKPOINT_STEPS = 4000, 64, 2, 5
EVEN_STEPS = ROWS // STEP_ROWS  # those that any number of ranks makes


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rng = random.Random(7)
    made = Lake(tmp_path_factory.mktemp("shown"))
    shown: dict[str, Any] = {"request_id": LongType(), "item_id": LongType(), "label": IntegerType()}
    rows = []
    for i in range(ROWS):
        item = rng.randrange(500)
        rows.append({"request_id": i // 5, "item_id": item, "label": int(rng.random() < item / 500)})
    made.write("ml.shown", shown, ("request_id", 8), rows)
    with Server(
        made.config({"homefeed": {"training": {"table": "ml.shown"}, "key": ["request_id"]}})
    ) as server:
        yield server.address


# spec: trainer-24
@pytest.mark.timeout(300 + 120 * KILLS)
@pytest.mark.parametrize(
    "example", ["lightning_fit.py", "transformers_trainer.py", "accelerate_loop.py", "train_fsdp.py"]
)
def test_examples_that_are_killed_make_each_step_once(address: str, tmp_path: Path, example: str) -> None:
    def command(folder: str, world: int) -> list[str]:
        arguments = (address, "homefeed", str(tmp_path / folder))
        return ranks(world, example, *arguments)

    rng = random.Random(example)
    want = losses(finished(command("whole", 1)))
    assert len(set(want.values())) > len(want) * 0.9, "losses tell steps apart"
    for kill in range(KILLS):
        folder = f"killed-{kill}"
        made: dict[tuple[int, int], float] = {}
        for _ in range(kill + 1):
            some = killed(command(folder, 2), after=rng.randrange(CHECKPOINT_STEPS + 2, 30))
            assert not made or min(some)[1] % CHECKPOINT_STEPS == 0
            made |= some
        last = losses(finished(command(folder, 1)))
        at = min(last)
        assert at > (0, 0), "it resumed"
        assert at[1] % CHECKPOINT_STEPS == 0, "right after a checkpoint"
        made |= last
        assert set(made) >= {(epoch, step) for epoch in range(EPOCHS) for step in range(EVEN_STEPS)}
        assert made == pytest.approx({place: want[place] for place in made}, abs=2e-5)
