"""Trains on a Ray whose nodes come and go, with two to four workers: elastic_train.py ADDRESS FOLDER.

The run begins on a node with room for two workers. While they wait at a step, a second node is added, and Ray starts the loop with
four workers. While these wait, the second node is lost, and Ray starts it with two.
"""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import local_ray
import ray
import ray.train
import ray.train.torch
import train_loop
from ray import cloudpickle
from ray.cluster_utils import Cluster

WAIT = {2: 5, 4: 11}  # by the number of workers, the step after which they wait
NODE = {"num_cpus": 2, "object_store_memory": local_ray.OBJECT_STORE}
LOOK = 0.2  # seconds


def fit(address: str, folder: Path) -> None:
    """Trains to the end of the first epoch."""
    ray.train.torch.TorchTrainer(
        train_loop.train,
        train_loop_config={
            "address": address,
            "folder": str(folder),
            "kill": None,
            "wait": WAIT,
            "end": train_loop.STEPS,
        },
        scaling_config=ray.train.ScalingConfig(num_workers=(2, 4), elastic_resize_monitor_interval_s=1.0),
        run_config=ray.train.RunConfig(
            storage_path=str(folder / "checkpoints"),
            name="run",
            failure_config=ray.train.FailureConfig(max_failures=3),
        ),
    ).fit()


def wait_for(file: Path, run: Future[None]) -> None:
    """Waits for a file of the loop; raises what the run raised, or that it ended."""
    while not file.exists():
        with contextlib.suppress(TimeoutError):
            run.result(LOOK)
            raise SystemExit(f"the run ended without {file.name}")


def main(address: str, folder: Path) -> None:
    """Trains, and adds and removes a node: in the main thread, which alone can start nodes."""
    local_ray.prepare()
    cloudpickle.register_pickle_by_value(train_loop)
    cluster, trainer = Cluster(initialize_head=True, head_node_args=local_ray.HEAD), ThreadPoolExecutor(1)
    try:
        cluster.add_node(**NODE)
        ray.init(address=cluster.address, log_to_driver=False)
        run = trainer.submit(fit, address, folder)
        wait_for(folder / "waits-2", run)
        added = cluster.add_node(**NODE)
        wait_for(folder / "waits-4", run)
        cluster.remove_node(added, allow_graceful=False)
        run.result()
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
