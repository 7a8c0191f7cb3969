"""The examples of training frameworks, killed in the middle of an epoch and started again."""

from __future__ import annotations

import os
import random
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_runs import EXAMPLES, Losses, finished, killed, losses, ranks
from lake import Lake
from pyiceberg.types import IntegerType, LongType
from server import Server

KILLS = 4 if os.environ.get("PENSTOCK_LONG") == "1" else 1
STEP_ROWS, EPOCHS, CHECKPOINT_STEPS = 64, 2, 5
EVEN_STEPS = 60  # of an epoch: those that any number of ranks makes. The frameworks count steps over epochs
# One rank trains on the rows that are left over, two do not: then what follows differs.
ROWS = {"even": EVEN_STEPS * STEP_ROWS, "uneven": EVEN_STEPS * STEP_ROWS + 28}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rng = random.Random(7)
    made = Lake(tmp_path_factory.mktemp("shown"))
    shown: dict[str, Any] = {"request_id": LongType(), "item_id": LongType(), "label": IntegerType()}
    datasets = {}
    for name, count in ROWS.items():
        rows = []
        for i in range(count):
            item = rng.randrange(500)
            rows.append({"request_id": i // 5, "item_id": item, "label": int(rng.random() < item / 500)})
        made.write(f"ml.{name}", shown, ("request_id", 8), rows)
        datasets[name] = {"training": {"table": f"ml.{name}"}, "key": ["request_id"]}
    with Server(made.config(datasets)) as server:
        yield server.address


# spec: trainer-24
@pytest.mark.timeout(300 + 240 * KILLS)
@pytest.mark.parametrize(
    "example", ["lightning_fit.py", "transformers_trainer.py", "accelerate_loop.py", "train_fsdp.py"]
)
def test_examples_that_are_killed_make_each_step_once(address: str, tmp_path: Path, example: str) -> None:
    def command(dataset: str, folder: str, world: int) -> list[str]:
        return ranks(world, example, address, dataset, str(tmp_path / folder))

    rng = random.Random(example)
    wants: dict[str, Losses] = {}
    for kill in range(KILLS):
        # Two ranks that are killed once do not come to the end of an epoch.
        dataset, folder = ("even" if kill else "uneven"), f"killed-{kill}"
        if dataset not in wants:
            wants[dataset] = losses(finished(command(dataset, f"whole-{dataset}", 1)))
        want = wants[dataset]
        assert len(set(want.values())) > len(want) * 0.9, "losses tell steps apart"
        made: Losses = {}
        steps = (EPOCHS * EVEN_STEPS - 20) // (kill + 1)
        for _ in range(kill + 1):
            after = rng.randrange(CHECKPOINT_STEPS + 2, min(steps, 30))
            some = killed(command(dataset, folder, 2), after)
            assert not made or min(some)[1] % CHECKPOINT_STEPS == 0
            made |= some
        last = losses(finished(command(dataset, folder, 1)))
        at = min(last)
        assert at > (0, 0), "it resumed"
        assert at[1] % CHECKPOINT_STEPS == 0, "right after a checkpoint"
        made |= last
        assert set(made) >= {(epoch, step) for epoch in range(EPOCHS) for step in range(EVEN_STEPS)}
        assert made == pytest.approx({place: want[place] for place in made}, abs=2e-5)


# spec: trainer-24
def test_a_checkpoint_that_was_not_completed_is_passed_over(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "transformers_trainer.py"))
    assert example["last_checkpoint"](str(tmp_path / "none")) is None
    for step, files in {5: ["complete"], 15: ["complete"], 20: ["model.safetensors"]}.items():
        for name in files:
            (tmp_path / f"checkpoint-{step}").mkdir()
            (tmp_path / f"checkpoint-{step}" / name).touch()
    assert example["last_checkpoint"](str(tmp_path)) == str(tmp_path / "checkpoint-15")
