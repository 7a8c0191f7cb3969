"""A loop whose actors are on two nodes, one of which is lost in the middle: lost_actors.py CONFIG PROGRAM FOLDER.

Actors read from a private server of their node. The raylet of an actor's node is killed, so that Ray loses the node's actors and
the results that it holds. The file `rows` has the rows of each step as JSON, and `processes` the actors'.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import local_ray
import pyarrow as pa
import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster

import penstock
import penstock.ray

LOST = 10  # the step after which a node is lost


def rows(batch: pa.RecordBatch) -> tuple[list[int], int, int]:
    """A transform: the rows, the actor's process, and the raylet that started it."""
    return batch.column("row").to_pylist(), os.getpid(), os.getppid()


def main(config: str, program: str, folder: Path) -> None:
    """Reads all steps."""
    local_ray.prepare()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = Cluster(initialize_head=True, head_node_args=local_ray.HEAD)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=local_ray.OBJECT_STORE)
        ray.init(address=cluster.address, log_to_driver=False)
        query: Any = {"columns": ["row"], "batch_rows": 16}
        found: list[tuple[list[int], int]] = []
        with penstock.ray.transformed(
            lambda: penstock.open(config, program=program), "d", rows, actors=(2, 2), **query
        ) as steps:
            crew = steps._crew
            crew.resize(2)
            ray.get(crew.starting)
            for (values, process, raylet), _ in steps:
                found.append((values, process))
                if len(found) == LOST:
                    assert len({process for _, process in found}) == 2
                    os.kill(raylet, signal.SIGKILL)
        (folder / "rows").write_text(json.dumps([values for values, _ in found]))
        (folder / "processes").write_text(json.dumps([process for _, process in found]))
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
