"""Reads a dataset on a Ray of three nodes, one of which is lost in the middle: lost_node.py ADDRESS FOLDER.

It writes the rows into the file `rows` as JSON. The node's raylet is killed, so that Ray loses the node's workers and its blocks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import local_ray
import pyarrow as pa
import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster

import penstock.ray

ROW = 1500


class LoseNodeOnce:
    """A function for `map_batches` that kills the raylet of its node, the first time that it gets a row."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __call__(self, batch: pa.Table) -> pa.Table:
        if ROW in batch.column("row").to_pylist() and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return batch


def main(address: str, folder: Path) -> None:
    """Reads all rows."""
    local_ray.prepare()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = Cluster(initialize_head=True, head_node_args=local_ray.HEAD)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=local_ray.OBJECT_STORE)
        ray.init(address=cluster.address, log_to_driver=False)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.target_max_block_size = 4000
        context.execution_options.preserve_order = True
        found = penstock.ray.read(address, "d", columns=["row"], batch_rows=40)
        lost = found.map_batches(LoseNodeOnce(folder / "lost"), batch_format="pyarrow")
        rows = pa.concat_tables(ray.get(lost.to_arrow_refs()))
        (folder / "rows").write_text(json.dumps(rows.column("row").to_pylist()))
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
