"""The examples that train from an IterableDataset, as a user runs them."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_runs import EXAMPLES, finished, killed, losses, ranks
from lake import Lake
from pyiceberg.types import FloatType, IntegerType, ListType, LongType, TimestamptzType
from server import Server

README = Path(__file__).parents[3] / "README.md"
ROWS = 9000


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rng = random.Random(5)
    made = Lake(tmp_path_factory.mktemp("shown"))
    shown: dict[str, Any] = {"request_id": LongType(), "item_id": LongType(), "label": IntegerType()}
    rows = []
    for i in range(ROWS):
        item = rng.randrange(50)
        rows.append({"request_id": i // 5, "item_id": item, "label": int(rng.random() < item / 50)})
    made.write("ml.shown", shown, ("request_id", 8), rows)
    dataset = {"training": {"table": "ml.shown"}, "key": ["request_id"]}
    with Server(made.config({"homefeed": dataset})) as server:
        yield server.address


@pytest.mark.timeout(300)
def test_killed_ranks_resume_with_a_different_number(address: str, tmp_path: Path) -> None:
    want = losses(finished(ranks(1, "train_ranks.py", address, "homefeed", str(tmp_path / "whole.pt"))))
    steps = len(want) // 2
    assert steps > ROWS // 64 - 4
    assert sorted(want) == [(epoch, step) for epoch in range(2) for step in range(steps)]

    checkpoint = tmp_path / "checkpoint.pt"
    first = killed(ranks(2, "train_ranks.py", address, "homefeed", str(checkpoint)), after=8)
    then = losses(finished(ranks(1, "train_ranks.py", address, "homefeed", str(checkpoint))))
    at = min(then)
    assert at > (0, 0)
    assert at[1] % 5 == 0, "behind a checkpoint"
    assert set(first) | set(then) == set(want)
    assert {**first, **then} == pytest.approx(want, abs=1e-4)


@pytest.mark.timeout(300)
def test_four_jobs_of_a_sweep(address: str) -> None:
    rates = ["0.001", "0.03", "0.1", "0.3"]
    command = [sys.executable, str(EXAMPLES / "sweep.py"), address, "homefeed", *rates]
    *lines, best = finished(command).splitlines()
    found = dict(line.removeprefix("rate ").split(": loss ", 1) for line in lines)
    assert list(found) == rates
    assert len(set(found.values())) == 4
    assert best == f"best: {min(found, key=lambda rate: float(found[rate]))}"
    assert float(found["0.001"]) > min(map(float, found.values())), "what learns learns more"


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Tables of the demo's columns: some like movies of even numbers, others those of odd ones."""
    rng = random.Random(6)
    made = Lake(tmp_path_factory.mktemp("ratings"))
    ids = ListType(element_id=900, element_type=LongType(), element_required=False)
    rows, histories = [], []
    begin = 1_300_000_000_000_000  # 2011, in microseconds
    for request in range(600):
        odd = request % 2
        for _ in range(4):
            movie = rng.randrange(40)
            when = begin + request * 400_000_000_000
            rating = 5.0 if movie % 2 == odd else 1.0
            rows.append({"request_id": request, "movie_id": movie, "rating": rating, "ts": when})
        seen = [2 * rng.randrange(20) + odd for _ in range(rng.randrange(1, 8))]
        if request % 7:
            known = {"ratings_before": len(seen), "mean_rating": 3.0, "last_movies": seen}
            histories.append({"request_id": request, **known})
    rated: dict[str, Any] = {
        "request_id": LongType(), "movie_id": LongType(), "rating": FloatType(), "ts": TimestamptzType(),
    }  # fmt: skip
    history: dict[str, Any] = {
        "request_id": LongType(), "ratings_before": IntegerType(), "mean_rating": FloatType(), "last_movies": ids,
    }  # fmt: skip
    made.write("ml.ratings", rated, ("request_id", 8), rows)
    made.write("features.user_history", history, ("request_id", 4), histories)
    dataset = {
        "training": {"table": "ml.ratings"},
        "key": ["request_id"],
        "staging": [{"table": "features.user_history"}],
    }
    with Server(made.config({"movielens": dataset})) as server:
        yield server.address


@pytest.mark.timeout(300)
def test_two_towers_learn_who_likes_what(ratings: str) -> None:
    printed = finished([sys.executable, str(EXAMPLES / "movielens_towers.py"), ratings])
    before, *after = [float(loss) for loss in re.findall(r"loss ([\d.]+)$", printed, re.MULTILINE)]
    assert len(after) == 2
    assert after[-1] < before, "the later ratings are known better"


def test_the_trainer_of_the_readme(ratings: str, tmp_path: Path) -> None:
    section = README.read_text().partition("## Training with PyTorch\n")[2]
    found = re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    block = found[1]
    assert len([line for line in block.splitlines() if line]) <= 12
    program = tmp_path / "trainer.py"
    private = 'penstock.open(".demo/tables/penstock.yaml")'
    assert private in block
    trainer = block.replace(private, f'penstock.connect("{ratings}")')
    program.write_text(trainer.replace("model =", "torch.manual_seed(1)\nmodel =") + "print(loss.item())\n")
    assert 0 < float(finished([sys.executable, str(program)])) < 25

    misspelt = tmp_path / "misspelt.py"
    misspelt.write_text(block.replace("columns=", "colums="))
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\n[mypy-pyarrow.*]\nignore_missing_imports = True\n")
    checked = [sys.executable, "-m", "mypy", "--config-file", str(settings)]
    finished([*checked, str(program)])
    refused = subprocess.run([*checked, str(misspelt)], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert 'Unexpected keyword argument "colums"' in refused.stdout
    assert 'did you mean "columns"?' in refused.stdout
