"""Ray Train with 2, 4 and 2 workers, one of which is killed in the middle of each leg."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.train
import ray.train.torch
from lake import Lake
from pyiceberg.types import LongType
from ray import cloudpickle
from server import Server

import penstock
import penstock.ray
from penstock import errors
from penstock.ray.train import merged
from penstock.torch import IterableDataset

pytest_plugins = ["local_ray"]
pytestmark = pytest.mark.timeout(900)  # each start of the workers takes seconds of CPU
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which the workers of Ray do not find

ROWS, STEP_ROWS, EVERY = 960, 48, 3
STEPS = ROWS // STEP_ROWS
QUERY: Any = {
    "columns": ["row"],
    "order": "shuffled",
    "seed": 11,
    "lanes": 4,
    "global_batch_rows": STEP_ROWS,
}
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


def train(config: dict[str, Any]) -> None:
    """The loop of a worker: what a user writes, and a line of JSON for each step."""
    data = penstock.ray.resumed(IterableDataset(config["address"], "d", nulls="error", **QUERY))
    context, folder = ray.train.get_context(), Path(config["folder"])
    rank, world = context.get_world_rank(), context.get_world_size()
    written = os.open(folder / f"{world}-{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for epoch in range(data.epoch, 2):
        data.set_epoch(epoch)
        for batch in data:
            step = epoch * STEPS + batch.step
            if rank == world - 1 and step == config["kill"] and not (folder / f"kill-{step}").exists():
                (folder / f"kill-{step}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            line = {"step": step, "rows": batch["row"].tolist(), "pid": os.getpid()}
            os.write(written, json.dumps(line).encode() + b"\n")
            if (step + 1) % EVERY == 0 or step + 1 == config["end"]:
                penstock.ray.report({"step": step}, data)
            if step + 1 == config["end"]:
                return


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


def attempts(folder: Path, world: int) -> list[list[list[dict[str, Any]]]]:
    """For each time that the workers of a leg started, and each rank, its steps."""
    started: list[list[list[dict[str, Any]]]] = []
    for rank in range(world):
        lines = [json.loads(line) for line in (folder / f"{world}-{rank}").read_text().splitlines()]
        for i, pid in enumerate(dict.fromkeys(line["pid"] for line in lines)):
            if len(started) == i:
                started.append([])
            started[i].append([line for line in lines if line["pid"] == pid])
    return started


@pytest.mark.usefixtures("local_ray")
def test_global_steps_are_equal_for_any_number_of_workers(address: str, tmp_path: Path) -> None:
    with penstock.connect(address) as client:
        whole: list[list[int]] = []
        for epoch in range(2):
            with client.read("d", epoch=epoch, tail="drop", **QUERY) as stream:
                whole += [sorted(batch.column("row").to_pylist()) for batch in stream]
    assert len(whole) == 2 * STEPS
    begin = 0
    for number, (world, kill, end) in enumerate(LEGS):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = {"address": address, "folder": str(folder), "kill": kill, "end": end}
        fit(train, config, world, tmp_path / "checkpoints")
        started = attempts(folder, world)
        assert len(started) == (1 if kill is None else 2)
        for i, ranks in enumerate(started):
            firsts = {steps[0]["step"] for steps in ranks}
            assert len(firsts) == 1, "all ranks resume at one step"
            first = firsts.pop()
            if i == 0:
                assert first == begin
            else:  # Ray may not have got the last checkpoint before the kill
                assert begin <= first <= int(kill or 0)
                assert first % EVERY == 0
            for steps in ranks:
                assert [one["step"] for one in steps] == list(range(first, first + len(steps)))
            if i + 1 == len(started):
                assert {steps[-1]["step"] for steps in ranks} == {end - 1}
            for step, parts in enumerate(zip(*ranks, strict=False), first):
                rows = sorted(chain(*[part["rows"] for part in parts]))
                assert rows == whole[step], f"step {step} with {world} workers"
        begin = end


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
