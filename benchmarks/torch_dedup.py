"""How much a model saves by embedding each request's history once: T, and the examples' two-tower model.

Takes batches of T, of ten rows a request and fifty ids a history, indexed and plain,
into memory, and trains the model of `python/examples/deduplicated_model.py` on each
form in turns: forward and backward, one thread. It compares the losses and prints medians.

    make build .venv/torch/.stamp .venv/bench/.stamp
    .venv/bench/bin/python benchmarks/tables.py .bench/full
    .venv/torch/bin/python benchmarks/torch_dedup.py
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Literal

import torch
from torch_conversion import BATCH_ROWS, ROOT, serving

import penstock

ENTRY = "features"
DATASET = {
    "training": {"table": "bench.t"},
    "key": ["request_id"],
    "staging": [{"table": "bench.staging", "name": ENTRY}],
}


def example() -> Any:
    """The module of the example."""
    path = ROOT / "python" / "examples" / "deduplicated_model.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batches(client: penstock.Client, towers: Any, wire: Literal["plain", "indexed"], count: int) -> list[Any]:
    """The first batches of T as tensors."""
    with client.read(DATASET, columns=towers.COLUMNS, wire=wire, batch_rows=BATCH_ROWS) as stream:
        return list(map(towers.converter(stream), itertools.islice(stream, count)))


def step(model: Any, batch: Any, indexed: bool) -> tuple[float, float]:
    """Seconds of forward and backward, and the loss."""
    model.zero_grad()
    began = time.perf_counter()
    scores = model(batch) if indexed else model.scores(model.users(batch["history"]), batch["item_id"])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, batch["label"].float())
    loss.backward()
    return time.perf_counter() - began, loss.item()


def main() -> int:
    """Trains on both forms and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / ".bench" / "full" / "penstock.yaml")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    towers = example()
    with serving(arguments.config) as address, penstock.connect(address) as client:
        indexed = batches(client, towers, "indexed", arguments.batches)
        plain = batches(client, towers, "plain", arguments.batches)
    print("| width | plain, ms a batch | each history once, ms a batch | ratio |")
    print("|---|---|---|---|")
    for width in (16, 64, 128):
        torch.manual_seed(0)
        model = towers.TwoTowers(ENTRY, width)
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for run in range(arguments.runs + 1):  # the first one warms up
            for one, other in zip(indexed, plain, strict=True):
                took, loss = step(model, one, True)
                took_plain, loss_plain = step(model, other, False)
                if abs(loss - loss_plain) > 1e-4:
                    raise SystemExit(f"the loss is {loss} of indexed and {loss_plain} of plain batches")
                if run:
                    seconds[True].append(took)
                    seconds[False].append(took_plain)
        once, each = statistics.median(seconds[True]), statistics.median(seconds[False])
        print(f"| {width} | {each * 1e3:.1f} | {once * 1e3:.1f} | {each / once:.2f} |")
    rows, distinct = sum(batch.rows for batch in indexed), sum(batch[ENTRY].rows for batch in indexed)
    print(f"\n{rows} rows, {distinct} histories: {rows / distinct:.2f} rows for each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
