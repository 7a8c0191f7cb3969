"""Ray Train with 2, 4 and 2 workers, one of which is killed in the middle of each leg."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.train
import ray.train.torch
import train_loop
from lake import Lake
from pyiceberg.types import LongType
from ray import cloudpickle
from server import Server
from train_loop import EVERY, QUERY, ROWS, STEPS, attempts, train

import penstock
from penstock import errors
from penstock.ray.train import merged
from penstock.torch import IterableDataset

pytest_plugins = ["local_ray"]
pytestmark = pytest.mark.timeout(900)  # each start of the workers takes seconds of CPU
cloudpickle.register_pickle_by_value(train_loop)  # which the workers of Ray do not find

# For each leg, its number of workers, the step at which its last worker is killed once, and the step at which it ends.
# Steps are counted over two epochs.
LEGS: list[tuple[int, int | None, int]] = [(2, None, 12), (4, 17, 24), (2, None, 2 * STEPS)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    made = Lake(tmp_path_factory.mktemp("train") / "lake")
    rows = [{"row": i, "request_id": i // 6} for i in range(ROWS)]
    made.write("ml.rows", {"row": LongType(), "request_id": LongType()}, ("request_id", 8), rows, files=2)
    with Server(made.config({"d": {"training": {"table": "ml.rows"}, "key": ["request_id"]}})) as server:
        yield server.address


def fit(loop: Any, config: dict[str, Any], world: int, folder: Path) -> None:
    """Runs a leg of the run whose checkpoints are in a folder."""
    ray.train.torch.TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=world, resources_per_worker={"CPU": 0.25}),
        run_config=ray.train.RunConfig(
            storage_path=str(folder), name="run", failure_config=ray.train.FailureConfig(max_failures=1)
        ),
    ).fit()


@pytest.fixture(scope="module")
def whole(address: str) -> list[list[int]]:
    """The rows of each step of two epochs."""
    found: list[list[int]] = []
    with penstock.connect(address) as client:
        for epoch in range(2):
            with client.read("d", epoch=epoch, tail="drop", **QUERY) as stream:
                found += [sorted(batch.column("row").to_pylist()) for batch in stream]
    assert len(found) == 2 * STEPS
    return found


def begun(ranks: list[list[dict[str, Any]]], whole: list[list[int]]) -> int:
    """Checks what the ranks of one attempt wrote, and returns the step at which all of them began."""
    firsts = {steps[0]["step"] for steps in ranks}
    assert len(firsts) == 1, "all ranks resume at one step"
    first = int(firsts.pop())
    for steps in ranks:
        assert [one["step"] for one in steps] == list(range(first, first + len(steps)))
    for step, parts in enumerate(zip(*ranks, strict=False), first):
        rows = sorted(chain(*[part["rows"] for part in parts]))
        assert rows == whole[step], f"step {step} with {len(ranks)} workers"
    return first


@pytest.mark.usefixtures("local_ray")
def test_global_steps_are_equal_for_any_number_of_workers(
    address: str, whole: list[list[int]], tmp_path: Path
) -> None:
    begin = 0
    for number, (world, kill, end) in enumerate(LEGS):
        folder = tmp_path / str(number)
        folder.mkdir()
        config: dict[str, Any] = {
            "address": address,
            "folder": str(folder),
            "kill": kill,
            "wait": {},
            "end": end,
        }
        fit(train, config, world, tmp_path / "checkpoints")
        started = attempts(folder, world)
        assert len(started) == (1 if kill is None else 2)
        for i, ranks in enumerate(started):
            first = begun(ranks, whole)
            if i == 0:
                assert first == begin
            else:  # Ray may not have got the last checkpoint before the kill
                assert begin <= first <= int(kill or 0)
                assert first % EVERY == 0
        assert {steps[-1]["step"] for steps in started[-1]} == {end - 1}
        begin = end


def test_workers_come_and_go_without_a_line_of_the_users(
    address: str, whole: list[list[int]], tmp_path: Path
) -> None:
    """ScalingConfig(num_workers=(2, 4)), in a process of its own whose Ray gets a node, and loses it."""
    program = Path(__file__).with_name("elastic_train.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(program.parent), *sys.path])}
    subprocess.run([sys.executable, program, address, tmp_path], env=environment, timeout=800, check=True)
    two, four = attempts(tmp_path, 2), attempts(tmp_path, 4)
    assert (len(two), len(four)) == (2, 1)
    starts = [begun(ranks, whole) for ranks in (two[0], four[0], two[1])]
    assert starts[0] == 0
    assert 0 <= starts[1] <= 6
    assert starts[1] <= starts[2] <= 12
    assert {step % EVERY for step in starts} == {0}
    assert {steps[-1]["step"] for steps in two[1]} == {STEPS - 1}


def test_a_checkpoint_without_the_positions_of_all_ranks_is_refused(address: str, tmp_path: Path) -> None:
    """The run would otherwise begin again at its first step."""
    with pytest.raises(errors.Invalid, match="no position of a dataset") as failed:
        merged(tmp_path)
    assert "penstock.ray.report" in failed.value.remedy
    ranks = [IterableDataset(address, "d", nulls="error", rank=rank, world=2, **QUERY) for rank in range(2)]
    for rank, data in enumerate(ranks):
        next(iter(data))
        (tmp_path / f"penstock-rank-{rank}.json").write_text(json.dumps(data.state_dict()))
        if rank == 0:
            with pytest.raises(errors.Invalid, match="no state is from rank 1"):
                merged(tmp_path)
    assert [cursor["shard"]["index"] for cursor in merged(tmp_path)["cursor"]] == [0, 1]
